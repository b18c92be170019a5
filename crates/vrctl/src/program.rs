//! The program of a virtual router: an ordinary configuration, with variables from the host file.

use crate::file::{Scheme, VirtualRouter};
use dpdk::PortSpec;
use lang::{Diagnostics, LoadOptions, Source};
use launch::shortest;
use nix::fcntl::OFlag;
use runtime::{Limits, Options, Registry, Router, open_beneath, whole};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The text of a router's program.
///
/// # Errors
/// It cannot be read.
pub fn source(program: &Path) -> Result<Source, String> {
    let path = shortest(program);
    let bytes = std::fs::read(program).map_err(|e| format!("the program {path}: {}", launch::reason(&e)))?;
    Ok(Source::from_bytes(path, &bytes))
}

/// What a router's program is loaded with: its variables; libraries in its directory.
#[must_use]
pub fn load_options(router: &VirtualRouter) -> LoadOptions {
    LoadOptions { defines: router.defines(), library: router.program.as_deref().map(library) }
}

/// Looks libraries up beside the file that asks for them, in the program's directory and below it alone.
fn library(program: &Path) -> lang::Library {
    let directory = whole(program).parent().map(Path::to_owned).unwrap_or_default();
    Arc::new(move |name: &str, from: &str| {
        let from = whole(Path::new(from));
        // What comes from elsewhere, as the text of a handler, begins where the program does.
        let beside = from.parent().filter(|beside| beside.starts_with(&directory)).unwrap_or(&directory);
        let path = whole(&beside.join(name));
        let shown = shortest(&path);
        let Ok(below) = path.strip_prefix(&directory) else {
            return Err(format!("{shown}: a router's libraries are in the directory of its program"));
        };
        let opened = open_beneath(&directory, below, OFlag::O_RDONLY | OFlag::O_NONBLOCK);
        let read = opened.and_then(|mut file| {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut bytes).map(|_| bytes)
        });
        let bytes = read.map_err(|e| format!("{shown}: {}", launch::reason(&e)))?;
        Ok(Source::from_bytes(shown, &bytes))
    })
}

/// The limits that act within the common process.
pub(crate) fn limits(router: &VirtualRouter) -> Limits {
    let of = &router.limits;
    Limits {
        router: router.name.clone(),
        buffers: of.buffers.map(|buffers| usize::try_from(buffers).unwrap_or(usize::MAX)),
        at_interfaces: 0,
        routes: of.routes,
        neighbors: of.neighbors,
        flows: of.flows,
        log_lines: of.log_lines,
        handler_calls: of.handler_calls,
        memory: of.memory_bytes,
        allow: Some(Arc::new(router.allowed())),
    }
}

/// How many packets wait at each of its interfaces for each worker.
pub(crate) fn room(router: &VirtualRouter) -> Option<usize> {
    router.limits.queue.and_then(|queue| usize::try_from(queue).ok())
}

/// The result of checking a program.
#[derive(Debug)]
pub struct CheckedProgram {
    /// The number of its elements.
    pub elements: usize,
    /// The router's interfaces, by their indices, that the program does not use.
    pub unused: Vec<usize>,
    /// Warnings about the program.
    pub warnings: Diagnostics,
}

/// Checks a router's program without opening anything. Every device that it names must be an interface of the
/// router. `fair`: routers get their shares of the time, see [`HostFile::fair`](crate::HostFile::fair).
///
/// # Errors
/// All errors of the program.
pub fn check_program(
    registry: &Arc<Registry>,
    router: &VirtualRouter,
    source: Source,
    workers: usize,
    fair: bool,
) -> Result<CheckedProgram, Diagnostics> {
    let workers = workers.max(1);
    let limits = match router.scheme {
        Scheme::Shared => Limits {
            at_interfaces: {
                let queue = room(router).unwrap_or_else(|| vrhost::default_queue(fair));
                vrhost::at_interfaces(router.interfaces.len(), workers, queue)
            },
            ..limits(router)
        },
        Scheme::Direct | Scheme::Hybrid => Limits { allow: limits(router).allow, ..Limits::default() },
    };
    let options = Options { check_only: true, hotswap: true, workers, limits, ..Options::default() };
    let made = Router::new(&[source], load_options(router), Arc::clone(registry), options)?;
    let config = made.config();
    let mut warnings = config.warnings.clone();
    warnings.append(made.warnings().clone());
    warnings.set_sources(config.sources.clone());
    let devices: Vec<PortSpec> = router.interfaces.iter().map(|i| router.device(i)).collect();
    let mut used = BTreeSet::new();
    for (one, _) in made.ports() {
        used.extend(devices.iter().position(|device| *device == one.spec));
    }
    let unused = (0..devices.len()).filter(|index| !used.contains(index)).collect();
    Ok(CheckedProgram { elements: made.elements().len(), unused, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::HostFile;
    use std::path::Path;

    fn checked(program: &str) -> Result<CheckedProgram, String> {
        let text = "[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\n[router.blue.variables]\nLIMIT = \"7\"\n\
                    [[router.blue.interface]]\nport = \"p\"\n[[router.blue.interface]]\nport = \"p\"\nvlan = 7\n";
        let host = HostFile::parse("edge.toml", text, Path::new("/conf"))
            .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
        let source = Source::new("p.click", program);
        check_program(&Arc::new(elements::registry()), &host.routers[0], source, 2, false)
            .map_err(|d| d.render(d.sources(), false))
    }

    #[test]
    fn programs_get_their_interfaces_and_variables() {
        let text = "define($DEV0 eth7, $MAC0 1:1:1:1:1:1);\n\
                    FromDevice($DEV0) -> HostEtherFilter($MAC0) -> Queue($LIMIT) -> ToDevice($DEV1);";
        let good = checked(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((good.elements, good.unused.as_slice()), (4, &[][..]));
        let unused = checked("FromDevice($DEV1) -> Discard;").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(unused.unused, [0]);
    }

    /// What a program may not: devices of the machine and of other routers.
    #[test]
    fn programs_use_only_their_own_interfaces() {
        for device in ["eth0", "virtual:red/DEV0", "virtual:blue/DEV2", "net_null0", "0000:03:00.0", "0"] {
            let errors = checked(&format!("FromDevice($DEV0) -> Discard;\nFromDevice({device}) -> Discard;"))
                .map(drop)
                .unwrap_err();
            let message = format!("FromDevice uses {device}, which is not an interface of this router");
            assert!(errors.contains("p.click:2: ") && errors.contains(&message), "{errors}");
            assert!(errors.contains("its interfaces are $DEV0, $DEV1"), "{errors}");
        }
        let all = checked("FromDevice(eth0) -> Queue -> ToDevice(eth1);").map(drop).unwrap_err();
        assert_eq!(all.matches("not an interface").count(), 2, "{all}");
        let wrong = checked("FromDevice($DEV0) -> Discrad; Idle -> Discard(1 2);").map(drop).unwrap_err();
        assert!(wrong.contains("p.click:1: ") && wrong.contains("'Discard' has a similar name"), "{wrong}");
    }
}
