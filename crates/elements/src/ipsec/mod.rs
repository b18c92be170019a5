//! IPsec: ESP in tunnel mode (RFC 4303) through DPDK's crypto devices.

mod association;
mod database;
mod espdecap;
mod espencap;
mod ipsecsad;
mod window;

use runtime::{Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<ipsecsad::IPsecSAD>());
    r.add(vector::<espencap::ESPEncap>());
    r.add(vector::<espdecap::ESPDecap>());
}
