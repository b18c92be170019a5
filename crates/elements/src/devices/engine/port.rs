//! The description of a port, for handlers.

use dpdk::Port;
use std::sync::Arc;

/// A port in words, for the `port` handlers.
pub(in crate::devices) fn describe(port: &Arc<Port>) -> String {
    let mut text = format!(
        "{}\ndriver {}\nrx_queues {}\ntx_queues {}\nmac {}\nmtu {}\n",
        port.name(),
        port.driver(),
        port.rx_queues(),
        port.tx_queues(),
        lang::args::EtherAddr(port.mac()),
        port.mtu()
    );
    for note in std::iter::once(port.choice())
        .chain(port.notes().iter().map(String::as_str))
        .filter(|n| !n.is_empty())
    {
        text += &format!("note {note}\n");
    }
    text
}

/// The driver's own counters, one on each line.
pub(in crate::devices) fn xstats(port: &Arc<Port>) -> String {
    port.xstats().iter().fold(String::new(), |t, (name, n)| t + &format!("{name}: {n}\n"))
}
