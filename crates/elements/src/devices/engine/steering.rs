//! The handlers by which the indirection table and the key of receive-side scaling are read and changed.

use super::exchange::Exchange;
use super::indirection::Indirection;
use super::reta;
use std::sync::Arc;

/// Why there is nothing to change.
fn absent() -> String {
    "no table is in use here: the device distributes its packets over the workers' queues itself, or there is one worker"
        .to_owned()
}

fn software(exchange: &Exchange) -> Result<&Arc<Indirection>, String> {
    exchange.known_indirection().ok_or_else(absent)
}

/// `rss_table`: empty where there is none.
pub(super) fn table(exchange: &Exchange) -> String {
    exchange.known_indirection().map_or_else(String::new, |table| table.table_text())
}

/// `rss_table`, written. The rebalancer leaves the table alone from then on.
pub(super) fn write_table(exchange: &Exchange, text: &str) -> Result<(), String> {
    software(exchange)?.write_table(text)?;
    if let Some(history) = exchange.known_history() {
        history.switch(false);
    }
    Ok(())
}

/// `rss_key`: empty where there is none.
pub(super) fn key(exchange: &Exchange) -> String {
    let key = exchange.known_indirection().and_then(|table| table.key());
    key.map_or_else(String::new, |key| reta::print_key(&key))
}

/// `rss_key`, written.
pub(super) fn write_key(exchange: &Exchange, text: &str) -> Result<(), String> {
    let table = software(exchange)?;
    table.set_key(&reta::parse_key(text)?)
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
