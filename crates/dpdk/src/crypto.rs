//! Crypto devices: vectors of packets are encrypted or decrypted in place, and authenticated, in one call.
//!
//! A call returns when the whole vector is done: nothing is in flight between two calls, so packets keep their order,
//! a full device is waited for rather than dropped at, and nothing has to be collected when a router goes away. Devices
//! that are instructions of the processor (`crypto_aesni_gcm`, `crypto_aesni_mb`) lose nothing by that: their queues are
//! work put off. They are called directly where they allow it.
//!
//! A device gives each worker a queue and the sessions of that queue, because not every driver's sessions may be used
//! by two threads at a time.

use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use dpdk_sys::{
    VALIANT_CRYPTO_AES_CBC_HMAC_SHA1, VALIANT_CRYPTO_AES_CBC_HMAC_SHA256, VALIANT_CRYPTO_AES_GCM,
    VALIANT_CRYPTO_DONE, VALIANT_CRYPTO_FORGED, VALIANT_CRYPTO_VECTOR, rte_mbuf, rte_mempool,
    valiant_crypto_info, valiant_crypto_job, valiant_crypto_queue, valiant_crypto_transform,
};

use crate::batch::Batch;
use crate::eal::Eal;
use crate::error::{Error, errno_text};
use crate::fault::Fault;
use crate::log::Mark;
use crate::packet::Packet;

/// The most packets in one call.
pub const MAX_JOBS: usize = VALIANT_CRYPTO_VECTOR as usize;
/// Packets that a device's queue holds.
const DESCRIPTORS: u16 = 2048;

/// Drivers of which devices can be made anywhere, the fastest first.
pub const SOFTWARE: [&str; 3] = ["crypto_aesni_gcm", "crypto_aesni_mb", "crypto_openssl"];

/// What protects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES in Galois/counter mode, which authenticates too: a 12-byte nonce, a 16-byte tag, additional data ([`Aad`]).
    AesGcm,
    /// AES in cipher block chaining mode, then HMAC-SHA1 cut to 12 bytes.
    AesCbcHmacSha1,
    /// AES in cipher block chaining mode, then HMAC-SHA-256 cut to 16 bytes.
    AesCbcHmacSha256,
}

impl Algorithm {
    /// All there are.
    pub const ALL: [Algorithm; 3] =
        [Algorithm::AesGcm, Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "aes-gcm",
            Algorithm::AesCbcHmacSha1 => "aes-cbc-hmac-sha1",
            Algorithm::AesCbcHmacSha256 => "aes-cbc-hmac-sha256",
        }
    }

    /// Bytes of the tag.
    pub const fn tag_len(self) -> usize {
        match self {
            Algorithm::AesGcm | Algorithm::AesCbcHmacSha256 => 16,
            Algorithm::AesCbcHmacSha1 => 12,
        }
    }

    /// Bytes of the authentication key; 0 where there is none of its own.
    pub const fn auth_key_len(self) -> usize {
        match self {
            Algorithm::AesGcm => 0,
            Algorithm::AesCbcHmacSha1 => 20,
            Algorithm::AesCbcHmacSha256 => 32,
        }
    }

    fn raw(self) -> u8 {
        let raw = match self {
            Algorithm::AesGcm => VALIANT_CRYPTO_AES_GCM,
            Algorithm::AesCbcHmacSha1 => VALIANT_CRYPTO_AES_CBC_HMAC_SHA1,
            Algorithm::AesCbcHmacSha256 => VALIANT_CRYPTO_AES_CBC_HMAC_SHA256,
        };
        raw as u8
    }

    /// Devices that can do it, the fastest first.
    pub const fn drivers(self) -> &'static [&'static str] {
        match self {
            Algorithm::AesGcm => &SOFTWARE,
            _ => SOFTWARE.split_at(1).1,
        }
    }
}

/// What [`Algorithm::AesGcm`] authenticates beside what it encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aad {
    /// So many bytes from [`Span::auth_offset`] on.
    Packet(u8),
    /// 12 bytes: four at [`Span::auth_offset`], the last four of the `iv` given to [`CryptoRun::add`], and the next four of
    /// the packet. ESP with extended sequence numbers sends only half of them (RFC 4106 section 5).
    Extended,
}

