//! The machine that this process runs on, for whoever reads the results elsewhere.

use bench::Machine;
use serde_json::Value;

fn kernel(name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().to_owned()
}

/// Processors, memory, NICs, the kernel.
#[must_use]
pub fn machine() -> Value {
    let mut machine = Machine::here().json();
    machine["kernel"] = kernel("osrelease").into();
    machine
}

/// The same with the name of the host.
#[must_use]
pub fn machine_with_name() -> Value {
    let mut machine = machine();
    machine["host"] = kernel("hostname").into();
    machine
}

/// What differs between machines, and from one start of a machine to the next.
pub(crate) fn boot() -> String {
    kernel("random/boot_id")
}
