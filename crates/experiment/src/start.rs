//! What is started as the device under test, on whichever machine.

use crate::model::{Device, Experiment, Settings};
use crate::place::{Places, places};
use crate::varied::DEVICE;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// A device that is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) what: What,
    /// Variables of the program, or of the command's environment.
    pub(crate) variables: Vec<(String, String)>,
    /// Options of `valiant run`, for a program.
    pub(crate) options: Vec<String>,
    /// The processors of a program, as a list; none: the kernel chooses.
    pub(crate) cpus: Option<String>,
    /// In place of that: so many processors, of different cores if there are enough.
    pub(crate) processors: Option<usize>,
    /// A program: how long it may take to be ready; a command: how long it has.
    pub(crate) ready: Duration,
}

/// What runs as the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// A program of Valiant's.
    Program(PathBuf),
    /// A command of the shell.
    Command(String),
}

/// Where the generator and the device run: as the file says, or on different processors. On a machine of its
/// own (`apart`), the device is not in the generator's way.
pub(crate) fn places_of(experiment: &Experiment, settings: &Settings, apart: bool) -> Places {
    let device = match &experiment.device {
        Device::Program(_) => threads(settings),
        // Where a command runs is its own matter; the generator is bound to processors only if the file says
        // so.
        _ => return Places { generator: experiment.generator_cpus.clone(), device: None },
    };
    let given = settings.get("cpus").cloned();
    // A device that makes its traffic itself is alone.
    let generator = if experiment.counted.is_empty() { experiment.generator_threads } else { 0 };
    if apart {
        let chosen = || places(generator, 0).generator;
        return Places { generator: experiment.generator_cpus.clone().or_else(chosen), device: given };
    }
    match (&experiment.generator_cpus, given) {
        (None, None) => places(generator, device),
        (generator, device) => Places { generator: generator.clone(), device },
    }
}

/// The threads of a device with a program.
fn threads(settings: &Settings) -> usize {
    settings.get("threads").and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// The name of a program or of a file in the directory of the agent's: as from that of the experiment file,
/// or its last part if it is elsewhere.
pub(crate) fn name_there(dir: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix(dir).ok().filter(|name| is_below(name));
    let name = below.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
    name.components().filter(|part| *part != Component::CurDir).collect()
}

/// Whether a path leads to something below the directory where it starts.
pub(crate) fn is_below(path: &Path) -> bool {
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

impl Start {
    /// What is started with these settings; none: the device is between the ports. On a machine of its own
    /// (`apart`), it may have any processors.
    pub(crate) fn new(experiment: &Experiment, settings: &Settings, apart: bool) -> Option<Self> {
        let what = match &experiment.device {
            Device::Between => return None,
            Device::Program(file) => {
                What::Program(experiment.program_at(settings).unwrap_or_else(|| file.clone()))
            }
            Device::Command(text) => What::Command(text.clone()),
        };
        let program = matches!(what, What::Program(_));
        let variables = settings
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix('$')?.to_owned(), value.clone())));
        let others = DEVICE.iter().filter(|name| **name != "cpus");
        let options = others.filter_map(|name| Some(format!("--{name}={}", settings.get(*name)?)));
        let cpus = places_of(experiment, settings, apart).device;
        Some(Self {
            what,
            variables: variables.collect(),
            options: options.filter(|_| program).collect(),
            processors: (program && apart && cpus.is_none()).then(|| threads(settings)),
            cpus,
            ready: experiment.ready,
        })
    }

    /// The files that it needs on another host: the name there, and where it is here.
    pub(crate) fn files(&self, experiment: &Experiment) -> Vec<(PathBuf, PathBuf)> {
        let named = experiment.host.iter().flat_map(|host| &host.files).map(|name| experiment.dir.join(name));
        let program = match &self.what {
            What::Program(path) => Some(path.clone()),
            What::Command(_) => None,
        };
        let all = program.into_iter().chain(named);
        all.map(|path| (name_there(&experiment.dir, &path), path)).collect()
    }

    /// The same for another host, where its program is at its name there.
    pub(crate) fn there(self, dir: &Path) -> Self {
        let what = match self.what {
            What::Program(path) => What::Program(name_there(dir, &path)),
            command @ What::Command(_) => command,
        };
        Self { what, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_names_below_the_directory() {
        let name = |path: &str| name_there(Path::new("/a/b"), Path::new(path)).display().to_string();
        assert_eq!(name("/a/b/c.click"), "c.click");
        assert_eq!(name("/a/b/d/c.click"), "d/c.click");
        assert_eq!(
            (name("/a/b/./c.click"), name("/a/b/d/./c.click")),
            ("c.click".into(), "d/c.click".into())
        );
        assert_eq!(name_there(Path::new(""), Path::new("./c.click")), Path::new("c.click"));
        assert_eq!(
            (name("/a/c.click"), name("/a/b/../c.click")),
            ("c.click".to_owned(), "c.click".to_owned())
        );
        for (path, below) in [
            ("a", true),
            ("a/b", true),
            ("./a", true),
            ("a/./b", true),
            ("../a", false),
            ("/a", false),
            ("a/../../b", false),
            ("", false),
            (".", false),
            ("./", false),
        ] {
            assert_eq!(is_below(Path::new(path)), below, "{path}");
        }
    }
}
