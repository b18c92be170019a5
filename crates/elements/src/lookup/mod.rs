//! IP routing tables.

mod engine;
mod iplookup;
mod linuxiplookup;
mod linuxroutes;

pub(crate) use engine::routes::Table;
use runtime::{Registry, inert, vector};

/// Registers the section's classes. Those that look up are one element with one engine; they have the same
/// differences as Click's.
pub fn register(r: &mut Registry) {
    r.add(vector::<iplookup::IPLookup<iplookup::Static>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Linear>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Sorted>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Radix>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Direct>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Range>>());
    r.add(vector::<iplookup::IPLookup<linuxiplookup::Linux>>());
    r.alias("LookupIPRoute", "StaticIPLookup");
    r.add(inert::<linuxroutes::LinuxRoutes>());
}
