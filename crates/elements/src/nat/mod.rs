//! Translating addresses and ports, and distributing connections over servers.

mod engine;
mod healthcheck;
mod iprewriter;
mod iprewriterpatterns;
mod maglevipmapper;
mod roundrobinipmapper;
#[cfg(test)]
mod tests;

use runtime::{Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<healthcheck::HealthCheck>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Both>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Tcp>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Udp>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Ping>>());
    r.add(inert::<iprewriterpatterns::IPRewriterPatterns>());
    r.add(inert::<maglevipmapper::MaglevIPMapper>());
    r.add(inert::<roundrobinipmapper::RoundRobinIPMapper>());
}
