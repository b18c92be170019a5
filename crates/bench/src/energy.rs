//! The energy that the processors have used, as they count it themselves (RAPL, by the kernel's powercap).

use std::path::{Path, PathBuf};

/// Where the kernel shows it.
const POWERCAP: &str = "/sys/class/powercap";

/// The counter of a package, in microjoules.
#[derive(Clone, Debug)]
struct Package {
    counter: PathBuf,
    at_first: u64,
    /// It begins at 0 again after this.
    most: u64,
}

/// The energy of all packages from a moment on.
#[derive(Clone, Debug)]
pub struct Energy(Vec<Package>);

fn number(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => "not permitted: only root may read it".to_owned(),
        _ => format!("{}: {e}", path.display()),
    })?;
    text.trim().parse().map_err(|_| format!("{}: this is no number", path.display()))
}

impl Energy {
    /// Energy from now on.
    ///
    /// # Errors
    /// Why it is not known here.
    pub fn begin() -> Result<Self, String> {
        Self::begin_at(Path::new(POWERCAP))
    }

    fn begin_at(powercap: &Path) -> Result<Self, String> {
        let mut packages = Vec::new();
        for domain in std::fs::read_dir(powercap).into_iter().flatten().flatten() {
            let of = |name: &str| domain.path().join(name);
            // Parts of a package, such as its cores, are in it; the same domain may be there once more, by
            // another interface.
            let is_package =
                std::fs::read_to_string(of("name")).is_ok_and(|name| name.starts_with("package"));
            let second = domain.file_name().to_string_lossy().contains("mmio");
            if is_package && !second {
                let counter = of("energy_uj");
                let (at_first, most) = (number(&counter)?, number(&of("max_energy_range_uj"))?);
                packages.push(Package { counter, at_first, most });
            }
        }
        if packages.is_empty() {
            return Err("this processor, or this virtual machine, does not count it (RAPL)".to_owned());
        }
        Ok(Self(packages))
    }

    /// What all packages have used since, in joules. A counter that has begun again more than once is taken
    /// for one that has done so once.
    ///
    /// # Errors
    /// A counter cannot be read any more.
    pub fn joules(&self) -> Result<f64, String> {
        let used = self.0.iter().map(|package| {
            let now = number(&package.counter)?;
            let again = if now < package.at_first { package.most } else { 0 };
            Ok((now + again).saturating_sub(package.at_first))
        });
        Ok(used.sum::<Result<u64, String>>()? as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_up_and_their_parts_are_not() {
        let sys = tempfile::tempdir().unwrap();
        assert!(Energy::begin_at(sys.path()).unwrap_err().contains("RAPL"));
        let set = |domain: &str, name: &str, uj: u64| {
            let dir = sys.path().join(domain);
            std::fs::create_dir_all(&dir).unwrap();
            for (file, text) in [("name", name.to_owned()), ("energy_uj", uj.to_string())] {
                std::fs::write(dir.join(file), format!("{text}\n")).unwrap();
            }
            std::fs::write(dir.join("max_energy_range_uj"), "9000000\n").unwrap();
        };
        let domains = |first: u64, second: u64| {
            set("intel-rapl:0", "package-0", first);
            set("intel-rapl:1", "package-1", second);
            set("intel-rapl:0:0", "core", 5 * second);
            set("intel-rapl-mmio:0", "package-0", first);
        };
        domains(1_000_000, 8_000_000);
        let energy = Energy::begin_at(sys.path()).unwrap();
        // The second begins again.
        domains(3_500_000, 500_000);
        assert_eq!(energy.joules(), Ok(2.5 + 1.5));
        std::fs::remove_file(sys.path().join("intel-rapl:1/energy_uj")).unwrap();
        assert!(energy.joules().is_err());
    }
}
