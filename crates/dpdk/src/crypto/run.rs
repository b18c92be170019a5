//! A queue in use: a batch of packets is encrypted or decrypted in one call.

use std::ptr::NonNull;
use std::sync::{Arc, MutexGuard};

use dpdk_sys::{
    VALIANT_CRYPTO_DONE, VALIANT_CRYPTO_FORGED, VALIANT_CRYPTO_REFUSED, VALIANT_CRYPTO_VECTOR,
    valiant_crypto_job, valiant_crypto_queue,
};
use locks::IgnorePoison;

use super::algorithm::{Aad, Algorithm, Span};
use super::device::CryptoDevice;
use super::session::CryptoSession;
use crate::batch::Batch;
use crate::fault::Fault;

/// The most packets in one call.
pub const MAX_JOBS: usize = VALIANT_CRYPTO_VECTOR as usize;

impl CryptoDevice {
    /// A queue, for as long as the guard lives. Each worker has its own, so the lock is always free.
    #[inline]
    pub fn queue(&self, queue: usize) -> Option<CryptoRun<'_, '_>> {
        let guard = self.queues.get(queue)?.0.lock().ignore_poison();
        // SAFETY: the queue lives as long as the device, and the lock is held.
        let jobs = unsafe { NonNull::new(dpdk_sys::valiant_crypto_jobs(guard.as_ptr())) }?;
        Some(CryptoRun { device: self, queue, guard, jobs, n: 0, gcm: false, last: None, job: NO_JOB })
    }
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Processed, and authenticated if it was decrypted.
    Done,
    /// The tag is wrong: the packet is forged or damaged.
    Forged,
    /// The device did not accept it.
    Refused,
}

/// What no packet gets.
const NO_JOB: valiant_crypto_job = valiant_crypto_job {
    session: std::ptr::null_mut(),
    mbuf: std::ptr::null_mut(),
    cipher_offset: 0,
    cipher_len: 0,
    auth_offset: 0,
    auth_len: 0,
    digest_offset: 0,
    need: 0,
    status: VALIANT_CRYPTO_REFUSED as u8,
    extended: 0,
    reserved: [0; 2],
    iv: [0; 16],
};

/// A queue in use: [`CryptoRun::add`] for each packet, then [`CryptoRun::process`].
pub struct CryptoRun<'q, 's> {
    device: &'q CryptoDevice,
    queue: usize,
    guard: MutexGuard<'q, NonNull<valiant_crypto_queue>>,
    jobs: NonNull<valiant_crypto_job>,
    n: usize,
    gcm: bool,
    /// The session and the span of the next packets, and the job that they make.
    last: Option<(&'s CryptoSession, Span)>,
    job: valiant_crypto_job,
}

impl<'s> CryptoRun<'_, 's> {
    /// How many packets have been added.
    #[inline]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether none has been added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Adds the work on the next packet of the batch: [`CryptoRun::prepare`] and [`CryptoRun::add_prepared`].
    #[inline]
    pub fn add(&mut self, session: &'s CryptoSession, span: &Span, iv: [u8; 16]) -> bool {
        self.n < MAX_JOBS && self.prepare(session, span) && self.add_prepared(iv)
    }

    /// Says what is to be done to the packets that are added next. The first packet decides on GCM or CBC.
    ///
    /// False, and nothing changed: the session is another queue's or another algorithm's, or there is no
    /// packet that the span could fit.
    #[inline]
    pub fn prepare(&mut self, session: &'s CryptoSession, span: &Span) -> bool {
        // Most packets use the same session and span as the packet before.
        if self.last.is_some_and(|(of, known)| std::ptr::eq(of, session) && known == *span) {
            return true;
        }
        let gcm = session.algorithm == Algorithm::AesGcm;
        let same = std::ptr::eq(Arc::as_ptr(&session.device), self.device) && session.queue == self.queue;
        let Some(need) = span.need(session.algorithm, session.aad) else { return false };
        if !same || (gcm != self.gcm && self.n > 0) {
            return false;
        }
        self.gcm = gcm;
        self.last = Some((session, *span));
        self.job = valiant_crypto_job {
            session: session.session.as_ptr().cast(),
            cipher_offset: span.cipher_offset,
            cipher_len: span.cipher_len,
            auth_offset: span.auth_offset,
            auth_len: span.auth_len,
            digest_offset: span.tag_offset,
            need,
            status: VALIANT_CRYPTO_DONE as u8,
            extended: (session.aad == Aad::Extended).into(),
            ..NO_JOB
        };
        true
    }

