//! A link as users see it: the values of its handlers, and what has been printed about it.

use super::fabric::{Fabric, LinkState};
use cluster::NodeId;
use cluster::hello::Reason;
use serde_json::json;
use std::sync::Arc;

/// The state of a link that was printed last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cluster) struct Reported {
    pub(in crate::cluster) up: bool,
    pub(in crate::cluster) reason: Option<Reason>,
    pub(in crate::cluster) duplicates: Vec<NodeId>,
}

impl Reported {
    pub(in crate::cluster) fn words(&self) -> String {
        let duplicates =
            self.duplicates.iter().map(|n| format!("two nodes of the cluster call themselves node {n}"));
        self.reason.map(|r| r.to_string()).into_iter().chain(duplicates).collect::<Vec<_>>().join("; ")
    }
    /// Whether the state needs an administrator's attention.
    pub(in crate::cluster) fn fault(&self) -> bool {
        use Reason::{Settling, Silent, Waits};
        !self.duplicates.is_empty()
            || self.reason.is_some_and(|r| !matches!(r, Silent(_) | Settling(_) | Waits(_)))
    }
}

/// The state of a link, for handlers.
pub(in crate::cluster) struct View {
    pub(in crate::cluster) fabric: Arc<Fabric>,
    pub(in crate::cluster) link: Arc<LinkState>,
    pub(in crate::cluster) peer: NodeId,
}

impl View {
    pub(in crate::cluster) fn state(&self) -> &'static str {
        match (self.link.up(), self.link.ready()) {
            (true, _) => "up",
            (false, true) => "ready",
            (false, false) => "down",
        }
    }
    pub(in crate::cluster) fn reason(&self) -> String {
        let reason = self.fabric.with_link(self.peer, |l| l.reason()).flatten();
        reason.map(|r| r.to_string()).unwrap_or_default()
    }
    pub(in crate::cluster) fn counts(&self) -> [(&'static str, u64); 10] {
        let c = self.fabric.with_link(self.peer, |l| *l.counts()).unwrap_or_default();
        [
            ("sent", c.sent),
            ("heard", c.heard),
            ("foreign", c.foreign),
            ("malformed", c.malformed),
            ("stale", c.stale),
            ("misdirected", c.misdirected),
            ("ignored", c.ignored),
            ("opened", c.opened),
            ("sessions", c.sessions),
            ("down", c.downs),
        ]
    }
    pub(in crate::cluster) fn rtt_ns(&self) -> Option<u64> {
        self.fabric.with_link(self.peer, |l| l.rtt_ns()).flatten()
    }
    pub(in crate::cluster) fn status(&self) -> String {
        let counts: serde_json::Map<_, _> =
            self.counts().into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect();
        let (state, reason, rtt_ns) = (self.state(), self.reason(), self.rtt_ns());
        json!({"peer": self.peer.0, "state": state, "reason": reason, "rtt_ns": rtt_ns, "hellos": counts})
            .to_string()
    }
}
