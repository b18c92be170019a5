//! Translating addresses and ports, and distributing connections over servers.

mod engine;
mod ftpportmapper;
mod healthcheck;
mod icmprewriter;
mod ipaddrpairrewriter;
mod ipaddrrewriter;
mod iprewriter;
mod iprewriterpatterns;
mod maglevipmapper;
mod nat64;
mod roundrobinipmapper;
mod sourceiphashmapper;
#[cfg(test)]
mod tests;

use runtime::{Registry, inert, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<ftpportmapper::FTPPortMapper>());
    r.add(vector::<healthcheck::HealthCheck>());
    r.add(vector::<icmprewriter::ICMPRewriter>());
    r.add(vector::<iprewriter::Rewriter<ipaddrpairrewriter::Pair>>());
    r.add(vector::<iprewriter::Rewriter<ipaddrrewriter::Address>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Both>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Tcp>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Udp>>());
    r.add(vector::<iprewriter::Rewriter<iprewriter::Ping>>());
    r.add(inert::<iprewriterpatterns::IPRewriterPatterns>());
    r.add(inert::<maglevipmapper::MaglevIPMapper>());
    r.add(vector::<nat64::NAT64>());
    r.add(inert::<roundrobinipmapper::RoundRobinIPMapper>());
    r.add(inert::<sourceiphashmapper::SourceIPHashMapper>());
}
