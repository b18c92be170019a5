//! Pools of mbufs.

use std::ptr::NonNull;

use dpdk_sys::rte_mempool;

/// A pool of mbufs, which lives as long as the process: packets may outlive everything else that knows it.
#[derive(Clone, Copy, Debug)]
pub struct Mempool {
    pool: NonNull<rte_mempool>,
    buffer_len: usize,
}

impl Mempool {
    pub(crate) fn as_ptr(&self) -> *mut rte_mempool {
        self.pool.as_ptr()
    }

    /// Bytes in each buffer, headroom included.
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }
}
