//! Crypto devices: found or created, opened once in the process, closed with their last handle.

use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, Weak};

use dpdk_sys::{rte_mbuf, rte_mempool, valiant_crypto_info, valiant_crypto_queue};
use locks::IgnorePoison;

use super::algorithm::{Algorithm, Transform};
use crate::eal::Eal;
use crate::error::{Error, errno_text};
use crate::fault::Fault;
use crate::log::Mark;
use crate::packet::Packet;

/// The number of packets that a device's queue can hold.
const DESCRIPTORS: u16 = 2048;

/// The Debian package that contains a driver.
pub(crate) fn package(driver: &str) -> &'static str {
    match driver {
        d if d.starts_with("crypto_openssl") => "librte-crypto-openssl23",
        d if d.starts_with("crypto_aesni") => "librte-crypto-ipsec-mb23",
        _ => "librte-meta-crypto",
    }
}

/// Properties of a crypto device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoInfo {
    /// Its name.
    pub name: String,
    /// Its driver, such as `crypto_aesni_gcm`.
    pub driver: String,
    /// The number of queues that it can have.
    pub max_queues: u16,
    /// Whether it is hardware.
    pub hardware: bool,
    /// Whether it completes its work in the call, without a queue.
    pub synchronous: bool,
}

impl CryptoInfo {
    /// Whether a long batch costs it less for each packet than two of half the length: because packets of
    /// CBC go side by side through lanes that run empty at the end of each batch, or because the batch goes
    /// to a queue and back.
    pub fn likes_long_batches(&self, algorithm: Algorithm) -> bool {
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

/// All crypto devices; none before the environment runs.
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
    pub(super) device: u8,
    pub(super) name: String,
    pub(super) info: CryptoInfo,
    made: bool,
    pub(super) sessions: NonNull<rte_mempool>,
    /// Sessions that are open; the rest of the pool is free.
    pub(super) open_sessions: AtomicUsize,
    pub(super) capacity: usize,
    /// Held while a session is created or dropped: a dropped session is overwritten.
    pub(super) pool: Mutex<()>,
    pub(super) queues: Box<[Slot]>,
}

/// Frees a heap packet that a device has returned too late.
unsafe extern "C" fn free_heap(mbuf: *mut rte_mbuf) {
    if let Some(mbuf) = NonNull::new(mbuf) {
        // SAFETY: the queue got the mbuf from `CryptoRun::give_up`, has it back from the device, and gives it
        // away.
        unsafe { Packet::free_heap(mbuf) };
    }
}

pub(super) struct Slot(pub(super) Mutex<NonNull<valiant_crypto_queue>>);

// SAFETY: the device's own functions are called under a lock or are safe from any thread (capabilities,
// sessions from a multi-producer pool); a queue is used under its lock.
unsafe impl Send for CryptoDevice {}
// SAFETY: as above.
unsafe impl Sync for CryptoDevice {}

impl fmt::Debug for CryptoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptoDevice").field("info", &self.info).field("queues", &self.queues.len()).finish()
    }
}

/// The devices of the process that are open or being closed, by the name in the request. A device removes
/// itself once it is closed.
static OPEN: Mutex<Vec<(String, Weak<CryptoDevice>)>> = Mutex::new(Vec::new());
/// Notified when a device has been closed.
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
    /// The device of this name with at least `queues` queues; it is opened unless it is open.
    ///
    /// A name such as `crypto_aesni_mb` makes a virtual device of that driver; `crypto_openssl,ARGUMENTS`
    /// passes arguments on; any other name is that of a device that DPDK has found. The environment must run.
    /// `sessions` is how many each queue can have. Where an open virtual device has other arguments, or is
    /// too small, another one is made.
    pub fn open(spec: &str, queues: u16, sessions: usize) -> Result<Arc<CryptoDevice>, Error> {
        if Eal::get().is_none() {
            return Err(Error::crypto(spec, "opening it", "the DPDK environment does not run"));
        }
        let capacity = capacity(queues, sessions);
        let same = |name: &str| name == spec || (!is_virtual(spec) && parts(name).0 == parts(spec).0);
        // Should one of these be the last handle by now, then it closes without the lock, hence after it.
        let mut found: Vec<Arc<CryptoDevice>> = Vec::new();
        let mut open = OPEN.lock().ignore_poison();
        loop {
            let of_this_name = || open.iter().filter(|(name, _)| same(name));
            let before = found.len();
            found.extend(of_this_name().filter_map(|(_, device)| device.upgrade()));
            if is_virtual(spec) || found.len() - before == of_this_name().count() {
                break;
            }
            // A device that is being closed cannot be opened yet.
            open = CLOSED.wait(open).ignore_poison();
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

    /// Finds the device, or creates one if the driver is virtual.
    fn find(spec: &str, queues: u16) -> Result<(u8, bool), Error> {
        let (driver, arguments) = parts(spec);
        let mut devargs = format!("max_nb_queue_pairs={queues}");
        if !arguments.is_empty() {
            devargs = format!("{devargs},{arguments}");
        }
        let none = |_| Error::crypto(spec, "opening it", "a zero byte in its name");
        let c_devargs = CString::new(devargs).map_err(none)?;
        for n in 0..=u8::MAX {
            // A device of our own, whatever others exist.
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
        let info = info(device).ok_or_else(|| Error::crypto(spec, "opening it", "it disappeared at once"))?;
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
            // SAFETY: the queues are known to nobody else; the device is not used any more, and if it is not
            // ours to stop, because another user has it running, then it is left alone.
            unsafe {
                for slot in slots {
                    let queue = slot.0.into_inner().ignore_poison();
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

    /// The name by which it was requested.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its properties.
    pub fn info(&self) -> &CryptoInfo {
        &self.info
    }

    /// Queues, one for each worker.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Whether it supports this (only the lengths of the keys are used).
    pub fn can(&self, transform: &Transform<'_>) -> bool {
        // SAFETY: the device is open.
        unsafe { dpdk_sys::valiant_crypto_capable(self.device, &transform.raw()) != 0 }
    }
}

impl Drop for CryptoDevice {
    fn drop(&mut self) {
        // It is not opened again before it is closed.
        let mut open = OPEN.lock().ignore_poison();
        open.retain(|(_, device)| !std::ptr::eq(device.as_ptr(), self));
        let mut late = false;
        for slot in &mut self.queues {
            let queue = *slot.0.get_mut().ignore_poison();
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
