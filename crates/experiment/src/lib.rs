//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports.
//!
//! # Layers
//!
//! 1. `values`, `reading`: values as files have them; the JSON of a report, read again.
//! 2. `paper`, `expect`: the figure that an experiment repeats; what is expected of the results.
//! 3. `model`, `place`: an experiment; which processors are used.
//! 4. `file`: from the text of a file to an experiment.
//! 5. `trial`, `device`, `results`: one trial; the device under test; the file of results.
//! 6. `report`, `plots`: the results as a table, as JSON, as CSV; as plots.
//! 7. `run`, `compare`, `page`: the whole of it; what two reports have in common; a report as HTML.
//! 8. `index`: a page that leads to others.
#![forbid(unsafe_code)]

mod compare;
mod device;
mod expect;
mod file;
mod index;
mod model;
mod page;
mod paper;
mod place;
mod plots;
mod reading;
mod report;
mod results;
mod run;
mod trial;
mod values;

pub use compare::Comparison;
pub use index::index;
pub use model::{Device, Experiment, Factor, Measure, Point};
pub use page::page;
pub use report::Report;
pub use results::{Results, Shown};
pub use run::{Ended, Options, run};
pub use trial::Trial;
