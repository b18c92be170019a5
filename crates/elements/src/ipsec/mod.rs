//! IPsec: ESP in tunnel mode (RFC 4303) through DPDK's crypto devices.

mod engine;
mod espdecap;
mod espencap;
mod ipsecsad;

use runtime::{Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<ipsecsad::IPsecSAD>());
    r.add(vector::<espencap::ESPEncap>());
    r.add(vector::<espdecap::ESPDecap>());
}
