//! Classification by header contents: three languages, one engine.

pub(crate) mod classifier;
mod engine;
mod ipclassifier;
mod ipfilter;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<classifier::Classifier>());
    r.add(vector::<ipclassifier::IpClassifier>());
    r.add(vector::<ipfilter::IpFilter>());
}
