//! # PrioSched
//! Pulls from the first of its inputs that has packets.
//!
//! ## Synopsis
//! `PrioSched`
//!
//! `SimplePrioSched` is another name of the same class.
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! Any number of pull inputs, one pull output. Each pull tries the inputs from input 0 on until one gives a
//! packet: strict priority. Inputs that are known to be empty are left out.
//!
//! ## Handlers
//! None beyond those of every element.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! s :: PrioSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! ## See also
//! RoundRobinSched, StrideSched, DRRSched, Queue

use crate::prelude::*;

/// The `PrioSched` element.
pub struct PrioSched;

impl Element for PrioSched {
    const CLASS: &'static str = "PrioSched";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("queues/priosched");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for PrioSched {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut left = max;
        for port in 0..cx.n_inputs() {
            if left > 0 && cx.upstream_active(port) {
                left -= cx.pull(port, left, out);
            }
        }
    }
}
