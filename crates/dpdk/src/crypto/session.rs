//! Sessions: keys and algorithm on one queue of a device.

use locks::IgnorePoison;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::algorithm::{Aad, Algorithm, Transform};
use super::device::{CryptoDevice, CryptoInfo};
use crate::error::{Error, errno_text};
use crate::fault::Fault;
use crate::log::Mark;

/// The algorithms that a device was found to support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoAbility {
    /// What it is.
    pub info: CryptoInfo,
    /// The algorithms, with keys of 128 bits, and whether of 256 bits too.
    pub algorithms: Vec<(Algorithm, bool)>,
}

impl CryptoDevice {
    /// Opens a device, determines which algorithms it supports, and closes it. The environment must run.
    pub fn try_out(spec: &str) -> Result<CryptoAbility, Error> {
        let device = CryptoDevice::open(spec, 1, 8)?;
        let can = |algorithm: Algorithm, bytes: usize| {
            let (key, auth_key) = ([1; 32], [2; 32]);
            let transform = Transform {
                algorithm,
                encrypt: true,
                key: &key[..bytes],
                auth_key: &auth_key[..algorithm.auth_key_len()],
                aad: Aad::ESP,
            };
            // The device's declaration alone is not sufficient.
            device.session(0, &transform).is_ok()
        };
        let algorithms =
            Algorithm::ALL.into_iter().filter(|a| can(*a, 16)).map(|a| (a, can(a, 32))).collect();
        Ok(CryptoAbility { info: device.info().clone(), algorithms })
    }

    /// A session for one queue.
    pub fn session(
        self: &Arc<Self>,
        queue: usize,
        transform: &Transform<'_>,
    ) -> Result<CryptoSession, Error> {
        let failed = |reason: String| Error::crypto(&self.name, "adding a key", reason);
        if queue >= self.queues.len() {
            return Err(failed(format!("there is no queue {queue}")));
        }
        if !self.can(transform) {
            return Err(failed(format!("it has no {}", transform.algorithm.name()))
                .with_fix(format!("another device: {}", transform.algorithm.drivers().join(", "))));
        }
        if self.open_sessions.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.open_sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(failed(format!("it has {} sessions at most", self.capacity)));
        }
        let mark = Mark::now();
        let pool = self.pool.lock().ignore_poison();
        // SAFETY: the device and its pool live; lengths match slices.
        let session = unsafe {
            match Fault::Session.strikes() {
                true => std::ptr::null_mut(),
                false => {
                    dpdk_sys::valiant_crypto_session(self.device, self.sessions.as_ptr(), &transform.raw())
                }
            }
        };
        drop(pool);
        let Some(session) = NonNull::new(session.cast()) else {
            self.open_sessions.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: reads the calling thread's error number.
            return Err(failed(mark.quote_or(|| errno_text(unsafe { dpdk_sys::valiant_errno() }))));
        };
        let Transform { algorithm, aad, .. } = *transform;
        Ok(CryptoSession { session, device: Arc::clone(self), queue, algorithm, aad })
    }
}

/// Keys and algorithm, ready for use on one queue of a device. When it is dropped, the keys are overwritten.
pub struct CryptoSession {
    pub(super) session: NonNull<u8>,
    pub(super) device: Arc<CryptoDevice>,
    pub(super) queue: usize,
    pub(super) algorithm: Algorithm,
    pub(super) aad: Aad,
}

// SAFETY: a session is only used by `CryptoRun`, which holds its queue's lock, and by its drop.
unsafe impl Send for CryptoSession {}
// SAFETY: as above.
unsafe impl Sync for CryptoSession {}

impl fmt::Debug for CryptoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoSession({:?} on {} queue {})", self.algorithm, self.device.name, self.queue)
    }
}

impl CryptoSession {
    /// The device.
    pub fn device(&self) -> &Arc<CryptoDevice> {
        &self.device
    }

    /// Its algorithm.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Drop for CryptoSession {
    fn drop(&mut self) {
        let Some(slot) = self.device.queues.get(self.queue) else { return };
        let queue = slot.0.lock().ignore_poison();
        let _pool = self.device.pool.lock().ignore_poison();
        // SAFETY: the queue's lock is held, so that nobody uses the session, and the pool's, so that nobody
        // gets it before it is overwritten; a device that has not given packets back may still read it, and
        // keeps it.
        unsafe {
            if dpdk_sys::valiant_crypto_late(queue.as_ptr()) == 0 {
                dpdk_sys::valiant_crypto_session_free(self.device.device, self.session.as_ptr().cast());
                self.device.open_sessions.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
