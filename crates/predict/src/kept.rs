//! Costs that have been measured on this machine, in a file.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most costs in the file.
const MOST: usize = 4096;
/// Grows when a cost of before means something else.
const FORMAT: u32 = 1;

/// Costs by what was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    format: u32,
    /// The processor, and the version of the program: costs of others do not count.
    machine: String,
    costs: BTreeMap<String, One>,
    #[serde(skip)]
    path: PathBuf,
    /// Nothing of before counts.
    #[serde(skip)]
    again: bool,
    #[serde(skip)]
    changed: bool,
    /// The present pass, and in which one each cost was measured last.
    #[serde(skip)]
    pass: u32,
    #[serde(skip)]
    passes: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct One {
    /// What it was, for people who read the file.
    element: String,
    cycles: f64,
    /// Seconds since 1970.
    when: u64,
}

impl Kept {
    /// What is in a file; nothing if it cannot be read, or is of another machine. If all is to be measured
    /// `again`, what is there does not count, and stays until it has been.
    #[must_use]
    pub fn load(path: &Path, machine: &str, again: bool) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let read: Self = serde_json::from_str(&text).unwrap_or_default();
        let same = read.format == FORMAT && read.machine == machine;
        let costs = if same { read.costs } else { BTreeMap::new() };
        let (machine, path) = (machine.to_owned(), path.to_owned());
        let (pass, passes) = (0, BTreeMap::new());
        Self { format: FORMAT, machine, costs, path, again, changed: false, pass, passes }
    }

    /// From here on, what this process has measured is measured once more; the least counts: others who use
    /// the processor make everything slower for seconds, and nothing faster.
    pub fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// The cost of what has this description.
    pub(crate) fn get(&self, what: &impl Hash) -> Option<f64> {
        let key = key(what);
        let counts = match self.passes.get(&key) {
            Some(pass) => *pass == self.pass,
            None => !self.again,
        };
        let known = self.costs.get(&key).filter(|_| counts).map(|one| one.cycles);
        known.filter(|cycles| *cycles >= 0.0)
    }

    /// Keeps what was measured. Returns the least that was.
    pub(crate) fn put(&mut self, what: &impl Hash, element: &str, cycles: f64) -> f64 {
        let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let new = key(what);
        let before = self.costs.get(&new).filter(|_| self.passes.contains_key(&new)).map(|one| one.cycles);
        let cycles = before.filter(|before| *before >= 0.0).map_or(cycles, |before| cycles.min(before));
        self.passes.insert(new.clone(), self.pass);
        self.costs.insert(new.clone(), One { element: element.to_owned(), cycles, when });
        while self.costs.len() > MOST {
            let others = self.costs.iter().filter(|(key, _)| **key != new);
            let oldest = others.min_by_key(|(_, one)| one.when).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.costs.remove(&key));
        }
        self.changed = true;
        cycles
    }

    /// Writes the file, all of it or nothing, if there is something new and it has a path.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self) -> io::Result<()> {
        if !self.changed || self.path.as_os_str().is_empty() {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let new = self.path.with_extension(format!("new{}", std::process::id()));
        let written = serde_json::to_vec_pretty(self)
            .map_err(io::Error::other)
            .and_then(|text| std::fs::write(&new, text));
        let done = written.and_then(|()| std::fs::rename(&new, &self.path));
        if done.is_err() {
            // There may be nothing to remove.
            let _ = std::fs::remove_file(&new);
        }
        done
    }
}

fn key(what: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_kept_for_this_machine_only() {
        let directory = std::env::temp_dir().join(format!("valiant-kept-{}", std::process::id()));
        let path = directory.join("deeper/costs.json");
        let mut kept = Kept::load(&path, "this", false);
        assert_eq!(kept.get(&"a"), None);
        kept.put(&"a", "Strip(14)", 2.5);
        kept.save().unwrap();
        let load = |machine: &str, again| Kept::load(&path, machine, again);
        assert_eq!(load("this", false).get(&"a"), Some(2.5));
        assert_eq!(load("this", false).get(&"b"), None);
        assert_eq!(load("another", false).get(&"a"), None);
        // What is measured again counts, and what is not stays.
        let mut again = load("this", true);
        assert_eq!(again.get(&"a"), None);
        again.put(&"b", "Strip(4)", 2.0);
        again.save().unwrap();
        assert_eq!((load("this", false).get(&"a"), load("this", false).get(&"b")), (Some(2.5), Some(2.0)));
        // A file that is damaged counts as none, and is replaced.
        std::fs::write(&path, b"{\"format\": 1, \"mach").unwrap();
        let mut kept = load("this", false);
        assert_eq!(kept.get(&"a"), None);
        kept.put(&"a", "Strip(14)", 3.0);
        kept.save().unwrap();
        assert_eq!(load("this", false).get(&"a"), Some(3.0));
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn each_pass_measures_again_and_the_least_counts() {
        let path = Path::new("/dev/null/costs.json");
        let mut kept = Kept::load(path, "this", false);
        kept.begin_pass();
        assert_eq!(kept.put(&"a", "Null", 5.0), 5.0);
        assert_eq!(kept.get(&"a"), Some(5.0));
        kept.begin_pass();
        assert_eq!(kept.get(&"a"), None);
        assert_eq!(kept.put(&"a", "Null", 3.0), 3.0);
        kept.begin_pass();
        assert_eq!(kept.put(&"a", "Null", 9.0), 3.0);
        assert_eq!(kept.get(&"a"), Some(3.0));
        // What was known before this process is not measured.
        let mut before = Kept { passes: BTreeMap::new(), pass: 0, ..kept };
        before.begin_pass();
        assert_eq!(before.get(&"a"), Some(3.0));
    }

    #[test]
    fn the_oldest_costs_go_first() {
        let mut kept = Kept::load(Path::new("/dev/null/costs.json"), "this", false);
        (0..MOST + 10).for_each(|n| assert_eq!(kept.put(&n, "Null", 1.0), 1.0));
        assert_eq!(kept.costs.len(), MOST);
        assert_eq!(kept.get(&(MOST + 9)), Some(1.0));
        assert!(kept.save().is_err());
    }
}