impl Aad {
    /// That of ESP: SPI and sequence number.
    pub const ESP: Aad = Aad::Packet(8);

    /// Its bytes, and how many of them lie in the packet.
    const fn lens(self) -> (u8, u8) {
        match self {
            Aad::Packet(n) => (n, n),
            Aad::Extended => (12, 8),
        }
    }
}

/// One direction of a security association: how, and with which keys. `Debug` shows no key.
#[derive(Clone, Copy)]
pub struct Transform<'a> {
    /// How.
    pub algorithm: Algorithm,
    /// Whether packets are encrypted (or decrypted).
    pub encrypt: bool,
    /// The AES key: 16, 24 or 32 bytes.
    pub key: &'a [u8],
    /// The authentication key, [`Algorithm::auth_key_len`] bytes.
    pub auth_key: &'a [u8],
    /// What else is authenticated; for GCM only.
    pub aad: Aad,
}

impl fmt::Debug for Transform<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({:?}, {} bit, encrypt {})", self.algorithm, self.key.len() * 8, self.encrypt)
    }
}

impl Transform<'_> {
    fn raw(&self) -> valiant_crypto_transform {
        valiant_crypto_transform {
            algorithm: self.algorithm.raw(),
            encrypt: self.encrypt.into(),
            key_len: self.key.len() as u16,
            auth_key_len: self.auth_key.len() as u16,
            digest_len: self.algorithm.tag_len() as u16,
            aad_len: self.aad.lens().0.into(),
            key: self.key.as_ptr(),
            auth_key: self.auth_key.as_ptr(),
        }
    }
}

/// The Debian package that has a driver.
pub(crate) fn package(driver: &str) -> &'static str {
    match driver {
        d if d.starts_with("crypto_openssl") => "librte-crypto-openssl23",
        d if d.starts_with("crypto_aesni") => "librte-crypto-ipsec-mb23",
        _ => "librte-meta-crypto",
    }
}

/// What a device that is tried can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoAbility {
    /// What it is.
    pub info: CryptoInfo,
    /// What it protects packets by, with keys of 128 bits, and whether of 256 too.
    pub algorithms: Vec<(Algorithm, bool)>,
}

impl CryptoDevice {
    /// Opens a device, asks what it can do, and closes it. The environment must run.
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
            // That it says so is not enough.
            device.session(0, &transform).is_ok()
        };
        let algorithms =
            Algorithm::ALL.into_iter().filter(|a| can(*a, 16)).map(|a| (a, can(a, 32))).collect();
        Ok(CryptoAbility { info: device.info().clone(), algorithms })
    }
}

/// What a crypto device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoInfo {
    /// Its name.
    pub name: String,
    /// Its driver, such as `crypto_aesni_gcm`.
    pub driver: String,
    /// Queues that it can have.
    pub max_queues: u16,
    /// Whether it is hardware.
    pub hardware: bool,
    /// Whether it works at once, without a queue.
    pub synchronous: bool,
}

impl CryptoInfo {
    /// Whether a long vector costs it less for each packet than two of half the length: because packets of CBC go side by side
    /// through lanes that run empty at the end of each vector, or because the vector goes to a queue and back.
    pub fn likes_long_vectors(&self, algorithm: Algorithm) -> bool {
        !self.synchronous || (algorithm != Algorithm::AesGcm && self.driver == "crypto_aesni_mb")
    }
}

fn info(device: u8) -> Option<CryptoInfo> {
    let mut raw = valiant_crypto_info {
        name: [0; _],
        driver: [0; _],
        max_queues: 0,
        numa_node: 0,
        hardware: 0,
        synchronous: 0,
    };
    // SAFETY: the environment runs; the structure is ours.
    if unsafe { dpdk_sys::valiant_crypto_info(device, &mut raw) } != 0 {
        return None;
    }
    let text = |chars: &[std::ffi::c_char]| -> String {
        chars.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect()
    };
    Some(CryptoInfo {
        name: text(&raw.name),
        driver: text(&raw.driver),
        max_queues: raw.max_queues,
        hardware: raw.hardware != 0,
        synchronous: raw.synchronous != 0,
    })
}

