//! `valiant vr run`: the host in the foreground.

use crate::args::RunHost;
use crate::file::{HostFile, InterfaceId, Owner, Scheme, Sharing, Tag, VirtualRouter};
use crate::machine::lacking;
use crate::program::{check_program, load_options, source};
use crate::socket::{Request, Server, ask};
use lang::{Diagnostics, Source};
use launch::progress::waiting;
use launch::{Failure, Launch, StopSignals};
use nix::unistd::{Group, User};
use runtime::Registry;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use vrhost::{Connection, Host, InterfaceSetup, PortSetup, RouterSetup};

/// The file of the host's own control socket, beside those of the routers.
pub(crate) fn host_socket(host: &HostFile) -> PathBuf {
    host.directory.join("host.control")
}

/// Runs a host until it is interrupted.
pub(crate) fn run(registry: &Arc<Registry>, args: &RunHost) -> Result<ExitCode, Failure> {
    let file = read(&args.file)?;
    launch::report(&file.warnings);
    let lacks = lacking(&file);
    launch::report(&lacks);
    let cores = file.processors();
    let launch = Launch {
        workers: cores.len(),
        memory_mb: args.memory,
        hugepages: !args.no_huge,
        eal: args.eal.clone(),
        ..Launch::default()
    };
    let options = launch.options(&cores);
    let (eal, enter) = (options.eal.clone(), options.enter);
    let ports: Vec<PortSetup> = (file.ports.iter())
        .map(|port| PortSetup { name: port.name.clone(), spec: port.device.clone(), mtu: None })
        .collect();
    for router in &file.routers {
        shared_only(&file, router)?;
        let idle: Vec<&str> =
            router.limits.set().map(|(name, _)| name).filter(|name| *name != "queue").collect();
        if !idle.is_empty() {
            tracing::warn!(target: "vr", "router {}: limits without effect so far: {}", router.name, idle.join(", "));
        }
    }
    if ask(&host_socket(&file), &Request::Status).is_ok() {
        return Err(format!(
            "{} is running already: `valiant vr status {}` shows it",
            file.name,
            args.file.display()
        )
        .into());
    }
    dpdk::claim_interfaces(&format!("the virtual routers' host {}", file.name));
    let stop = StopSignals::watch();
    let fair = file.ports.iter().any(|port| port.sharing == Sharing::SoftwareQueued);
    let host = waiting(false, "opening the ports", || Host::start(&ports, options, &eal, enter, fair));
    let mut host = host.map_err(|errors| errors.join("\n"))?;
    launch::describe_ports();
    let ring = host.ringer();
    let (_server, asked) = Server::start(&host_socket(&file), ring)?;
    let mut serving = Serving { registry: Arc::clone(registry), path: args.file.clone(), file, down: false };
    let mut failed = 0;
    for router in serving.file.routers.clone() {
        // The others run without it.
        if let Err(e) = serving.add(&mut host, &router) {
            failed += 1;
            e.report();
        }
    }
    tracing::info!(
        target: "vr",
        "{} of {} virtual routers run; `valiant vr status {}` shows them",
        serving.file.routers.len() - failed, serving.file.routers.len(), args.file.display()
    );
    launch::service::ready();
    let down = std::cell::Cell::new(false);
    host.drive(
        || stop.wanted() || down.get(),
        |host| {
            while let Ok((request, reply)) = asked.try_recv() {
                // Whoever asked may have gone.
                let _ = reply.send(serving.serve(host, &request));
                down.set(serving.down);
            }
        },
    );
    launch::service::stopping();
    for router in &serving.file.routers {
        // A router's socket is removed by itself if it ran to its end.
        let _ = std::fs::remove_file(serving.file.socket(router));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a host file.
pub(crate) fn read(path: &Path) -> Result<HostFile, Failure> {
    match HostFile::read(path) {
        (Some(file), diags) if !diags.has_errors() => Ok(file),
        (_, diags) => Err(diags.into()),
    }
}

/// What runs so far is the scheme `shared` with the ways `software` and `software-queued`.
fn shared_only(file: &HostFile, router: &VirtualRouter) -> Result<(), Failure> {
    let mut diags = Diagnostics::new();
    diags.set_sources(file.sources.clone());
    if router.scheme != Scheme::Shared {
        let text = format!("the scheme {} does not run yet: use \"shared\"", router.scheme);
        diags.error(router.span, text);
    }
    for interface in &router.interfaces {
        if let Tag::Queue(_) | Tag::Vni(_) = interface.tag {
            diags.error(
                interface.span,
                format!("{} does not run yet: use a VLAN or an address", interface.tag),
            );
        }
        let Some(port) = interface.port.and_then(|port| file.ports.get(port)) else { continue };
        if port.sharing == Sharing::Hardware {
            diags.error(port.span, "the sharing \"hardware\" does not run yet: use \"software\"");
        }
    }
    if diags.has_errors() { Err(diags.into()) } else { Ok(()) }
}

/// A running host's file, and what is done with it.
struct Serving {
    registry: Arc<Registry>,
    path: PathBuf,
    file: HostFile,
    down: bool,
}

impl Serving {
    fn serve(&mut self, host: &mut Host, request: &Request) -> Value {
        let done = match request {
            Request::Status => return self.status(host),
            Request::Apply => self.apply(host),
            Request::Add(name) => self.add_by_name(host, name),
            Request::Remove(name) => {
                if host.remove(name) {
                    Ok(json!({"ok": true, "removed": [name]}))
                } else {
                    Err(format!("no virtual router '{name}' runs here").into())
                }
            }
            Request::Down => {
                self.down = true;
                Ok(json!({"ok": true}))
            }
        };
        done.unwrap_or_else(|e| json!({"ok": false, "error": e.text()}))
    }

    /// Everything that is needed to run a router; its program is checked.
    fn setup(&self, file: &HostFile, router: &VirtualRouter) -> Result<RouterSetup, Failure> {
        shared_only(file, router)?;
        let program = source(router).map_err(|e| format!("router {}: {e}", router.name))?;
        check_program(&self.registry, router, program.clone(), file.processors().len())?;
        let socket = lang::quote(&file.socket(router).display().to_string());
        let control = format!("valiant_vr@@ControlSocket :: ControlSocket(unix, {socket});\n");
        let at = file.routers.iter().position(|one| one.name == router.name).unwrap_or_default();
        let interfaces = router.interfaces.iter().enumerate().map(|(number, interface)| {
            let id = InterfaceId { router: at, interface: number };
            let port = interface.port.and_then(|port| file.ports.get(port));
            InterfaceSetup {
                name: interface.name.clone(),
                below: connection(file, id),
                mac: interface.mac,
                default: port.is_some_and(|port| port.default == Some(id)),
            }
        });
        Ok(RouterSetup {
            name: router.name.clone(),
            sources: vec![program, Source::new("control socket", control)],
            load: load_options(router),
            registry: Arc::clone(&self.registry),
            share: router.share,
            queue: router.limits.queue.and_then(|queue| usize::try_from(queue).ok()),
            interfaces: interfaces.collect(),
        })
    }

    fn add(&self, host: &mut Host, router: &VirtualRouter) -> Result<(), Failure> {
        host.add(self.setup(&self.file, router)?)?;
        self.give_to_owner(router);
        Ok(())
    }

    fn add_by_name(&mut self, host: &mut Host, name: &str) -> Result<Value, Failure> {
        let file = read(&self.path)?;
        let Some(router) = file.routers.iter().find(|router| router.name == name).cloned() else {
            return Err(format!("{} has no router '{name}'", self.path.display()).into());
        };
        self.same_ports(&file)?;
        self.file = file;
        self.add(host, &router)?;
        Ok(json!({"ok": true, "added": [name]}))
    }

    /// The control socket of a router belongs to its owner.
    fn give_to_owner(&self, router: &VirtualRouter) {
        let socket = self.file.socket(router);
        let (user, group, mode) = match &router.owner {
            None => (None, None, 0o600),
            Some(Owner::User(name)) => {
                (User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()), None, 0o600)
            }
            Some(Owner::Group(name)) => {
                (None, Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()), 0o660)
            }
        };
        let given = std::os::unix::fs::chown(&socket, user, group)
            .and_then(|()| std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(mode)));
        if let Err(e) = given {
            tracing::warn!(target: "vr", "{}: {}", socket.display(), launch::reason(&e));
        }
    }

    /// Ports and processors stay what they were at the start.
    fn same_ports(&self, new: &HostFile) -> Result<(), Failure> {
        let of = |file: &HostFile| {
            let ports = file.ports.iter().map(|port| (port.name.clone(), port.device.clone()));
            (ports.collect::<Vec<_>>(), file.processors(), file.directory.clone())
        };
        if of(&self.file) == of(new) {
            return Ok(());
        }
        Err("the ports, the cores or the directory have changed: stop the host and start it again"
            .to_owned()
            .into())
    }

    /// Reads the host file again: routers that are new are added, those that are gone are removed, those
    /// whose program alone has changed are hot-swapped, and those with other changes are started anew. If
    /// anything in the file or in a program is wrong, nothing is done.
    fn apply(&mut self, host: &mut Host) -> Result<Value, Failure> {
        let new = read(&self.path)?;
        self.same_ports(&new)?;
        let mut setups = Vec::new();
        for router in &new.routers {
            setups.push(self.setup(&new, router)?);
        }
        let running: Vec<String> = host.status().into_iter().map(|router| router.name).collect();
        let (mut added, mut removed, mut swapped, mut restarted) = (vec![], vec![], vec![], vec![]);
        for name in running.iter().filter(|name| !new.routers.iter().any(|router| router.name == **name)) {
            host.remove(name);
            removed.push(name.clone());
        }
        self.file = new;
        for setup in setups {
            let name = setup.name.clone();
            if !running.contains(&name) {
                host.add(setup)?;
                added.push(name);
            } else if host.only_program_differs(&setup) == Some(true) {
                if host.change_program(setup)? {
                    swapped.push(name);
                }
            } else {
                host.remove(&name);
                host.add(setup)?;
                restarted.push(name);
            }
        }
        self.file.routers.iter().for_each(|router| self.give_to_owner(router));
        Ok(
            json!({"ok": true, "added": added, "removed": removed, "swapped": swapped, "restarted": restarted}),
        )
    }

    fn status(&self, host: &Host) -> Value {
        let routers: Vec<Value> = host
            .status()
            .iter()
            .map(|router| {
                let known = self.file.routers.iter().find(|known| known.name == router.name);
                let interfaces: Vec<Value> = router
                    .interfaces
                    .iter()
                    .map(|interface| {
                        json!({
                            "name": interface.name,
                            "received": interface.stats.rx_packets,
                            "received_bytes": interface.stats.rx_bytes,
                            "sent": interface.stats.tx_packets,
                            "sent_bytes": interface.stats.tx_bytes,
                            "lost_queue_full": interface.stats.rx_missed,
                        "not_sent": interface.stats.tx_errors,
                        })
                    })
                    .collect();
                json!({
                    "name": router.name,
                    "running": router.running,
                    "failures": router.failures,
                    "scheme": known.map(|known| known.scheme.to_string()),
                    "share": router.share,
                    "cycles": router.cycles,
                    "socket": known.map(|known| self.file.socket(known)),
                    "interfaces": interfaces,
                })
            })
            .collect();
        let ports: Vec<Value> = host
            .ports()
            .map(|(name, port)| {
                let stats = port.stats();
                let counts = host.undelivered(name).unwrap_or_default();
                json!({
                    "name": name,
                    "device": port.name(),
                    "received": stats.rx_packets,
                    "sent": stats.tx_packets,
                    "missed": stats.rx_missed,
                    "nobody_has_the_tag": counts.nobody_tag,
                    "nobody_has_the_address": counts.nobody_address,
                    "malformed": counts.malformed,
                    "copies_not_made": counts.no_buffer + counts.too_many_copies,
                    "lost_transmit_queue_full": host.lost_at_port(name),
                })
            })
            .collect();
        json!({
            "ok": true,
            "host": self.file.name,
            "cycles": dpdk::cycles(),
            "seconds": host.started().elapsed().as_secs_f64(),
            "threads": host.threads(),
            "ports": ports,
            "routers": routers,
        })
    }
}

/// What is below an interface.
fn connection(file: &HostFile, id: InterfaceId) -> Connection {
    let Some(interface) = file.interface(id) else { return Connection::Nothing };
    let tag = match interface.tag {
        Tag::Vlan(id) => demux::Tag::Vlan(id),
        Tag::Qinq(outer, inner) => demux::Tag::Qinq(outer, inner),
        Tag::Mpls(label) => demux::Tag::Mpls(label),
        Tag::Vni(vni) => demux::Tag::Vni(vni),
        Tag::Mac | Tag::Whole | Tag::Queue(_) => demux::Tag::None,
    };
    match (interface.port, interface.link) {
        (Some(port), _) if interface.tag == Tag::Whole => Connection::WholePort(port),
        (Some(port), _) => Connection::Port(port, tag),
        (None, Some(link)) => {
            let end = file.links.get(link).map_or(0, |known| usize::from(known.ends[1] == id));
            Connection::Link(link as u32, end)
        }
        (None, None) => Connection::Nothing,
    }
}
