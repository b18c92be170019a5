//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports.
//!
//! # Layers
//!
//! 1. `model`, `place`, `cost`, `log`: an experiment; which processors are used; what a trial costs the
//!    device; the messages of a process.
//! 2. `values`, `traffic`, `factors`, `varied`, `measured`, `file`: from the text of a file to an experiment:
//!    its values, what the generator can do, whether effects can be told apart, the points, what is measured,
//!    all of it.
//! 3. `trial`, `meter`, `device`, `results`: one trial; the device under test, and what a trial costs it; the
//!    file of results.
//! 4. `layout`, `costs`, `backtoback`: tables and medians; what trials have cost the device, and the longest
//!    bursts without loss, as text and as JSON.
//! 5. `rows`, `report`: the results at a point; all of them as a table, as JSON, as CSV.
//! 6. `run`, `compare`: the whole of it; what two reports have in common.
#![forbid(unsafe_code)]

mod backtoback;
mod compare;
mod cost;
mod costs;
mod device;
mod factors;
mod file;
mod layout;
mod log;
mod measured;
mod meter;
mod model;
mod place;
mod report;
mod results;
mod rows;
mod run;
mod traffic;
mod trial;
mod values;
mod varied;

pub use compare::Comparison;
pub use cost::{Cost, Counted, ElementCost, Known, RouterCost};
pub use model::{Bursts, Device, Experiment, Factor, Measure, Point};
pub use report::Report;
pub use results::{Results, Shown};
pub use run::{Ended, Options, run};
pub use trial::{Burst, Jitter, Timeline, Trial};