/// The crypto devices that there are; none before the environment runs.
pub fn devices() -> Vec<CryptoInfo> {
    let mut found = Vec::new();
    if Eal::get().is_some() {
        let mut next = 0;
        // SAFETY: the environment runs.
        while let Ok(device) = u8::try_from(unsafe { dpdk_sys::valiant_crypto_next(next) }) {
            found.extend(info(device));
            let Some(after) = device.checked_add(1) else { break };
            next = after;
        }
    }
    found
}

/// An open crypto device; dropping the last handle closes it.
pub struct CryptoDevice {
    device: u8,
    name: String,
    info: CryptoInfo,
    made: bool,
    sessions: NonNull<rte_mempool>,
    /// Sessions that are open; the rest of the pool is free.
    open_sessions: AtomicUsize,
    capacity: usize,
    /// Held while a session is made or forgotten: what is forgotten is overwritten.
    pool: Mutex<()>,
    queues: Box<[Slot]>,
}

/// Frees a packet of the heap that a device has given back too late.
unsafe extern "C" fn free_heap(mbuf: *mut rte_mbuf) {
    if let Some(mbuf) = NonNull::new(mbuf) {
        // SAFETY: the queue got the mbuf from `CryptoRun::give_up`, has it back from the device, and gives it away.
        unsafe { Packet::free_heap(mbuf) };
    }
}

struct Slot(Mutex<NonNull<valiant_crypto_queue>>);

// SAFETY: the device's own functions are called under a lock or are safe from any thread (capabilities, sessions from a
// multi-producer pool); a queue is used under its lock.
unsafe impl Send for CryptoDevice {}
// SAFETY: as above.
unsafe impl Sync for CryptoDevice {}

impl fmt::Debug for CryptoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptoDevice").field("info", &self.info).field("queues", &self.queues.len()).finish()
    }
}

/// The devices of the process that are open or being closed, by the name they were asked for. A device takes itself out
/// once it is closed.
static OPEN: Mutex<Vec<(String, Weak<CryptoDevice>)>> = Mutex::new(Vec::new());
/// Rung when a device has been closed.
static CLOSED: Condvar = Condvar::new();

/// Sessions of a device's pool.
fn capacity(queues: u16, sessions: usize) -> usize {
    sessions.saturating_mul(usize::from(queues)).clamp(1, 1 << 20)
}

/// A name's driver or device, and its arguments.
fn parts(spec: &str) -> (&str, &str) {
    spec.split_once(',').unwrap_or((spec, ""))
}

/// Whether a name is that of a driver of which devices can be made.
fn is_virtual(spec: &str) -> bool {
    spec.starts_with("crypto_")
}

impl CryptoDevice {
    /// The device of this name with at least `queues` queues, opened unless it is.
    ///
    /// A name such as `crypto_aesni_mb` makes a virtual device of that driver; `crypto_openssl,ARGUMENTS` passes
    /// arguments on; any other name is that of a device that DPDK has found. The environment must run. `sessions` is how
    /// many each queue can have. Where an open virtual device has other arguments, or is too small, another one is made.
    pub fn open(spec: &str, queues: u16, sessions: usize) -> Result<Arc<CryptoDevice>, Error> {
        if Eal::get().is_none() {
            return Err(Error::crypto(spec, "opening it", "the DPDK environment does not run"));
        }
        let capacity = capacity(queues, sessions);
        let same = |name: &str| name == spec || (!is_virtual(spec) && parts(name).0 == parts(spec).0);
        // Should one of these be the last handle by now, then it closes without the lock, hence after it.
        let mut found: Vec<Arc<CryptoDevice>> = Vec::new();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let of_this_name = || open.iter().filter(|(name, _)| same(name));
            let before = found.len();
            found.extend(of_this_name().filter_map(|(_, device)| device.upgrade()));
            if is_virtual(spec) || found.len() - before == of_this_name().count() {
                break;
            }
            // A device that is being closed cannot be opened yet.
            open = CLOSED.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        let fits = |d: &CryptoDevice| d.queues.len() >= usize::from(queues) && d.capacity >= capacity;
        if let Some(device) = found.iter().find(|d| fits(d)) {
            let device = Arc::clone(device);
            drop(open);
            return Ok(device);
        }
        if let Some(device) = found.first().filter(|_| !is_virtual(spec)) {
            let reason = format!(
                "it is open with {} queues and {} sessions, {queues} and {capacity} wanted",
                device.queues.len(),
                device.capacity
            );
            drop(open);
            return Err(Error::crypto(spec, "opening it", reason));
        }
        let device = CryptoDevice::start(spec, queues, capacity).map(Arc::new);
        if let Ok(device) = &device {
            open.push((spec.to_owned(), Arc::downgrade(device)));
        }
        drop(open);
        device
    }

