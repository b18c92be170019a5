//! The host file as it is written, before it is interpreted.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The whole file.
/// Where the keys are described.
pub(super) const HELP: &str = "conf/virtual-routers.toml is an example, doc/virtual-routers.md has all keys";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    #[serde(default)]
    pub(super) host: RawHost,
    #[serde(default)]
    pub(super) port: BTreeMap<Spanned<String>, RawPort>,
    #[serde(default)]
    pub(super) router: BTreeMap<Spanned<String>, RawRouter>,
    #[serde(default)]
    pub(super) link: Vec<RawLink>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) name: Option<Spanned<String>>,
    pub(super) cores: Option<Spanned<Vec<Spanned<i64>>>>,
    pub(super) directory: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPort {
    pub(super) device: Spanned<String>,
    pub(super) sharing: Option<Spanned<String>>,
    pub(super) queues: Option<Spanned<i64>>,
    pub(super) default: Option<Spanned<String>>,
    pub(super) tunnel: Option<Spanned<RawTunnel>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTunnel {
    pub(super) local: Spanned<String>,
    pub(super) remote: Spanned<String>,
    pub(super) remote_mac: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRouter {
    pub(super) program: Option<Spanned<String>>,
    pub(super) machine: Option<Spanned<bool>>,
    pub(super) scheme: Option<Spanned<String>>,
    pub(super) share: Option<Spanned<i64>>,
    pub(super) owner: Option<Spanned<String>>,
    pub(super) cores: Option<Spanned<Vec<Spanned<i64>>>>,
    pub(super) filter: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) variables: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) control: Option<Spanned<RawControl>>,
    pub(super) allow: Option<Spanned<RawAllow>>,
    pub(super) tcp: Option<Spanned<RawTcp>>,
    #[serde(default)]
    pub(super) interface: Vec<Spanned<RawInterface>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawControl {
    pub(super) namespace: Option<Spanned<String>>,
    pub(super) interfaces: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTcp {
    pub(super) listen: Spanned<String>,
    pub(super) token_file: Spanned<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAllow {
    pub(super) read: Option<Vec<Spanned<String>>>,
    pub(super) write: Option<Vec<Spanned<String>>>,
    pub(super) sockets: Option<Vec<Spanned<String>>>,
    pub(super) devices: Option<Vec<Spanned<String>>>,
    pub(super) namespaces: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) routes: Option<Spanned<i64>>,
    pub(super) neighbors: Option<Spanned<i64>>,
    pub(super) flows: Option<Spanned<i64>>,
    pub(super) buffers: Option<Spanned<i64>>,
    pub(super) queue: Option<Spanned<i64>>,
    pub(super) memory: Option<Spanned<String>>,
    pub(super) handler_calls: Option<Spanned<i64>>,
    pub(super) log_lines: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInterface {
    pub(super) name: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) vlan: Option<Spanned<i64>>,
    pub(super) qinq: Option<Spanned<Vec<Spanned<i64>>>>,
    pub(super) mpls: Option<Spanned<i64>>,
    pub(super) vni: Option<Spanned<i64>>,
    pub(super) queue: Option<Spanned<i64>>,
    pub(super) whole: Option<Spanned<bool>>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) addresses: Option<Vec<Spanned<String>>>,
    pub(super) rate: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) ends: Spanned<Vec<Spanned<String>>>,
}
