//! Which processors the generator and the device run on, unless the file says it.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::path::Path;

/// The processors of the generator and of the device, as lists for `--cpus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) generator: Option<String>,
    pub(crate) device: Option<String>,
}

/// Different processors for both, of different cores as far as there are enough; none if there are too few:
/// then the kernel chooses.
pub(crate) fn places(generator: usize, device: usize) -> Places {
    let all = sched_getaffinity(Pid::from_raw(0)).map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true)).collect(),
    );
    divide(&one_of_each_core_first(&all, Path::new("/sys/devices/system/cpu")), generator, device)
}

/// The first processor of each core, then the second ones.
fn one_of_each_core_first(all: &[usize], sys: &Path) -> Vec<usize> {
    let place_in_core = |cpu: usize| {
        let list = std::fs::read_to_string(sys.join(format!("cpu{cpu}/topology/thread_siblings_list")));
        let siblings = list.ok().and_then(|list| launch::cpu_list(list.trim()).ok()).unwrap_or_default();
        siblings.iter().filter(|sibling| all.contains(sibling) && **sibling < cpu).count()
    };
    let mut sorted: Vec<(usize, usize)> = all.iter().map(|cpu| (place_in_core(*cpu), *cpu)).collect();
    sorted.sort_unstable();
    sorted.into_iter().map(|(_, cpu)| cpu).collect()
}

fn divide(all: &[usize], generator: usize, device: usize) -> Places {
    let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    match (all.get(..generator), all.get(generator..generator + device)) {
        (Some(first), Some(next)) => {
            let some = |cpus: &[usize]| Some(list(cpus)).filter(|list| !list.is_empty());
            Places { generator: some(first), device: some(next) }
        }
        _ => Places::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_before_their_second_processors() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0-1"), (1, "0-1"), (2, "2,5"), (5, "2,5"), (7, "7")] {
            let dir = sys.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        assert_eq!(one_of_each_core_first(&[0, 1, 2, 5, 7], sys.path()), [0, 2, 7, 1, 5]);
        // What this process may not use does not count.
        assert_eq!(one_of_each_core_first(&[1, 5, 9], sys.path()), [1, 5, 9]);
    }

    #[test]
    fn both_get_processors_or_nobody_does() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(divide(&[4, 6, 8], 1, 2), Places { generator: some("4"), device: some("6,8") });
        assert_eq!(divide(&[4, 6], 1, 2), Places::default());
        assert_eq!(divide(&[4, 6], 0, 2), Places { generator: None, device: some("4,6") });
        assert_eq!(divide(&[4, 6], 2, 0), Places { generator: some("4,6"), device: None });
    }
}
