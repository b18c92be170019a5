//! Crypto devices: batches of packets are encrypted or decrypted in place, and authenticated, in one call.
//!
//! A call returns when the whole batch is done: no packets are in a device between two calls, so packets keep
//! their order, none is dropped because a device is full, and none has to be collected when a router ends.
//! Devices that are instructions of the processor (`crypto_aesni_gcm`, `crypto_aesni_mb`) are not slower that
//! way, because their queues only delay the work. They are called directly if they allow it;
//! `crypto_aesni_gcm` and `crypto_aesni_mb`, which are libipsec-mb, even without DPDK's driver.
//!
//! A device gives each worker a queue and the sessions of that queue, because not every driver's sessions may
//! be used by two threads at a time.

mod algorithm;
mod device;
mod run;
mod session;

pub use algorithm::{Aad, Algorithm, SOFTWARE, Span, Transform};
pub(crate) use device::package;
pub use device::{CryptoDevice, CryptoInfo, devices};
pub use run::{CryptoRun, MAX_JOBS, Verdict};
pub use session::{CryptoAbility, CryptoSession};
