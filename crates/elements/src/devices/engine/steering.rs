//! The handlers by which the indirection table and the key of receive-side scaling are read and changed:
//! those of the router where it spreads flows in software, else those of the device.

use super::exchange::Exchange;
use super::history::History;
use super::indirection::Indirection;
use super::parkstate::ParkState;
use super::prefixsteer;
use super::reta;
use crate::prelude::*;
use dpdk::Port;
use std::sync::Arc;

/// The handlers of what an element does with its table.
pub(super) fn handlers<E: Element>(h: &mut Handlers<E>) {
    h.shared_read::<Exchange>("rss_table", |x, _| table(x));
    h.shared_write::<Exchange>("rss_table", write_table);
    h.shared_read::<Exchange>("rss_key", |x, _| key(x));
    h.shared_write::<Exchange>("rss_key", write_key);
    h.shared_read::<Exchange>("rss_packets", |x, _| Ok(packets(x)));
    h.shared_read::<Exchange>("rss_buckets", |x, _| Ok(buckets(x)));
    h.shared_read::<Exchange>("rss_moved", |x, _| Ok(moved(x)));
    h.shared_read::<History>("rebalance", |history, _| Ok(history.is_on().to_string()));
    h.shared_write::<History>("rebalance", |history, text| {
        history.switch(lang::args::parse(text.trim()).map_err(|_| "expected true or false".to_owned())?);
        Ok(())
    });
    h.shared_read::<History>("rebalance_status", |history, _| Ok(history.status()));
    h.shared_read::<History>("summary", |history, _| Ok(history.summary()));
    h.shared_read::<ParkState>("park", |state, _| Ok(state.is_on().to_string()));
    h.shared_write::<ParkState>("park", |state, text| {
        let on = lang::args::parse(text.trim()).map_err(|_| "expected true or false".to_owned())?;
        state.switch(on)
    });
    h.shared_read::<ParkState>("park_log", |state, _| Ok(state.log()));
    h.shared_read::<Exchange>("park_status", |x, _| Ok(park_status(x)));
    h.shared_read::<Exchange>("parked", |x, _| Ok(parked(x)));
    h.shared_read::<History>("rebalance_log", |history, _| Ok(history.log()));
    h.shared_read::<Exchange>("parts", |x, _| prefixsteer::parts(x));
    h.shared_read::<Exchange>("prefixes", |x, _| prefixsteer::prefixes(x));
    h.shared_write::<Exchange>("divide", prefixsteer::divide);
}

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
fn table(exchange: &Exchange) -> Result<String, String> {
    match spreads(exchange)? {
        Spreads::Router(table) => Ok(table.table_text()),
        Spreads::Device(port) => {
            let entries: Vec<usize> = port.rss_table().map_err(text)?.into_iter().map(usize::from).collect();
            Ok(reta::print(&entries))
        }
    }
}

/// `rss_table`, written. From then on nothing moves by itself, and no worker is parked.
fn write_table(exchange: &Exchange, change: &str) -> Result<(), String> {
    match spreads(exchange)? {
        Spreads::Router(table) => {
            table.write_table(change)?;
            if let Some(history) = exchange.known_history() {
                history.switch(false);
            }
            if let Some(state) = exchange.known_park_state() {
                state.switch(false)?;
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
            port.set_rss_table(&entries).map_err(text)?;
            // What was written stays, as where the router spreads flows.
            if let Some(history) = exchange.known_history() {
                history.switch(false);
            }
            Ok(())
        }
    }
}

/// `rss_key`
fn key(exchange: &Exchange) -> Result<String, String> {
    match spreads(exchange)? {
        Spreads::Router(table) => Ok(table.key().map_or_else(String::new, |key| reta::print_key(&key))),
        Spreads::Device(port) => port.rss_key().map(|key| reta::print_key(&key)).map_err(text),
    }
}

/// `rss_key`, written.
fn write_key(exchange: &Exchange, change: &str) -> Result<(), String> {
    let key = reta::parse_key(change)?;
    match spreads(exchange)? {
        Spreads::Router(table) => table.set_key(&key),
        Spreads::Device(port) => {
            port.set_rss_key(&key).map_err(text)?;
            if let Some(table) = exchange.known_device_table() {
                table.set_key(port.rss_key().ok().as_deref());
            }
            Ok(())
        }
    }
}

/// `rss_packets`
fn packets(exchange: &Exchange) -> String {
    exchange.known_indirection().map_or_else(String::new, |table| table.packets_text())
}

/// `rss_buckets`
fn buckets(exchange: &Exchange) -> String {
    match (exchange.known_indirection(), exchange.known_device_table()) {
        (Some(table), _) => table.buckets_text(),
        (None, Some(table)) => table.buckets_text(),
        (None, None) => String::new(),
    }
}

/// `rss_moved`
fn moved(exchange: &Exchange) -> String {
    let moved = match (exchange.known_indirection(), exchange.known_device_table()) {
        (Some(table), _) => table.readings().moved,
        (None, Some(table)) => table.readings().moved,
        (None, None) => return String::new(),
    };
    format!("buckets\t{}\nheld\t{}\nunordered\t{}\n", moved.buckets, moved.held, moved.unordered)
}

/// `parked`
fn parked(exchange: &Exchange) -> String {
    let Some(table) = exchange.known_indirection() else { return String::new() };
    let mut workers = table.between(table.awake(), table.workers().len());
    workers.sort_unstable();
    runtime::placement::listed(&workers)
}

/// `park_status`
fn park_status(exchange: &Exchange) -> String {
    let table = exchange.known_indirection().map(|table| &**table);
    exchange.known_park_state().map_or_else(String::new, |state| state.status(table))
}
