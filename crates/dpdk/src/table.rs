//! The table of ports: the requests for ports, and the ports that this process has open.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use locks::IgnorePoison;

use crate::buffer::STANDARD_BUFFER;
use crate::eal::{Eal, EalOptions};
use crate::error::Error;
use crate::mempool;
use crate::needs::PortConfig;
use crate::open::{buffers_wanted, check_numbers};
use crate::port::{Port, changing};
use crate::removal;
use crate::rights::Capability;
use crate::spec::PortSpec;
use crate::status::{PortKind, PortState};
use crate::watch::{self, State};

struct Entry {
    spec: PortSpec,
    port: Weak<Port>,
    state: Arc<State>,
}

impl Entry {
    fn gone(&self) -> bool {
        self.state.get() == PortState::Gone
    }
}

/// The open ports of the process.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// How long to wait for a port that is being closed.
const CLOSING: Duration = Duration::from_secs(5);

fn open_ports() -> MutexGuard<'static, Vec<Entry>> {
    OPEN.lock().ignore_poison()
}

/// Called when a port has been closed.
fn closed(spec: &PortSpec) {
    let mut open = open_ports();
    if let Some(at) = open.iter().position(|entry| entry.spec == *spec && entry.port.strong_count() == 0) {
        open.swap_remove(at);
    }
}

/// Gives a device back that is unplugged; the port that it was has gone.
fn release(device: &CStr) {
    let mut id = 0;
    // SAFETY: a C string and a place for the number.
    if unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(device.as_ptr(), &mut id) } != 0 {
        return;
    }
    watch::gone(id);
    for port in all_ports().into_iter().filter(|port| port.has_device(id)) {
        port.release();
    }
}

/// The ports that the process has open.
pub fn all_ports() -> Vec<Arc<Port>> {
    open_ports().iter().filter_map(|entry| entry.port.upgrade()).collect()
}

/// The capabilities that the open ports use until they are closed, each with the reason.
pub fn capabilities_in_use() -> Vec<(Capability, String)> {
    let mut all = Vec::new();
    for port in all_ports() {
        let name = port.name();
        let vdev = match port.spec() {
            PortSpec::Vdev(devargs) => devargs.as_str(),
            _ => "",
        };
        if port.kind() == PortKind::AfXdp || vdev.starts_with("net_af_xdp") {
            let why = format!("{name}: the program of AF_XDP is detached at the end");
            all.extend([(Capability::NET_ADMIN, why.clone()), (Capability::BPF, why)]);
        } else if port.any_promiscuous() || vdev.starts_with("net_tap") {
            all.push((Capability::NET_ADMIN, format!("{name}: its interface is set back at the end")));
        }
        if matches!(port.spec(), PortSpec::Pci { .. }) {
            all.push((Capability::IPC_LOCK, format!("{name}: its memory is locked")));
            if std::path::Path::new("/sys/class/uio").exists() {
                all.push((Capability::SYS_RAWIO, format!("{name}: its driver may be one of uio")));
            }
        }
    }
    all
}

/// The ports of one configuration.
///
/// Every user of a port first says what it needs ([`PortTable::request`]); then all are opened at once, each
/// with the sum of the needs ([`PortTable::start_all`]). A port that another table of the process has open
/// already is shared as it is.
#[derive(Debug, Default)]
pub struct PortTable {
    wanted: Vec<(PortSpec, PortConfig)>,
    ports: Vec<Arc<Port>>,
}

impl PortTable {
    /// An empty table.
    pub fn new() -> PortTable {
        PortTable::default()
    }

    /// Adds the needs of one user of a port.
    pub fn request(&mut self, spec: &PortSpec, needs: &PortConfig) {
        match self.wanted.iter_mut().find(|(known, _)| known == spec) {
            Some((_, sum)) => sum.merge(needs),
            None => self.wanted.push((spec.clone(), needs.clone())),
        }
    }

    /// Whether any port was requested.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Opens all ports, starting the DPDK environment when there is at least one; all errors, or all ports
    /// open.
    ///
    /// After an error no port of this table is open that was not before.
    pub fn start_all(&mut self, options: &EalOptions) -> Result<(), Vec<Error>> {
        self.prepare_all(options)?;
        self.ports.iter().for_each(|port| port.keep());
        Ok(())
    }

    /// The same for who may still find that the ports are not wanted: what opening them has changed outside
    /// the process is undone when they are dropped, until [`Port::keep`].
    pub fn prepare_all(&mut self, options: &EalOptions) -> Result<(), Vec<Error>> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let mut options = options.clone();
        for (spec, _) in &self.wanted {
            if let PortSpec::Pci { address, devargs } = spec {
                options.pci.push(format!("{address}{devargs}"));
            }
        }
        Eal::init(&options).map_err(|error| vec![error])?;