    /// Finds the device, or makes one, if the driver is a virtual one's.
    fn find(spec: &str, queues: u16) -> Result<(u8, bool), Error> {
        let (driver, arguments) = parts(spec);
        let mut devargs = format!("max_nb_queue_pairs={queues}");
        if !arguments.is_empty() {
            devargs = format!("{devargs},{arguments}");
        }
        let none = |_| Error::crypto(spec, "opening it", "a zero byte in its name");
        let c_devargs = CString::new(devargs).map_err(none)?;
        for n in 0..=u8::MAX {
            // A device of our own, whatever others there are.
            let name = match n {
                _ if !is_virtual(spec) => driver.to_owned(),
                0 => format!("{driver}_valiant"),
                n => format!("{driver}_valiant{n}"),
            };
            let c_name = CString::new(name).map_err(none)?;
            let mark = Mark::now();
            let mut made: c_int = 0;
            // SAFETY: the environment runs; C strings; the flag is ours.
            let found =
                unsafe { dpdk_sys::valiant_crypto_find(c_name.as_ptr(), c_devargs.as_ptr(), &mut made) };
            let Ok(device) = u8::try_from(found) else {
                return Err(Error::crypto(spec, "opening it", mark.quote_or(|| errno_text(found))).with_fix(
                    format!(
                        "`apt-get install {}`, or another device: {}",
                        package(driver),
                        Algorithm::AesGcm.drivers().join(", ")
                    ),
                ));
            };
            if made != 0 || !is_virtual(spec) {
                return Ok((device, made != 0));
            }
        }
        Err(Error::crypto(spec, "opening it", "there are too many of them"))
    }

    fn start(spec: &str, queues: u16, capacity: usize) -> Result<CryptoDevice, Error> {
        if Fault::Device.strikes() {
            return Err(Error::crypto(spec, "opening it", "out of memory"));
        }
        let (device, made) = CryptoDevice::find(spec, queues)?;
        let mark = Mark::now();
        let info = info(device)
            .ok_or_else(|| Error::crypto(spec, "opening it", "it is gone as soon as it is there"))?;
        let mut pool = std::ptr::null_mut();
        // SAFETY: the device exists; DPDK refuses to start one that runs.
        let mut status = unsafe {
            if info.max_queues < queues {
                -libc::EINVAL
            } else {
                dpdk_sys::valiant_crypto_start(device, queues, DESCRIPTORS, capacity as u32, -1, &mut pool)
            }
        };
        let started = status == 0;
        let mut slots = Vec::new();
        for queue in 0..queues {
            if status != 0 {
                break;
            }
            // SAFETY: the device has this queue and nobody else uses it.
            let new = unsafe {
                let heap: dpdk_sys::valiant_mbuf_fn = Some(free_heap);
                dpdk_sys::valiant_crypto_queue_new(device, queue, info.synchronous.into(), -1, heap)
            };
            match NonNull::new(new) {
                Some(new) => slots.push(Slot(Mutex::new(new))),
                // SAFETY: reads the calling thread's error number.
                None => status = -unsafe { dpdk_sys::valiant_errno() }.max(1),
            }
        }
        if status != 0 {
            let reason = if info.max_queues < queues {
                format!("{} queues at most, one for each of {queues} workers wanted", info.max_queues)
            } else {
                mark.quote_or(|| errno_text(status))
            };
            // SAFETY: the queues are known to nobody else; the device is not used any more, and if it is not ours to
            // stop, because it runs for somebody else, then it is left alone.
            unsafe {
                for slot in slots {
                    let queue = slot.0.into_inner().unwrap_or_else(PoisonError::into_inner);
                    dpdk_sys::valiant_crypto_queue_free(queue.as_ptr());
                }
                if started || made {
                    dpdk_sys::valiant_crypto_stop(device, made.into(), pool);
                }
            }
            return Err(Error::crypto(spec, "starting it", reason));
        }
        let sessions =
            NonNull::new(pool).ok_or_else(|| Error::crypto(spec, "starting it", "no memory for sessions"))?;
        Ok(CryptoDevice {
            device,
            name: spec.to_owned(),
            info,
            made,
            sessions,
            open_sessions: AtomicUsize::new(0),
            capacity,
            pool: Mutex::new(()),
            queues: slots.into(),
        })
    }

