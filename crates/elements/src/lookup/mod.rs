//! IP routing tables.

mod engine;
mod iplookup;

use runtime::{Registry, vector};

/// Registers the section's classes. They are one element with one engine; the classes have the same
/// differences as Click's.
pub fn register(r: &mut Registry) {
    r.add(vector::<iplookup::IPLookup<iplookup::Static>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Linear>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Sorted>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Radix>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Direct>>());
    r.add(vector::<iplookup::IPLookup<iplookup::Range>>());
    r.alias("LookupIPRoute", "StaticIPLookup");
}
