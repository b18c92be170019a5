//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports.
//!
//! # Layers
//!
//! 1. `model`, `place`: an experiment; which processors are used.
//! 2. `file`: from the text of a file to an experiment.
//! 3. `trial`, `device`, `results`: one trial; the device under test; the file of results.
//! 4. `report`: the results as a table, as JSON, as CSV.
//! 5. `run`, `compare`: the whole of it; what two reports have in common.
#![forbid(unsafe_code)]

mod compare;
mod device;
mod file;
mod model;
mod place;
mod report;
mod results;
mod run;
mod trial;

pub use compare::Comparison;
pub use model::{Device, Experiment, Factor, Measure, Point};
pub use report::Report;
pub use results::{Results, Shown};
pub use run::{Ended, Options, run};
pub use trial::Trial;
