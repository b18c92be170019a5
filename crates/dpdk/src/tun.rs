//! TUN and TAP devices: packets to and from this machine's own network stack.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use locks::IgnorePoison;

use crate::batch::Batch;
use crate::buffer::{DEFAULT_DATA_ROOM, MAX_BUFFER};
use crate::error::Error;
use crate::helper;
use crate::netdev::{Control, Interface, interface};
use crate::netns;
use crate::packet::Packet;
use crate::tundevice::{TunConfig, TunMode};

/// An open TUN or TAP device (or one queue of it); without another user it disappears when dropped.
///
/// Reading and writing never block; the descriptor ([`AsFd`]) wakes an idle worker when there is something to
/// read.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    interface: Interface,
    mode: TunMode,
    headroom: usize,
    /// The packet that the next read fills.
    next: Option<Packet>,
    stats: TunStats,
    /// The settings that remain, and whether they include those that a device of our own gets at once.
    unsettled: Option<(TunConfig, bool)>,
}

/// Counters of one open device or queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunStats {
    /// Packets read from the kernel.
    pub read: u64,
    /// Packets written to the kernel.
    pub written: u64,
    /// Packets lost in reading for want of memory.
    pub no_memory: u64,
    /// Packets that the kernel refused because they make no sense to it or because it is out of memory.
    pub refused: u64,
    /// Packets refused because the device is switched off.
    pub down: u64,
}

/// Devices that were opened before this process gave up its rights: see [`Tun::prepare`].
static PREPARED: Mutex<Vec<Prepared>> = Mutex::new(Vec::new());

struct Prepared {
    name: String,
    namespace: Option<String>,
    mode: TunMode,
    fd: OwnedFd,
    interface: Interface,
}

/// The interface as it is now, in its namespace.
fn look_at(name: &str, config: &TunConfig) -> Result<Interface, Error> {
    let looked = netns::inside(config.namespace.as_deref(), || interface(name));
    looked.map_err(|error| Error::interface(name, "entering its network namespace", &error))?
}

impl Tun {
    /// Opens or creates the device and sets it as configured.
    pub fn open(config: &TunConfig) -> Result<Tun, Error> {
        let mut tun = Self::attach(config)?;
        tun.settle()?;
        Ok(tun)
    }

    /// Opens or creates the device and sets it as configured, for the time when this process has no right to
    /// do so any more: whoever opens it from then on, by its name and namespace, gets this one, as it is set
    /// now.
    pub fn prepare(config: &TunConfig) -> Result<(), Error> {
        let Tun { fd, interface, mode, .. } = Tun::open(config)?;
        let (name, namespace) = (config.name.clone(), config.namespace.clone());
        PREPARED.lock().ignore_poison().push(Prepared { name, namespace, mode, fd, interface });
        Ok(())
    }

    /// The device that was prepared, if it was.
    fn prepared(config: &TunConfig) -> Option<io::Result<Tun>> {
        let all = PREPARED.lock().ignore_poison();
        let known = all.iter().find(|one| {
            one.name == config.name && one.namespace == config.namespace && one.mode == config.mode
        })?;
        Some(known.fd.try_clone().map(|fd| Tun {
            fd,
            interface: known.interface.clone(),
            mode: config.mode,
            headroom: config.headroom,
            next: None,
            stats: TunStats::default(),
            unsettled: None,
        }))
    }

