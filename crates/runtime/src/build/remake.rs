//! Makes one element of a running configuration anew, with other arguments.

use super::connect::Passing;
use super::devices::Environment;
use super::elements::{From, Made};
use super::over_limit;
use crate::clock::Clock;
use crate::configure::StartAction;
use crate::control::ControlTask;
use crate::cx::Node;
use crate::facts::Facts;
use crate::hub::Hub;
use crate::info::Loaded;
use crate::options::Options;
use crate::replacing::Replacing;
use crate::store::SharedStore;
use lang::{Config, Diagnostic, Diagnostics};
use std::sync::Arc;

/// An element that is ready to take another one's place.
pub(crate) struct Remade {
    /// The configuration with the new arguments.
    pub(crate) config: Config,
    /// By worker; `None` where the element belongs to another worker.
    pub(crate) nodes: Vec<Option<Box<dyn Node>>>,
    /// What the element shares.
    pub(crate) store: Arc<SharedStore>,
    pub(crate) control: Vec<(String, Box<dyn ControlTask>)>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) acts: Vec<StartAction>,
    pub(crate) holding: Vec<(usize, usize)>,
}

/// Makes the element with the number `index` of `loaded`, on all workers, with the arguments `arguments`.
///
/// # Errors
/// All errors in the arguments.
pub(crate) fn remake(
    loaded: &Loaded,
    index: usize,
    arguments: &str,
    options: &Options,
    clock: &Clock,
    hub: &Arc<Hub>,
) -> Result<Remade, Diagnostics> {
    let _replacing = Replacing::begin(true);
    let plan = &loaded.plan;
    let mut config = Config::clone(&loaded.config);
    arguments.clone_into(&mut config.elements[index].config);
    let mut diags = Diagnostics::new();
    diags.set_sources(config.sources.clone());
    let facts: Vec<Facts> = plan.classes.iter().map(|class| class.facts).collect();
    let store = Arc::new(SharedStore::beside(&loaded.store, &config.elements[index].name));
    let from = From {
        config: &config,
        classes: &plan.classes,
        facts: &facts,
        sides: &plan.sides,
        options,
        clock,
        hub,
        by_name: &loaded.by_name,
        store: &store,
        inherited: None,
        moved: None,
    };
    let rows = |_| (0..config.elements.len()).map(|_| None).collect();
    let mut made = Made {
        nodes: (0..options.workers.max(1)).map(rows).collect(),
        scheduling: plan.scheduling.clone(),
        passing: Passing { crossing: plan.crossing.clone(), pulling: plan.pulling.clone() },
        ..Made::default()
    };
    let mut environment = Environment::unused();
    made.add(&from, index, &mut plan.names.clone(), &mut environment, &mut diags);
    if let Some(exceeded) = accounts::inherit().exceeded() {
        diags.error(None, format!("{exceeded} so far"));
    }
    if !made.uses.is_empty() {
        diags.error(None, "a port of the machine cannot be changed");
    }
    if !diags.has_errors() {
        for (_, start) in made.starters {
            if let Err(message) = start() {
                diags.error(None, message);
            }
        }
    }
    let others = plan.holding.iter().filter(|(element, _)| *element != index).copied();
    let holding: Vec<(usize, usize)> = others.chain(made.holding).collect();
    if let Some(error) = over_limit(&holding, &options.limits, &config) {
        diags.push(error);
    }
    if diags.has_errors() {
        return Err(diags);
    }
    let nodes = made.nodes.iter_mut().map(|row| row[index].take()).collect();
    let (control, warnings, acts) = (made.control, made.warnings, made.acts);
    Ok(Remade { config, nodes, store, control, warnings, acts, holding })
}
