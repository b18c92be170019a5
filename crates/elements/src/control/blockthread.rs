//! # BlockThread
//! Blocks a thread, to test what does not depend on it.
//!
//! ## Synopsis
//! `BlockThread`
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `block` (write, private): a time, in seconds or with a unit. The worker that has the element does
//!   nothing for so long. It cannot be written over a control socket.
//!
//! ## Threads
//! One instance, on the first worker. The watchdog reports a worker that is blocked for more than five
//! seconds, and a hot swap fails if it has to wait for more than ten.
//!
//! ## Example
//! ```click
//! b :: BlockThread;
//! Script(write b.block 10ms, stop);
//! ```
//!
//! ## See also
//! StaticThreadSched, Script

use crate::plumbing::engine::text;
use crate::prelude::*;
use std::time::Duration;

/// The `BlockThread` element.
pub struct BlockThread;

impl Element for BlockThread {
    const CLASS: &'static str = "BlockThread";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/blockthread");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.write("block", |_, v, _| {
            std::thread::sleep(text::value::<Duration>(v, "bad TIME")?);
            Ok(())
        });
        h.private("block");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use std::time::{Duration, Instant};

    #[test]
    fn it_blocks_for_so_long() {
        let mut bench = Bench::new("BlockThread");
        let start = Instant::now();
        bench.write("block", "20ms");
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(bench.try_write("block", "soon").unwrap_err().to_string().contains("bad TIME"));
    }
}
