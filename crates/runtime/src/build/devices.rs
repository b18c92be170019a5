//! Resources that elements need outside the process: DPDK's environment and ports.

use crate::configure::PortSlot;
use crate::options::Options;
use crate::placement::{self, Lanes, PortUse};
use lang::{Config, Diagnostic, Diagnostics};
use std::sync::Arc;

/// Requests that memory be allocated on a worker's NUMA node.
pub(super) fn on_node(options: &Options, worker: usize) -> dpdk::OnNode {
    dpdk::OnNode::new(options.nodes.get(worker).copied().flatten())
}

/// Starts the DPDK environment in the background: it takes a tenth of a second, during which large tables are
/// loaded. Not done for a configuration with PCI devices, because the environment must know all of them when
/// it starts.
pub(super) struct Environment {
    allowed: bool,
    starter: Option<std::thread::JoinHandle<()>>,
}

impl Environment {
    /// Starts at once if an element has a virtual device as its first argument.
    pub(super) fn new(config: &Config, options: &Options) -> Self {
        let specs = config.elements.iter().filter_map(|e| {
            let first = e.config.trim_start_matches('"').split([',', '"']).next()?;
            dpdk::PortSpec::parse(first.trim()).ok()
        });
        let (mut pci, mut vdev) = (false, false);
        for spec in specs {
            pci |= matches!(spec, dpdk::PortSpec::Pci { .. });
            vdev |= matches!(spec, dpdk::PortSpec::Vdev(_));
        }
        let mut this = Self { allowed: !pci && !options.check_only, starter: None };
        if vdev {
            this.start(options);
        }
        this
    }
    /// One that is never started.
    pub(super) fn unused() -> Self {
        Self { allowed: false, starter: None }
    }
    pub(super) fn start(&mut self, options: &Options) {
        if self.allowed && self.starter.is_none() && dpdk::Eal::get().is_none() {
            let eal = options.eal.clone();
            let starter = std::thread::Builder::new().name("valiant-start".to_owned());
            // The code that opens the ports calls this again, and gets the error if there is one.
            self.starter = starter.spawn(move || drop(dpdk::Eal::init(&eal))).ok();
        }
    }
}

impl Drop for Environment {
    /// The process must not end while DPDK starts.
    fn drop(&mut self) {
        if let Some(starter) = self.starter.take() {
            // Nothing in it panics; `Eal::init` reports errors.
            let _ = starter.join();
        }
    }
}

/// Opens all ports that the configuration uses, unless it is only checked, and assigns their queues.
pub(super) fn open_ports(
    uses: Vec<PortUse>,
    slots: &[(usize, PortSlot)],
    config: &Config,
    options: &Options,
    diags: &mut Diagnostics,
    warnings: &mut Vec<Diagnostic>,
) -> Vec<(PortUse, Option<Arc<Lanes>>)> {
    let workers = options.workers.max(1);
    let roles = match options.placement.roles(workers) {
        Ok(roles) => roles,
        Err(message) => {
            diags.error(None, message);
            return Vec::new();
        }
    };
    // The uses of each port, in the order of the configuration.
    let mut by_port: Vec<(&dpdk::PortSpec, Vec<usize>)> = Vec::new();
    for (number, one) in uses.iter().enumerate() {
        match by_port.iter_mut().find(|(spec, _)| *spec == &one.spec) {
            Some((_, numbers)) => numbers.push(number),
            None => by_port.push((&one.spec, vec![number])),
        }
    }
    let mut report = |diags: &mut Diagnostics, numbers: &[usize], problems: Vec<placement::Problem>| {
        for problem in problems {
            let element = &config.elements[uses[numbers[problem.of]].element];
            if problem.fatal {
                let error = Diagnostic::error(element.span, problem.text);
                diags.push(error.with_landmark(element.while_initializing()));
            } else {
                let warning = Diagnostic::warning(element.span, problem.text);
                warnings.push(warning.with_landmark(element.while_initializing()));
            }
        }
    };
    let of = |numbers: &[usize]| numbers.iter().map(|&n| uses[n].clone()).collect::<Vec<_>>();
    for (_, numbers) in &by_port {
        report(diags, numbers, placement::contradictions(&of(numbers)));
    }
    let mut lanes: Vec<Option<Arc<Lanes>>> = vec![None; uses.len()];
    if !options.check_only && !diags.has_errors() {
        let mut table = dpdk::PortTable::new();
        for one in &uses {
            table.request(&one.spec, &placement::needs(one, &roles));
        }
        if let Err(errors) = table.prepare_all(&options.eal) {
            for error in errors {
                // The error names the port; it is shown at the first element that uses the port.
                let text = error.to_string();
                let at = uses.iter().find(|one| text.contains(&one.spec.to_string())).or(uses.first());
                let element = at.map(|one| &config.elements[one.element]);
                let error = Diagnostic::error(element.map(|element| element.span), text);
                diags.push(match element {
                    Some(element) => error.with_landmark(element.while_initializing()),
                    None => error,
                });
            }
        }
        for (spec, numbers) in &by_port {
            let Some(port) = table.get(spec).filter(|_| !diags.has_errors()) else { continue };
            let queues = (port.rx_queues(), port.tx_queues());
            let (assigned, problems) = placement::assign(&of(numbers), queues, workers, &roles);
            report(diags, numbers, problems);
            for (&number, assigned) in numbers.iter().zip(assigned) {
                let assigned = Arc::new(assigned);
                slots.iter().filter(|(n, _)| *n == number).for_each(|(_, slot)| slot.set(port, &assigned));
                lanes[number] = Some(assigned);
            }
        }
    }
    uses.into_iter().zip(lanes).collect()
}
