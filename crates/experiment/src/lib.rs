//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports.
//!
//! # Layers
//!
//! 1. `values`, `reading`, `html`: values as files have them; the JSON of a report, read again; tables of
//!    pages.
//! 2. `known`: what is varied, for the parts of a file that speak of it.
//! 3. `expect`, `paper`, `model`, `place`: what is expected of the results; the figure that an experiment
//!    repeats; an experiment; which processors are used.
//! 4. `file`: from the text of a file to an experiment.
//! 5. `trial`, `device`, `results`: one trial; the device under test; the file of results.
//! 6. `report`, `plots`, `beside`, `conditions`: the results as a table, as JSON, as CSV; as plots; beside
//!    those of a paper; the machine and what numbers count.
//! 7. `run`, `compare`, `page`: the whole of it; what two reports have in common; a report as HTML.
//! 8. `index`: a page that leads to others.
#![forbid(unsafe_code)]

mod beside;
mod compare;
mod conditions;
mod device;
mod expect;
mod file;
mod html;
mod index;
mod known;
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
