//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports.
//!
//! # Layers
//!
//! 1. `values`, `alone`, `reading`, `html`, `cost`, `log`: values as files have them; what generator and sink
//!    do without the device; the JSON of a report, read again; tables of pages; what a trial costs the
//!    device; the messages of a process.
//! 2. `known`, `reader`: what is varied, for the parts of a file that speak of it; values with their errors.
//! 3. `expect`, `paper`, `model`, `place`: what is expected of the results; the figure that an experiment
//!    repeats; an experiment; which processors are used.
//! 4. `traffic`, `factors`, `varied`, `measured`, `figures`, `file`: from the text of a file to an
//!    experiment: what the generator can do, whether effects can be told apart, the points, what is measured,
//!    or read from what a command prints, all of it.
//! 5. `trial`, `meter`, `device`, `command`, `results`: one trial; the device under test, and what a trial
//!    costs it; a command whose figures are read; the file of results.
//! 6. `layout`, `calibration`, `costs`, `backtoback`: tables and medians; what is taken off latencies; what
//!    trials have cost the device, and the longest bursts without loss, as text and as JSON.
//! 7. `rows`, `report`, `plots`, `beside`, `conditions`: the results at a point; all of them as a table, as
//!    JSON, as CSV; as plots; beside those of a paper; the machine and what numbers count.
//! 8. `run`, `compare`, `page`: the whole of it; what two reports have in common; a report as HTML.
//! 9. `index`: a page that leads to others.
#![forbid(unsafe_code)]

mod alone;
mod backtoback;
mod beside;
mod calibration;
mod command;
mod compare;
mod conditions;
mod cost;
mod costs;
mod device;
mod expect;
mod factors;
mod figures;
mod file;
mod html;
mod index;
mod known;
mod layout;
mod log;
mod measured;
mod meter;
mod model;
mod page;
mod paper;
mod place;
mod plots;
mod reader;
mod reading;
mod report;
mod results;
mod rows;
mod run;
mod traffic;
mod trial;
mod values;
mod varied;

pub use compare::Comparison;
pub use cost::{Cost, ElementCost, Known, RouterCost};
pub use index::index;
pub use model::{Bursts, Device, Experiment, Factor, Figure, Measure, Point};
pub use page::page;
pub use report::Report;
pub use results::{Results, Shown};
pub use run::{Ended, Options, run};
pub use trial::{Burst, Jitter, Timeline, Trial};
