//! Classification by header contents: three languages with one engine, and flow rules.

pub(crate) mod classifier;
mod engine;
mod flowclassifier;
mod ipclassifier;
mod ipfilter;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<classifier::Classifier>());
    r.add(vector::<flowclassifier::FlowClassifier>());
    r.add(vector::<ipclassifier::IpClassifier>());
    r.add(vector::<ipfilter::IpFilter>());
}
