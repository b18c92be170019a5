//! The test bench for elements, with all classes of the library.

use locks::IgnorePoison;
use runtime::testing;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// [`testing::Bench`] over this library's classes.
pub(crate) struct Bench(testing::Bench);

impl Bench {
    pub(crate) fn new(declaration: &str) -> Self {
        Self(testing::Bench::new(&crate::registry(), declaration))
    }
    pub(crate) fn with_ports(declaration: &str, inputs: usize, outputs: usize) -> Self {
        Self(testing::Bench::with_ports(&crate::registry(), declaration, inputs, outputs))
    }
    pub(crate) fn with_config(config: &str, inputs: usize, outputs: usize) -> Self {
        Self(testing::Bench::with(&crate::registry(), config, inputs, outputs, runtime::Options::default()))
    }
    pub(crate) fn simulated(config: &str, inputs: usize, outputs: usize) -> Self {
        let options = runtime::Options { simulated_time: true, ..runtime::Options::default() };
        Self(testing::Bench::with(&crate::registry(), config, inputs, outputs, options))
    }
    pub(crate) fn with_ports_and_options(
        declaration: &str,
        inputs: usize,
        outputs: usize,
        options: runtime::Options,
    ) -> Self {
        let config = format!("e :: {declaration};");
        Self(testing::Bench::with(&crate::registry(), &config, inputs, outputs, options))
    }
    pub(crate) fn workers(config: &str, workers: usize, inputs: usize, outputs: usize) -> Self {
        let options = runtime::Options { workers, ..runtime::Options::default() };
        Self(testing::Bench::with(&crate::registry(), config, inputs, outputs, options))
    }
    /// A bench for a configuration that has no inputs and outputs.
    pub(crate) fn with_options(config: &str, options: runtime::Options) -> Self {
        Self(testing::Bench::with(&crate::registry(), config, 0, 0, options))
    }
    /// Collects the lines that are printed from now on.
    pub(crate) fn listen(&mut self) -> Arc<Mutex<Vec<String>>> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        self.router().hub().listen(Box::new(move |line| {
            sink.lock().ignore_poison().push(line.to_owned());
        }));
        lines
    }
    pub(crate) fn error(declaration: &str) -> String {
        testing::Bench::error(&crate::registry(), declaration)
    }
}

impl Deref for Bench {
    type Target = testing::Bench;
    fn deref(&self) -> &testing::Bench {
        &self.0
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut testing::Bench {
        &mut self.0
    }
}
