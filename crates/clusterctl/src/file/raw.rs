//! The cluster file as it is written, before it is interpreted.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) name: Spanned<String>,
    pub(super) key_file: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) insecure: bool,
    pub(super) rate: Spanned<String>,
    pub(super) link_rate: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) shape: bool,
    pub(super) fair: Option<bool>,
    #[serde(default)]
    pub(super) measure: bool,
    pub(super) program: Spanned<String>,
    pub(super) table: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) define: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) policy: RawPolicy,
    #[serde(default)]
    pub(super) hello: RawHello,
    pub(super) etcd: Option<RawEtcd>,
    #[serde(default)]
    pub(super) topology: RawTopology,
    #[serde(default)]
    pub(super) node: Vec<RawNode>,
    #[serde(default)]
    pub(super) route: Vec<RawRoute>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    pub(super) mode: Option<Spanned<String>>,
    pub(super) delta: Option<Spanned<String>>,
    pub(super) flows: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) resequence: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHello {
    pub(super) every: Option<Spanned<String>>,
    pub(super) dead: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEtcd {
    pub(super) endpoints: Spanned<Vec<String>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) ttl: Option<Spanned<String>>,
    pub(super) ca_file: Option<Spanned<String>>,
    pub(super) cert_file: Option<Spanned<String>>,
    pub(super) key_file: Option<Spanned<String>>,
    pub(super) user: Option<Spanned<String>>,
    pub(super) password_file: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTopology {
    pub(super) kind: Option<Spanned<String>>,
    pub(super) k: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNode {
    pub(super) id: Spanned<u16>,
    #[serde(default)]
    pub(super) removed: bool,
    pub(super) host: Option<String>,
    pub(super) netns: Option<Spanned<String>>,
    pub(super) socket: Option<Spanned<String>>,
    pub(super) workers: Option<Spanned<u16>>,
    pub(super) cpus: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) port: Vec<RawPort>,
    #[serde(default)]
    pub(super) link: Vec<RawLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPort {
    pub(super) device: Spanned<String>,
    pub(super) network: Spanned<String>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) mtu: Option<Spanned<u32>>,
    pub(super) rate: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) to: Spanned<u16>,
    pub(super) device: Option<Spanned<String>>,
    pub(super) vxlan: Option<Spanned<RawVxlan>>,
    pub(super) mtu: Option<Spanned<u32>>,
    pub(super) rate: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVxlan {
    pub(super) vni: u32,
    pub(super) device: Spanned<String>,
    pub(super) local: Spanned<String>,
    pub(super) remote: Spanned<String>,
    pub(super) gateway: Option<Spanned<String>>,
    pub(super) mac: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoute {
    pub(super) prefix: Spanned<String>,
    pub(super) via: Spanned<String>,
}
