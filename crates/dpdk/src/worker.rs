//! Threads that handle packets and are registered with DPDK.

use std::marker::PhantomData;

use crate::eal::{Eal, eal_error};
use crate::error::{Error, errno_text};
use crate::mempool;
use crate::packet::set_thread_pool;

/// The calling thread as a worker that DPDK knows, so that it has a cache in every pool; ends when dropped.
///
/// Any thread may handle packets; one that is not registered takes every buffer from the shared part of its
/// pool.
#[derive(Debug)]
pub struct WorkerThread {
    registered: bool,
    /// Registration belongs to the thread.
    _not_send: PhantomData<*mut ()>,
}

impl WorkerThread {
    /// Registers the calling thread, which takes packets from `node`'s pool from now on
    /// ([`set_thread_pool`]).
    ///
    /// Without a running environment this does nothing, and packets come from the heap.
    pub fn register(node: Option<usize>) -> Result<WorkerThread, Error> {
        let mut worker = WorkerThread { registered: false, _not_send: PhantomData };
        if Eal::get().is_none() {
            return Ok(worker);
        }
        // SAFETY: the environment runs.
        if unsafe { dpdk_sys::rte_thread_register() } != 0 {
            // SAFETY: reads the calling thread's error number.
            let errno = unsafe { dpdk_sys::valiant_errno() };
            return Err(eal_error(&format!("no room for another worker: {}", errno_text(errno))));
        }
        worker.registered = true;
        set_thread_pool(mempool::of_node(node));
        Ok(worker)
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        if self.registered {
            set_thread_pool(None);
            mempool::flush_thread_caches();
            // SAFETY: this thread registered itself, and cannot have moved (`!Send`).
            unsafe { dpdk_sys::rte_thread_unregister() };
        }
    }
}
