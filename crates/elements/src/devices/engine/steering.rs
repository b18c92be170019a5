//! The handlers by which the indirection table and the key of receive-side scaling are read and changed:
//! those of the router where it spreads flows in software, else those of the device.

use super::exchange::Exchange;
use super::indirection::Indirection;
use super::reta;
use dpdk::Port;
use std::sync::Arc;

/// Who spreads flows.
enum Spreads {
    Router(Arc<Indirection>),
    Device(Arc<Port>),
}

fn spreads(exchange: &Exchange) -> Result<Spreads, String> {
    match (exchange.known_indirection(), exchange.port()) {
        (Some(table), _) => Ok(Spreads::Router(Arc::clone(table))),
        (None, Some(port)) => Ok(Spreads::Device(port)),
        (None, None) => Err("the port is not open".to_owned()),
    }
}

fn text(error: dpdk::Error) -> String {
    error.to_string()
}

/// `rss_table`
pub(super) fn table(exchange: &Exchange) -> Result<String, String> {
    match spreads(exchange)? {
        Spreads::Router(table) => Ok(table.table_text()),
        Spreads::Device(port) => {
            let entries: Vec<usize> = port.rss_table().map_err(text)?.into_iter().map(usize::from).collect();
            Ok(reta::print(&entries))
        }
    }
}

/// `rss_table`, written. The rebalancer leaves the table alone from then on.
pub(super) fn write_table(exchange: &Exchange, change: &str) -> Result<(), String> {
    match spreads(exchange)? {
        Spreads::Router(table) => {
            table.write_table(change)?;
            if let Some(history) = exchange.known_history() {
                history.switch(false);
            }
            Ok(())
        }
        Spreads::Device(port) => {
            let mut entries = port.rss_table().map_err(text)?;
            let queues: Vec<usize> = (0..usize::from(port.rx_queues())).collect();
            for (bucket, queue) in reta::parse(change, entries.len(), "queue", &queues)? {
                if let Some(entry) = entries.get_mut(bucket) {
                    *entry = queue as u16;
                }
            }
            port.set_rss_table(&entries).map_err(text)
        }
    }
}

/// `rss_key`
pub(super) fn key(exchange: &Exchange) -> Result<String, String> {
    match spreads(exchange)? {
        Spreads::Router(table) => Ok(table.key().map_or_else(String::new, |key| reta::print_key(&key))),
        Spreads::Device(port) => port.rss_key().map(|key| reta::print_key(&key)).map_err(text),
    }
}

/// `rss_key`, written.
pub(super) fn write_key(exchange: &Exchange, change: &str) -> Result<(), String> {
    let key = reta::parse_key(change)?;
    match spreads(exchange)? {
        Spreads::Router(table) => table.set_key(&key),
        Spreads::Device(port) => port.set_rss_key(&key).map_err(text),
    }
}

/// `rss_packets`
pub(super) fn packets(exchange: &Exchange) -> String {
    exchange.known_indirection().map_or_else(String::new, |table| table.packets_text())
}

/// `rss_buckets`
pub(super) fn buckets(exchange: &Exchange) -> String {
    exchange.known_indirection().map_or_else(String::new, |table| table.buckets_text())
}

/// `rss_moved`
pub(super) fn moved(exchange: &Exchange) -> String {
    let Some(table) = exchange.known_indirection() else { return String::new() };
    let moved = table.readings().moved;
    format!("buckets\t{}\nheld\t{}\nunordered\t{}\n", moved.buckets, moved.held, moved.unordered)
}