    /// The name it was asked for by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub fn info(&self) -> &CryptoInfo {
        &self.info
    }

    /// Queues, one for each worker.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Whether it can do this (the keys count by their lengths only).
    pub fn can(&self, transform: &Transform<'_>) -> bool {
        // SAFETY: the device is open.
        unsafe { dpdk_sys::valiant_crypto_capable(self.device, &transform.raw()) != 0 }
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
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A queue, for as long as the guard lives. Each worker has its own, so nobody waits here.
    #[inline]
    pub fn queue(&self, queue: usize) -> Option<CryptoRun<'_, '_>> {
        let guard = self.queues.get(queue)?.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue lives as long as the device, and the lock is held.
        let jobs = unsafe { NonNull::new(dpdk_sys::valiant_crypto_jobs(guard.as_ptr())) }?;
        Some(CryptoRun { device: self, queue, guard, jobs, n: 0, gcm: false, last: None })
    }
}

impl Drop for CryptoDevice {
    fn drop(&mut self) {
        // Nobody opens it again before it is closed.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, device)| !std::ptr::eq(device.as_ptr(), self));
        let mut late = false;
        for slot in &mut self.queues {
            let queue = *slot.0.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: this is the last handle; the queue is not used after this.
            unsafe {
                late |= dpdk_sys::valiant_crypto_late(queue.as_ptr()) > 0;
                dpdk_sys::valiant_crypto_queue_free(queue.as_ptr());
            }
        }
        if !late {
            // SAFETY: no session and no queue of the device is left; sessions hold handles.
            unsafe { dpdk_sys::valiant_crypto_stop(self.device, self.made.into(), self.sessions.as_ptr()) };
        }
        drop(open);
        CLOSED.notify_all();
    }
}

/// Keys and algorithm, ready for use on one queue of a device. Dropping it forgets them: they are overwritten.
pub struct CryptoSession {
    session: NonNull<u8>,
    device: Arc<CryptoDevice>,
    queue: usize,
    algorithm: Algorithm,
    aad: Aad,
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