    /// Opens or creates the device without changing anything else on this machine: it has no address yet and
    /// is not switched on, and one that was there before is as it was.
    pub fn attach(config: &TunConfig) -> Result<Tun, Error> {
        let shown = if config.name.is_empty() { "a TUN device" } else { &config.name };
        let failed = |(doing, error): (&'static str, io::Error)| Error::interface(shown, doing, &error);
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        if config.name.len() >= libc::IFNAMSIZ || config.name.contains(['/', '\0', '\t', '\n', ' ']) {
            return Err(failed(("reading its name", invalid())));
        }
        if config.headroom > MAX_BUFFER / 2 {
            return Err(failed(("reading its headroom", invalid())));
        }
        if let Some(prepared) = Self::prepared(config) {
            return prepared.map_err(|error| failed(("opening it again", error)));
        }
        let (fd, name, known) = helper::open(config).map_err(failed)?;
        let interface = look_at(&name, config)?;
        Ok(Tun {
            unsettled: Some((config.clone(), known)),
            fd,
            interface,
            mode: config.mode,
            headroom: config.headroom,
            next: None,
            stats: TunStats::default(),
        })
    }

    /// Applies the settings that [`Tun::attach`] has left; has an effect only once.
    pub fn settle(&mut self) -> Result<(), Error> {
        let Some((config, known)) = self.unsettled.take() else { return Ok(()) };
        let name = self.name().to_owned();
        helper::settle(&name, &config, known)
            .map_err(|(doing, error)| Error::interface(&name, doing, &error))?;
        self.interface = look_at(&name, &config)?;
        Ok(())
    }

    /// The interface as it was after opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Its name, as the kernel has it.
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// What its packets begin with.
    pub fn mode(&self) -> TunMode {
        self.mode
    }

    /// Its counters.
    pub fn stats(&self) -> TunStats {
        self.stats
    }

    /// Adds an IPv4 address' netmask and address anew.
    pub fn set_address(&self, address: Ipv4Addr, prefix_len: u8) -> Result<(), Error> {
        (Control::open().and_then(|control| control.set_address(self.name(), address, prefix_len)))
            .map_err(|error| Error::interface(self.name(), "setting its address", &error))
    }

    /// The largest packet that it can hand over at the moment, in bytes.
    fn largest(&self) -> usize {
        let header = if self.mode == TunMode::Ethernet { 18 } else { 0 };
        (self.interface.mtu as usize + header).clamp(DEFAULT_DATA_ROOM, MAX_BUFFER - self.headroom)
    }

    /// Appends up to `max` packets that the kernel sends out by this device, and returns how many.
    ///
    /// Their TCP and UDP checksums are complete: a TUN device without offloads has the kernel compute them.
    /// Packets are read until there is none; a device that has gone gives none.
    pub fn read(&mut self, max: usize, batch: &mut Batch) -> usize {
        let mut n = 0;
        while n < max {
            let packet = self.next.take().or_else(|| Packet::alloc(self.headroom, self.largest()));
            let Some(mut packet) = packet else {
                self.stats.no_memory += 1;
                break;
            };
            let data = packet.data_mut();
            // SAFETY: the kernel writes at most the data's length.
            let len = unsafe { libc::read(self.fd.as_raw_fd(), data.as_mut_ptr().cast(), data.len()) };
            let Ok(len) = usize::try_from(len) else {
                self.next = Some(packet);
                break;
            };
            packet.take(packet.len() - len);
            batch.push(packet);
            n += 1;
        }
        self.stats.read += n as u64;
        n
    }

    /// Gives packets from the front of the batch to the kernel as if they had arrived by this device, and
    /// returns how many left the batch; those that the kernel has no room for now stay, in order.
    ///
    /// Packets that the kernel refuses leave the batch too, and are counted ([`Tun::stats`]).
    pub fn write(&mut self, batch: &mut Batch) -> usize {
        let mut gone = 0;
        for packet in batch.iter() {
            let data = packet.data();
            // SAFETY: the kernel reads the data only.
            if unsafe { libc::write(self.fd.as_raw_fd(), data.as_ptr().cast(), data.len()) } >= 0 {
                self.stats.written += 1;
            } else {
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => break,
                    Some(libc::EIO) => self.stats.down += 1,
                    _ => self.stats.refused += 1,
                }
            }
            gone += 1;
        }
        drop(batch.drain(..gone));
        gone
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
