//! # ToHost
//! Gives packets to this machine's network stack, as if they had arrived by an interface.
//!
//! ## Synopsis
//! `ToHost(DEVNAME [, TYPE, NETNS])`
//!
//! ## Arguments
//! - `DEVNAME` (*string*): the interface, which must be that of a FromHost element with the same `DEVNAME`.
//! - `TYPE` (*`ETHER` or `IP`*, default `ETHER`): what packets begin with; as at the FromHost.
//! - `NETNS` (*string*, keyword): the interface's network namespace, as at the FromHost.
//!
//! ## Ports
//! One input, agnostic; no output.
//!
//! ## Handlers
//! - `dev_name` (read): the interface.
//! - `count` (read): packets that came here.
//! - `drops` (read): how many of these were dropped.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! FromHost(fake0, 10.99.1.1/24) -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> ToHost(fake0);
//! ```
//!
//! ## See also
//! FromHost, KernelTap

use super::engine::host::{HostSlot, ToKernel};
use super::fromhost::FromHost;
use crate::prelude::*;
use dpdk::{TunConfig, TunMode};
use lang::args::split_args;

/// The `ToHost` element.
pub struct ToHost {
    device: HostSlot,
    out: ToKernel,
    count: Counter,
}

impl Element for ToHost {
    const CLASS: &'static str = "ToHost";
    const PORTS: &'static str = "1/0";
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = super::engine::host::DROPS;
    const OPENS: Option<Opens> = Some(Opens::Interface);
    const MANUAL: &'static str = manual!("devices/tohost");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let name: String = args.mp("DEVNAME")?;
        let mode = match args.k::<String>("TYPE")?.unwrap_or_default().to_ascii_uppercase().as_str() {
            "" | "ETHER" => TunMode::Ethernet,
            "IP" => TunMode::Ip,
            _ => return Err(ArgError::new("bad TYPE, expected ETHER or IP")),
        };
        let makes_it = |config: &str| {
            split_args(config).iter().enumerate().any(|(at, arg)| {
                let text = lang::unquote(&arg.text);
                at == 0 && text == name || text.strip_prefix("DEVNAME").is_some_and(|t| t.trim() == name)
            })
        };
        if !cx.config().elements.iter().any(|e| e.class == FromHost::CLASS && makes_it(&e.config)) {
            let message = format!("ToHost({name}) requires an initialized FromHost with the same dev_name");
            return Err(ArgError::new(message));
        }
        let mut config = TunConfig::new(&name, mode);
        config.namespace = super::engine::arguments::namespace(args)?;
        cx.permits(Outside::Interface(&name, config.namespace.as_deref()), args)?;
        let device = HostSlot::open(cx, config);
        Ok(Self { device, out: ToKernel::new(), count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dev_name", |e| e.device.get().map_or_else(String::new, |d| d.name.clone()));
        h.counter("count", |e| &e.count);
        h.stats("drops", |stats| stats.drops.iter().map(|(_, n)| n).sum::<u64>().to_string());
        h.listed(&["dev_name", "drops"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(device) = self.device.get().cloned() else { return false };
        let mut moved = self.out.flush(&device, cx);
        if cx.input_is_pull(0) && cx.runs_here() {
            let mut batch = cx.spare_batch();
            let n = cx.pull_lending(self, 0, cx.batch_size(), &mut batch);
            self.push(0, batch, cx);
            moved |= n > 0;
            if n > 0 || cx.upstream_active(0) {
                cx.reschedule();
            }
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.out.take_over(&mut old.out);
        if !self.out.is_empty() {
            cx.reschedule_here();
        }
    }
}

impl Vector for ToHost {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match self.device.get().cloned() {
            Some(device) => {
                self.count.add(batch.len() as u64);
                self.out.push(&device, batch, cx);
            }
            None => cx.drop_batch(batch, drops::NO_DEVICE),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_name_is_wanted() {
        assert!(Bench::error("ToHost()").contains("DEVNAME"));
        let error = Bench::error("ToHost(fake0)");
        assert!(
            error.contains("ToHost(fake0) requires an initialized FromHost with the same dev_name"),
            "{error}"
        );
    }
}