    /// Adds the work on the next packet of the batch, with this initialization vector; see
    /// [`CryptoRun::prepare`].
    ///
    /// False, and nothing added: the batch is full, or nothing was said about what to do.
    #[inline]
    pub fn add_prepared(&mut self, iv: [u8; 16]) -> bool {
        if self.n >= MAX_JOBS || self.last.is_none() {
            return false;
        }
        // SAFETY: `n` is below the number of jobs; the queue's lock is held. The session lives (`'s`).
        unsafe { self.jobs.as_ptr().add(self.n).write(valiant_crypto_job { iv, ..self.job }) };
        self.n += 1;
        true
    }

    /// Works on the packets, the first of which belongs to the first job and so on. When all are
    /// [`Verdict::Done`] there are no verdicts, else there is one for each.
    ///
    /// Hardware cannot address the heap, so packets from there are copied to the thread's pool first; if that
    /// has no buffer left, or none that is large enough, the batch is [`Verdict::Refused`].
    ///
    /// False when the device did not give its packets back in time: the batch is empty then, and nothing of
    /// it is left. It is also emptied when it has another number of packets than there are jobs, or a job
    /// does not fit its packet, which is an error of the caller.
    #[inline]
    pub fn process(self, batch: &mut Batch, verdicts: &mut Vec<Verdict>) -> bool {
        verdicts.clear();
        let mut sound = batch.len() == self.n;
        if self.device.info.hardware && sound && !into_pool(batch) {
            verdicts.extend((0..self.n).map(|_| Verdict::Refused));
            return true;
        }
        if cfg!(any(test, feature = "testing")) {
            // SAFETY: the queue's lock is held.
            unsafe { dpdk_sys::valiant_crypto_deafen(self.guard.as_ptr(), Fault::Answer.strikes().into()) };
        }
        for (i, packet) in batch.iter_mut().enumerate().take(self.n) {
            // SAFETY: `i` is below the number of jobs, which `add` has filled; the queue's lock is held.
            let job = unsafe { &mut *self.jobs.as_ptr().add(i) };
            sound &= usize::from(job.need) <= packet.len();
            job.mbuf = packet.as_raw();
        }
        if !sound {
            batch.clear();
            return false;
        }
        let mut trouble = 0;
        // SAFETY: the first `n` jobs are filled; their sessions live (`'s`) and belong to this queue; their
        // mbufs are the batch's, which is borrowed; spans lie within the packets; the lock is held.
        let done = unsafe {
            dpdk_sys::valiant_crypto_process(
                self.guard.as_ptr(),
                self.n as u16,
                self.gcm.into(),
                &mut trouble,
            )
        };
        if usize::from(done) != self.n {
            self.give_up(batch);
            return false;
        }
        if trouble != 0 {
            verdicts.extend((0..self.n).map(|i| {
                // SAFETY: as above.
                match u32::from(unsafe { (*self.jobs.as_ptr().add(i)).status }) {
                    VALIANT_CRYPTO_DONE => Verdict::Done,
                    VALIANT_CRYPTO_FORGED => Verdict::Forged,
                    _ => Verdict::Refused,
                }
            }));
        }
        true
    }

    /// Leaves to the queue what the device has, and frees the rest.
    #[cold]
    fn give_up(&self, batch: &mut Batch) {
        for (i, packet) in batch.drain(..).enumerate() {
            // SAFETY: the first `n` jobs are filled; the lock is held.
            if u32::from(unsafe { (*self.jobs.as_ptr().add(i)).status }) == VALIANT_CRYPTO_DONE {
                let _ = packet.into_raw();
            }
        }
    }
}

/// Replaces packets from the heap by copies in the thread's pool; false if there is no buffer for one.
fn into_pool(batch: &mut Batch) -> bool {
    batch.iter_mut().all(|packet| {
        if packet.is_heap()
            && let Some(copy) = packet.duplicate()
        {
            *packet = copy;
        }
        !packet.is_heap()
    })
}