    /// How it protects packets.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Drop for CryptoSession {
    fn drop(&mut self) {
        let Some(slot) = self.device.queues.get(self.queue) else { return };
        let queue = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _pool = self.device.pool.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue's lock is held, so that nobody uses the session, and the pool's, so that nobody gets it before
        // it is overwritten; a device that has not given packets back may still read it, and keeps it.
        unsafe {
            if dpdk_sys::valiant_crypto_late(queue.as_ptr()) == 0 {
                dpdk_sys::valiant_crypto_session_free(self.device.device, self.session.as_ptr().cast());
                self.device.open_sessions.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, and authentic if it was decrypted.
    Done,
    /// The tag does not fit: forged or damaged.
    Forged,
    /// The device did not take it.
    Refused,
}

/// Where in a packet's data the work is: offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the part to encrypt or decrypt begins.
    pub cipher_offset: u16,
    /// Its length; a multiple of 16 for CBC.
    pub cipher_len: u16,
    /// Where the additional data (GCM, see [`Aad`]) or the authenticated part (CBC with HMAC) begins.
    pub auth_offset: u16,
    /// The length of the authenticated part; unused for GCM.
    pub auth_len: u16,
    /// Where the tag is or goes.
    pub tag_offset: u16,
}

impl Span {
    /// The length of the shortest packet that it fits; `None` when it fits none.
    #[inline]
    fn need(&self, algorithm: Algorithm, aad: Aad) -> Option<u16> {
        let gcm = algorithm == Algorithm::AesGcm;
        let end = |at: u16, n: u16| u32::from(at) + u32::from(n);
        let cipher_end = end(self.cipher_offset, self.cipher_len);
        let auth_end = end(self.auth_offset, if gcm { aad.lens().1.into() } else { self.auth_len });
        let tag_end = end(self.tag_offset, algorithm.tag_len() as u16);
        // The cipher's part must lie in the authenticated part, which is what is handed to the device.
        let nested = gcm
            || (self.auth_offset <= self.cipher_offset
                && cipher_end <= auth_end
                && self.cipher_len.is_multiple_of(16));
        u16::try_from(cipher_end.max(auth_end).max(tag_end)).ok().filter(|_| nested)
    }
}

/// A queue in use: [`CryptoRun::add`] for each packet, then [`CryptoRun::process`].
pub struct CryptoRun<'q, 's> {
    device: &'q CryptoDevice,
    queue: usize,
    guard: MutexGuard<'q, NonNull<valiant_crypto_queue>>,
    jobs: NonNull<valiant_crypto_job>,
    n: usize,
    gcm: bool,
    /// The session and the span of the last packet, and how long it must be for them.
    last: Option<(&'s CryptoSession, Span, u16)>,
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

    /// Adds the work on the next packet of the vector. The first packet decides on GCM or CBC.
    ///
    /// False, and nothing added: the vector is full, the session is another queue's or another algorithm's, or there is no
    /// packet that the span could fit.
    #[inline]
    pub fn add(&mut self, session: &'s CryptoSession, span: &Span, iv: [u8; 16]) -> bool {
        if self.n >= MAX_JOBS {
            return false;
        }
        // Most packets are like the one before.
        let need = match self.last {
            Some((of, known, need)) if std::ptr::eq(of, session) && known == *span => need,
            _ => {
                let gcm = session.algorithm == Algorithm::AesGcm;
                if self.n == 0 {
                    self.gcm = gcm;
                }
                let same =
                    std::ptr::eq(Arc::as_ptr(&session.device), self.device) && session.queue == self.queue;
                let Some(need) = span.need(session.algorithm, session.aad) else { return false };
                if !same || gcm != self.gcm {
                    return false;
                }
                self.last = Some((session, *span, need));
                need
            }
        };
        // SAFETY: `n` is below the number of jobs; the queue's lock is held.
        unsafe {
            let job = self.jobs.as_ptr().add(self.n);
            (*job).session = session.session.as_ptr().cast();
            (*job).cipher_offset = span.cipher_offset;
            (*job).cipher_len = span.cipher_len;
            (*job).auth_offset = span.auth_offset;
            (*job).auth_len = span.auth_len;
            (*job).digest_offset = span.tag_offset;
            (*job).need = need;
            (*job).status = VALIANT_CRYPTO_DONE as u8;
            (*job).extended = (session.aad == Aad::Extended).into();
            (*job).iv = iv;
        }
        self.n += 1;
        true
    }

    /// Works on the packets, the first of which belongs to the first job and so on. When all are [`Verdict::Done`] there
    /// are no verdicts, else there is one for each.
    ///
    /// Hardware cannot address the heap, so packets from there are copied to the thread's pool first; if that has no buffer left,
    /// or none that is large enough, the vector is [`Verdict::Refused`].
    ///
    /// False when the device did not give its packets back in time: the vector is empty then, and nothing of it is
    /// left. It is also emptied when it has another number of packets than there are jobs, or a job does not fit its
    /// packet, which is an error of the caller.
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
        // SAFETY: the first `n` jobs are filled; their sessions live (`'s`) and belong to this queue; their mbufs are the
        // batch's, which is borrowed; spans lie within the packets; the lock is held.
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
