//! # DPDKInfo
//! Sizes of DPDK's memory, as FastClick's configurations give them.
//!
//! It is only accepted: Valiant computes how many buffers are needed from the ports, their queues, and the
//! packets that elements may hold, and warns if there are too few. The numbers are checked, and have no
//! effect.
//!
//! ## Synopsis
//! `DPDKInfo([NB_MBUF, MBUF_SIZE, MBUF_CACHE_SIZE, RX_PTHRESH, ...])`
//!
//! ## Arguments
//! - `NB_MBUF` (*int*): FastClick's number of buffers.
//! - `NB_SOCKET_MBUF`, `MBUF_SIZE`, `MBUF_CACHE_SIZE`, `RX_PTHRESH`, `RX_HTHRESH`, `RX_WTHRESH`,
//!   `TX_PTHRESH`, `TX_HTHRESH`, `TX_WTHRESH`, `DEF_RING_NDESC`, `DEF_BURST_SIZE`, `RING_SIZE`,
//!   `RING_POOL_CACHE_SIZE`, `RING_PRIV_DATA_SIZE` (*int*, keyword), `MEMPOOL_PREFIX` (*string*, keyword):
//!   FastClick's.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! DPDKInfo(NB_MBUF 1048576, MBUF_SIZE 4096, MBUF_CACHE_SIZE 512);
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1);
//! ```
//!
//! ## See also
//! FromDPDKDevice, ToDPDKDevice, EnsureDPDKBuffer

use crate::prelude::*;

const NUMBERS: [&str; 14] = [
    "NB_SOCKET_MBUF",
    "MBUF_SIZE",
    "MBUF_CACHE_SIZE",
    "RX_PTHRESH",
    "RX_HTHRESH",
    "RX_WTHRESH",
    "TX_PTHRESH",
    "TX_HTHRESH",
    "TX_WTHRESH",
    "DEF_RING_NDESC",
    "DEF_BURST_SIZE",
    "RING_SIZE",
    "RING_POOL_CACHE_SIZE",
    "RING_PRIV_DATA_SIZE",
];

/// The `DPDKInfo` element.
pub struct DpdkInfo;

impl Element for DpdkInfo {
    const CLASS: &'static str = "DPDKInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("devices/dpdkinfo");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        args.p::<u32>("NB_MBUF")?;
        for name in NUMBERS {
            args.k::<u32>(name)?;
        }
        args.k::<String>("MEMPOOL_PREFIX")?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn numbers_are_checked() {
        let config =
            "e :: Null; DPDKInfo(65536); DPDKInfo(NB_MBUF 1048576, MBUF_SIZE 4096, MEMPOOL_PREFIX click);";
        assert_eq!(Bench::with_config(config, 1, 1).push(0, b"a").len(), 1);
        assert!(Bench::error("DPDKInfo(many)").contains("NB_MBUF"));
        assert!(Bench::error("DPDKInfo(MBUF_SIZE x)").contains("MBUF_SIZE"));
        assert!(Bench::error("DPDKInfo(ZONK 1)").contains("ZONK"));
    }
}
