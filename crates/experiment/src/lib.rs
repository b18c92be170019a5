//! Experiments: what is varied, what is measured, with which device under test; the trials that this takes,
//! one after another; what they have shown, kept as it comes.
//!
//! A trial is a run of `valiant gen` with a sink, in a process of its own. The device under test is a program
//! of Valiant's, any command, or whatever is between the ports; programs and commands may run on another
//! host, where an agent starts and measures them.
//!
//! # Layers
//!
//! 1. `values`, `alone`, `existing`, `jitter`, `reading`, `html`, `cost`, `log`, `said`, `scratch`, `child`:
//!    values as files have them; what generator and sink do without the device; connections over which frames
//!    were sent; how latency differs from a frame to the next; the JSON of a report, read again; tables of
//!    pages; what a trial costs the device; the messages of a process, in files and until they are sent;
//!    directories and processes that end with this one.
//! 2. `known`, `reader`, `quantity`, `machine`: what is varied, for the parts of a file that speak of it;
//!    values with their errors; results of which something can be expected; the machine.
//! 3. `expect`, `paper`, `model`, `place`: what is expected of the results; the figure that an experiment
//!    repeats; an experiment; which processors are used.
//! 4. `traffic`, `sides`, `factors`, `varied`, `measured`, `connected`, `figures`, `start`, `tested`, `file`:
//!    from the text of a file to an experiment: what the generator can do, which side of the device sends
//!    what to which, whether effects can be told apart, the points, what is measured, or read from what a
//!    command prints, what is started as the device under test, what the file says of it, all of it.
//! 5. `local`, `meter`, `protocol`: a device on this machine, what a trial costs it, and what a bench and an
//!    agent say to each other.
//! 6. `agent`, `connection`, `remote`: the two ends of a connection to another host, and a device there.
//! 7. `device`, `established`, `trial`, `made`, `command`, `results`: the device wherever it is; what has
//!    become of connections in a trial; what came of one trial, and how it is made; a command whose figures
//!    are read; the file of results.
//! 8. `layout`, `calibration`, `costs`, `backtoback`, `connections`, `tables`, `judged`: tables and medians;
//!    what is taken off latencies; what trials have cost the device, the longest bursts without loss, and
//!    connections, as text and as JSON; how a device's table of connections is emptied; what came of what was
//!    expected.
//! 9. `rest`, `rows`, `report`, `plots`, `beside`, `conditions`: which trial is next; the results at a point;
//!    all of them as a table, as JSON, as CSV; as plots; beside those of a paper; the machine and what
//!    numbers count.
//! 10. `run`, `compare`, `page`: the whole of it; what two reports have in common; a report as HTML.
//! 11. `index`: a page that leads to others.
#![forbid(unsafe_code)]

mod agent;
mod alone;
mod backtoback;
mod beside;
mod calibration;
mod child;
mod command;
mod compare;
mod conditions;
mod connected;
mod connection;
mod connections;
mod cost;
mod costs;
mod device;
mod established;
mod existing;
mod expect;
mod factors;
mod figures;
mod file;
mod html;
mod index;
mod jitter;
mod judged;
mod known;
mod layout;
mod local;
mod log;
mod machine;
mod made;
mod measured;
mod meter;
mod model;
mod page;
mod paper;
mod place;
mod plots;
mod protocol;
mod quantity;
mod reader;
mod reading;
mod remote;
mod report;
mod rest;
mod results;
mod rows;
mod run;
mod said;
mod scratch;
mod sides;
mod start;
mod tables;
mod tested;
mod traffic;
mod trial;
mod values;
mod varied;

pub use agent::agent;
pub use compare::Comparison;
pub use cost::{Cost, ElementCost, Known, RouterCost};
pub use established::{Connected, StepOf};
pub use existing::Existing;
pub use index::{Part, front, index};
pub use jitter::Jitter;
pub use machine::{machine, machine_with_name};
pub use model::{
    Bursts, Connections, Device, Emptied, Experiment, Factor, Figure, Host, Measure, Point, SetUp,
};
pub use page::page;
pub use report::Report;
pub use results::{Results, Shown};
pub use run::{Ended, Options, run};
pub use sides::{Crossing, Wrong};
pub use trial::{Burst, Timeline, Trial};
