//! How the rebalancer changes the indirection table of a device, on the control thread; and whether it can.

use super::buckets::Buckets;
use super::devicemoves::Follower;
use super::devicetable::DeviceTable;
use super::exchange::Exchange;
use super::indirection::Readings;
use crate::prelude::*;
use dpdk::{Port, PortSpec};
use runtime::Lanes;
use std::time::Duration;

/// A change that takes longer is none while packets flow: some drivers stop the port meanwhile (mlx5 does).
const SLOW: Duration = Duration::from_millis(20);

/// The table of a device, for the rebalancer.
pub(super) struct OfDevice<'a> {
    pub(super) table: &'a DeviceTable,
    pub(super) port: &'a Port,
    /// The last change was so long ago that workers which have not seen it have no packets.
    pub(super) overdue: bool,
}

impl Buckets for OfDevice<'_> {
    fn workers(&self) -> &[usize] {
        self.table.workers()
    }
    fn readings(&self) -> Readings {
        let readings = self.table.readings();
        Readings { moving: readings.moving && !self.overdue, ..readings }
    }
    fn key_version(&self) -> u64 {
        self.table.key_version()
    }
    fn give(&self, changes: &[(usize, u16)]) -> Result<(), String> {
        let reta = self.table.announce(changes);
        match self.port.set_rss_table(&reta) {
            Ok(()) => self.table.done(reta),
            Err(error) => {
                self.table.withdraw();
                return Err(error.to_string());
            }
        }
        Ok(())
    }
    fn looked_at(&self, packets: u64) {
        self.table.adapt(packets);
    }
}

/// Learns the table and the key that the device has now.
///
/// # Errors
/// The driver does not show the table, or no worker polls a queue in it.
pub(super) fn learn(table: &DeviceTable, port: &Port) -> Result<(), String> {
    table.learn(port.rss_table().map_err(|e| e.to_string())?)?;
    // Without the key, the hash must come with the packets.
    table.set_key(port.rss_key().ok().as_deref());
    Ok(())
}

/// The length of the device's table. If it is to be changed, that is tried first; who has it changed later by
/// a handler sees what comes of it.
fn buckets(port: &Port, changes: bool) -> Result<usize, String> {
    if changes {
        quick(port.try_rss_table().map_err(|e| e.to_string())?)?;
    }
    Ok(port.rss_table().map_err(|e| e.to_string())?.len())
}

/// Whether a change that takes so long is one while packets flow.
fn quick(took: Duration) -> Result<(), String> {
    if took <= SLOW {
        return Ok(());
    }
    Err(format!(
        "to change the device's table takes {:.0} ms, as if its driver stopped the port meanwhile",
        took.as_secs_f64() * 1e3
    ))
}

/// The part of a worker that polls a device which distributes flows, if the device's table can be used.
pub(super) fn follower(
    (port, lanes): (&Port, &Lanes),
    exchange: &Exchange,
    worker: usize,
    has_rules: bool,
    cx: &Cx<'_>,
) -> Option<Follower> {
    // Without it, nothing is to be balanced.
    let history = exchange.known_history()?;
    if !lanes.spread.is_empty() || lanes.pollers().count() < 2 {
        return None;
    }
    let is_nic = matches!(port.spec(), PortSpec::Pci { .. });
    let make = || {
        let table = if has_rules {
            Err("flow rules in front of the port may give packets to any worker".to_owned())
        } else {
            buckets(port, history.is_on())
        };
        let why = match table {
            Ok(buckets) => {
                history.is_of_device();
                return Some(DeviceTable::new(lanes, buckets));
            }
            Err(why) => format!("each worker has a receive queue of its own, and buckets stay: {why}"),
        };
        if history.is_on() && is_nic {
            cx.log(Level::INFO, &format!("{}: REBALANCE: {why}", cx.name()));
        }
        history.cannot(why);
        None
    };
    Follower::new(&exchange.device_table(make)?, worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_no_change_while_packets_flow() {
        assert_eq!(quick(SLOW), Ok(()));
        let why = quick(Duration::from_micros(120_400)).unwrap_err();
        assert!(why.starts_with("to change the device's table takes 120 ms, as if"), "{why}");
    }
}