        let closed: Vec<_> = self.wanted.iter().filter(|(spec, _)| find(spec).is_none()).collect();
        let guard = changing();
        let errors: Vec<_> =
            closed.iter().filter_map(|(spec, needs)| check_numbers(spec, needs).err()).collect();
        drop(guard);
        if !errors.is_empty() {
            return Err(errors);
        }
        let wanted: Vec<_> = self.wanted.iter().map(|(spec, needs)| (spec, needs.counted())).collect();
        let new: Vec<_> = wanted.iter().filter(|(spec, _)| find(spec).is_none()).collect();
        mempool::expect_turns(new.iter().map(|(_, needs)| needs.burst).sum());
        // One pool for all that lie on no particular node, so that packets go between them without a copy.
        let sizes: Vec<_> = new.iter().map(|(spec, needs)| buffers_wanted(spec, needs)).collect();
        if let Some(largest) = sizes.iter().map(|&(_, len)| len).max() {
            for len in [STANDARD_BUFFER, largest] {
                let buffers = sizes.iter().filter(|size| size.1 == len).map(|size| size.0).sum();
                if buffers > 0 {
                    mempool::prepare(None, buffers, len).map_err(|error| vec![error])?;
                }
            }
        }

        let mut ports = Vec::new();
        let mut errors = Vec::new();
        for (spec, needs) in &wanted {
            match prepare(spec, needs) {
                Ok(port) => ports.push(port),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.ports = ports;
        Ok(())
    }

    /// The port that was requested as `spec`, once started.
    pub fn get(&self, spec: &PortSpec) -> Option<&Arc<Port>> {
        self.ports.iter().find(|port| port.spec() == spec)
    }

    /// All ports of the table, once started.
    pub fn ports(&self) -> &[Arc<Port>] {
        &self.ports
    }
}

/// The handles of open ports of this name, and whether one is being closed. Dropping a handle may need the
/// table, so no handle is dropped under its lock.
fn handles(spec: &PortSpec) -> (Vec<Arc<Port>>, bool) {
    let open = open_ports();
    let same: Vec<_> =
        open.iter().filter(|entry| entry.spec == *spec).map(|entry| entry.port.upgrade()).collect();
    let closing = same.iter().any(Option::is_none);
    (same.into_iter().flatten().collect(), closing)
}

fn find(spec: &PortSpec) -> Option<Arc<Port>> {
    handles(spec).0.into_iter().find(|port| port.state() != PortState::Gone)
}

/// The port, shared when it is open already.
pub fn open(spec: &PortSpec, needs: &PortConfig) -> Result<Arc<Port>, Error> {
    let port = prepare(spec, needs)?;
    port.keep();
    Ok(port)
}

fn prepare(spec: &PortSpec, needs: &PortConfig) -> Result<Arc<Port>, Error> {
    let needs = &needs.counted();
    let deadline = Instant::now() + CLOSING;
    loop {
        let (ports, closing) = handles(spec);
        if let Some(port) = ports.into_iter().find(|port| port.state() != PortState::Gone) {
            return shared(port, needs);
        }
        if closing && Instant::now() < deadline {
            sleep(Duration::from_millis(2));
            continue;
        }
        let guard = changing();
        if open_ports()
            .iter()
            .any(|entry| entry.spec == *spec && entry.port.strong_count() != 0 && !entry.gone())
        {
            // Another thread has opened it meanwhile.
            continue;
        }
        if matches!(spec, PortSpec::Pci { .. }) {
            removal::watch(release);
        }
        let opened = Port::open(spec, needs, closed);
        if let Ok(port) = &opened {
            open_ports().push(Entry {
                spec: spec.clone(),
                port: Arc::downgrade(port),
                state: port.watched(),
            });
        }
        drop(guard);
        return opened;
    }
}

fn shared(port: Arc<Port>, needs: &PortConfig) -> Result<Arc<Port>, Error> {
    if (port.rx_queues() == 0 && needs.rx_queues > 0) || (port.tx_queues() == 0 && needs.tx_queues > 0) {
        let has = format!(
            "it is open with {} receive and {} transmit queues, {} and {} are needed",
            port.rx_queues(),
            port.tx_queues(),
            needs.rx_queues,
            needs.tx_queues
        );
        return Err(
            Error::port(port.name(), "sharing it", has).with_fix("stop the router and start it again")
        );
    }
    Ok(port)
}
