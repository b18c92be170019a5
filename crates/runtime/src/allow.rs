//! What a router's program may name outside itself, where many routers are in a process.
//!
//! A path is allowed by an entry that is the path itself or a directory above it. Files are opened from that
//! directory on, and the kernel leaves it by no symbolic link (openat2(2)): what is looked at before could be
//! another file when it is opened.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What a program may name; everything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// The router's name, for messages.
    pub router: String,
    /// Files to read, and directories of such files. `-` is standard input.
    pub read: Vec<PathBuf>,
    /// Files to write, and directories of such files. `-` is standard output.
    pub write: Vec<PathBuf>,
    /// Addresses to listen at, and other directories of sockets.
    pub sockets: Vec<Socket>,
    /// Network interfaces to make, and crypto devices.
    pub devices: Vec<String>,
    /// Network namespaces, by their names; none: that of the process.
    pub namespaces: Vec<Option<String>>,
    /// Its own interfaces, the only ports that there are for it.
    pub interfaces: Vec<dpdk::PortSpec>,
    /// Its own control plane: the network namespace, and the devices in it.
    pub control: Option<(String, Vec<String>)>,
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// A TCP port, of all addresses or of the loopback interface only.
    Tcp {
        /// The port.
        port: u16,
        /// Whether other hosts may connect.
        all: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { port, all: false } => write!(f, "tcp:{port}"),
            Self::Tcp { port, all: true } => write!(f, "tcp:*:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Something outside a router.
#[derive(Clone, Copy, Debug)]
pub enum Outside<'a> {
    /// A file that is read; `-` is standard input.
    Read(&'a str),
    /// A file that is written; `-` is standard output.
    Write(&'a str),
    /// An address to listen at.
    Listen(&'a Socket),
    /// Any free TCP port.
    AnyPort,
    /// A descriptor of the process, by its number.
    Descriptor,
    /// A network interface of the kernel, in a network namespace.
    Interface(&'a str, Option<&'a str>),
    /// A network namespace.
    Namespace(Option<&'a str>),
    /// A crypto device.
    Crypto(&'a str),
    /// A port.
    Port(&'a dpdk::PortSpec),
    /// Signals that are sent to processes.
    SendSignals,
    /// Signals that are received in place of the process's own way to handle them.
    TakeSignals,
}

/// A refusal: what is refused, and what to write to allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is refused.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

/// The path from the root, without `.` and `..`; symbolic links are not looked at.
#[must_use]
pub fn whole(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Opens a file in a directory, or below it, whatever there is in its path: no link leads out of it.
///
/// # Errors
/// The file cannot be opened, or its path leads out of the directory.
pub fn open_beneath(directory: &Path, path: &Path, flags: OFlag) -> io::Result<File> {
    open_from(directory, path, flags, ResolveFlag::RESOLVE_BENEATH)
}

fn open_from(directory: &Path, path: &Path, flags: OFlag, resolve: ResolveFlag) -> io::Result<File> {
    let start = open(directory, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mode = if flags.contains(OFlag::O_CREAT) { Mode::from_bits_truncate(0o666) } else { Mode::empty() };
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(resolve | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match again(|| openat2(&start, path, how)) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::EXDEV) => Err(io::Error::other("a symbolic link leads out of what the router may name")),
        Err(Errno::ELOOP) => Err(io::Error::other("it is a symbolic link, which may not be followed here")),
        Err(e) => Err(e.into()),
    }
}

/// Calls that a signal interrupts are made again.
fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Opens a file for a router: without [`Allow`], any file.
///
/// # Errors
/// It cannot be opened, or the router may not name it.
pub(crate) fn open_for(allow: Option<&Allow>, path: &str, flags: OFlag) -> io::Result<File> {
    let Some(allow) = allow else {
        let mode = Mode::from_bits_truncate(0o666);
        return Ok(File::from(again(|| open(path, flags | OFlag::O_CLOEXEC, mode))?));
    };
    let (what, list) = if (flags & OFlag::O_ACCMODE) == OFlag::O_RDONLY {
        (Outside::Read(path), &allow.read)
    } else {
        (Outside::Write(path), &allow.write)
    };
    allow.permits(what).map_err(|refused| io::Error::other(refused.to_string()))?;
    let path = whole(Path::new(path));
    let Some(entry) = list.iter().find(|entry| path.starts_with(entry)) else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    match (path.strip_prefix(entry), entry.parent(), entry.file_name()) {
        // The entry is the file itself.
        (Ok(rest), Some(directory), Some(name)) if rest.as_os_str().is_empty() => {
            open_from(directory, Path::new(name), flags, ResolveFlag::RESOLVE_NO_SYMLINKS)
        }
        (Ok(rest), ..) => open_beneath(entry, rest, flags),
        (Err(_), ..) => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

impl Allow {
    /// Whether the program may name this.
    ///
    /// # Errors
    /// It may not.
    pub fn permits(&self, what: Outside<'_>) -> Result<(), Refused> {
        match what {
            Outside::Read(path) => self.permits_path("read", &self.read, path),
            Outside::Write(path) => self.permits_path("write", &self.write, path),
            Outside::Listen(socket) => {
                let same = |one: &Socket| match (one, socket) {
                    (Socket::Unix(one), Socket::Unix(asked)) => whole(asked) == *one,
                    // Who may let in all hosts may let in this one.
                    (Socket::Tcp { port, all }, Socket::Tcp { port: asked, all: to_all }) => {
                        port == asked && (*all || !to_all)
                    }
                    _ => false,
                };
                if self.sockets.iter().any(same) {
                    return Ok(());
                }
                let socket = match socket {
                    Socket::Unix(path) => Socket::Unix(whole(path)),
                    tcp @ Socket::Tcp { .. } => tcp.clone(),
                };
                self.refuse(format!("listen at {socket}"), "sockets", &socket.to_string())
            }
            Outside::AnyPort => Err(Refused {
                message: format!("the router {} may not listen at any port that is free", self.router),
                help: "name a port, and add it to `sockets` in the host file".to_owned(),
            }),
            Outside::Descriptor => Err(Refused {
                message: format!("the router {} may not use open descriptors of the process", self.router),
                help: "name an address, and add it to `sockets` in the host file".to_owned(),
            }),
            Outside::Interface(name, namespace) => {
                let mine = |(own, taps): &(String, Vec<String>)| {
                    namespace == Some(own.as_str()) && taps.iter().any(|tap| tap == name)
                };
                if self.control.as_ref().is_some_and(mine) {
                    return Ok(());
                }
                if name.is_empty() {
                    return Err(Refused {
                        message: format!(
                            "the router {} may not make a network interface without a name",
                            self.router
                        ),
                        help: "set DEVNAME, and add it to `devices` in the host file".to_owned(),
                    });
                }
                if !self.devices.iter().any(|one| one == name) {
                    return self.refuse(format!("use the network interface {name}"), "devices", name);
                }
                self.permits(Outside::Namespace(namespace))
            }
            Outside::Namespace(namespace) => {
                let own = self.control.as_ref().map(|(own, _)| own.as_str());
                let listed = |one: &Option<String>| one.as_deref() == namespace;
                if namespace.is_some() && namespace == own || self.namespaces.iter().any(listed) {
                    return Ok(());
                }
                let (what, name) = match namespace {
                    Some(name) => (format!("enter the network namespace {name}"), name),
                    None => ("use the host's own network namespace".to_owned(), "."),
                };
                self.refuse(what, "namespaces", name)
            }
            Outside::Crypto(device) => {
                if self.devices.iter().any(|one| one == device) {
                    return Ok(());
                }
                self.refuse(format!("use the device {device}"), "devices", device)
            }
            Outside::Port(port) if self.interfaces.contains(port) => Ok(()),
            Outside::Port(port) => Err(Refused {
                message: format!("the router {} may not use {port}", self.router),
                help: "it has only the interfaces that the host file gives it".to_owned(),
            }),
            Outside::SendSignals => self.never("send signals to processes"),
            Outside::TakeSignals => self.never("handle signals, which are for the host"),
        }
    }

    fn permits_path(&self, key: &str, list: &[PathBuf], path: &str) -> Result<(), Refused> {
        if path == "-" {
            let stream = if key == "read" { "read standard input" } else { "write standard output" };
            let listed = list.iter().any(|entry| entry.as_os_str() == "-");
            return if listed { Ok(()) } else { self.refuse(stream.to_owned(), key, "-") };
        }
        let asked = whole(Path::new(path));
        let Some(entry) = list.iter().find(|entry| asked.starts_with(entry)) else {
            return self.refuse(format!("{key} {}", asked.display()), key, &asked.display().to_string());
        };
        // Where it is now; what it is when it is opened the kernel sees to.
        if let (Ok(real), Ok(root)) = (asked.canonicalize(), entry.canonicalize())
            && !real.starts_with(&root)
        {
            let what = format!("{key} {}, which is a link to {}", asked.display(), real.display());
            return self.refuse(what, key, &real.display().to_string());
        }
        Ok(())
    }

    fn refuse(&self, what: String, key: &str, value: &str) -> Result<(), Refused> {
        Err(Refused {
            message: format!("the router {} may not {what}", self.router),
            help: format!(
                "in the host file, [router.{}.allow] {key} = [\"{}\"] allows it",
                self.router,
                value.escape_default()
            ),
        })
    }

    fn never(&self, what: &str) -> Result<(), Refused> {
        Err(Refused {
            message: format!("the router {} may not {what}", self.router),
            help: "no virtual router may".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn read(allow: &Allow, path: &Path) -> Result<String, String> {
        let mut text = String::new();
        let path = path.to_str().unwrap();
        let mut file = open_for(Some(allow), path, OFlag::O_RDONLY).map_err(|e| e.to_string())?;
        file.read_to_string(&mut text).map_err(|e| e.to_string())?;
        Ok(text)
    }

    #[test]
    fn paths_lead_nowhere_else() {
        let directory = std::env::temp_dir().join(format!("valiant-allow-{}", std::process::id()));
        let mine = directory.join("blue");
        std::fs::create_dir_all(mine.join("deep")).unwrap();
        std::fs::write(directory.join("secret"), "secret").unwrap();
        std::fs::write(directory.join("blue2"), "another").unwrap();
        std::fs::write(mine.join("deep/file"), "mine").unwrap();
        std::fs::write(directory.join("key"), "key").unwrap();
        symlink(directory.join("secret"), mine.join("out")).unwrap();
        symlink("../secret", mine.join("up")).unwrap();
        symlink("deep/file", mine.join("in")).unwrap();
        symlink(&directory, mine.join("parent")).unwrap();
        let read_only = vec![whole(&mine), whole(&directory.join("key"))];
        let allow = Allow { router: "blue".into(), read: read_only, ..Allow::default() };
        assert_eq!(read(&allow, &mine.join("deep/file")).as_deref(), Ok("mine"));
        assert_eq!(read(&allow, &mine.join("deep/../deep/./file")).as_deref(), Ok("mine"));
        assert_eq!(read(&allow, &mine.join("in")).as_deref(), Ok("mine"));
        assert_eq!(read(&allow, &directory.join("key")).as_deref(), Ok("key"));
        for wrong in ["out", "up", "parent/secret", "../secret", "deep/../../secret", "../blue2"] {
            let told = read(&allow, &mine.join(wrong)).unwrap_err();
            assert!(told.contains("the router blue may not read "), "{wrong}: {told}");
        }
        // The check before is passed, since nothing is there yet; the kernel leaves the directory
        // nevertheless not.
        for link in ["parent/new", "deep/../parent/new"] {
            assert!(
                open_beneath(&mine, Path::new(link), OFlag::O_CREAT | OFlag::O_WRONLY).is_err(),
                "{link}"
            );
        }
        assert!(!directory.join("new").exists());
        // A file that is named itself is not exchanged for a link.
        std::fs::remove_file(directory.join("key")).unwrap();
        symlink(mine.join("deep/file"), directory.join("key")).unwrap();
        assert!(read(&allow, &directory.join("key")).is_err());
        // To read is not to write.
        let flags = OFlag::O_WRONLY;
        let told = open_for(Some(&allow), mine.join("deep/file").to_str().unwrap(), flags).unwrap_err();
        assert!(told.to_string().contains("[router.blue.allow] write = [\""), "{told}");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn each_kind_has_its_list() {
        let allow = Allow {
            router: "blue".into(),
            sockets: vec![Socket::Tcp { port: 7, all: false }, Socket::Unix("/run/x".into())],
            devices: vec!["tun7".into()],
            namespaces: vec![Some("lab".into())],
            control: Some(("blue".into(), vec!["DEV0".into()])),
            interfaces: vec![dpdk::PortSpec::Virtual("blue/DEV0".into())],
            ..Allow::default()
        };
        let ok = |what: Outside<'_>| allow.permits(what).is_ok();
        assert!(ok(Outside::Listen(&Socket::Tcp { port: 7, all: false })));
        assert!(!ok(Outside::Listen(&Socket::Tcp { port: 7, all: true })));
        assert!(!ok(Outside::Listen(&Socket::Tcp { port: 8, all: false })));
        assert!(ok(Outside::Listen(&Socket::Unix("/run/../run/./x".into()))));
        assert!(!ok(Outside::Listen(&Socket::Unix("/run/x/y".into()))) && !ok(Outside::AnyPort));
        assert!(ok(Outside::Interface("tun7", Some("lab"))) && ok(Outside::Interface("DEV0", Some("blue"))));
        assert!(!ok(Outside::Interface("tun7", None)) && !ok(Outside::Interface("DEV0", Some("lab"))));
        assert!(!ok(Outside::Interface("", Some("lab"))) && !ok(Outside::Interface("eth0", Some("lab"))));
        assert!(ok(Outside::Namespace(Some("blue"))) && !ok(Outside::Namespace(None)));
        assert!(!ok(Outside::Namespace(Some("red"))));
        assert!(ok(Outside::Port(&dpdk::PortSpec::Virtual("blue/DEV0".into()))));
        assert!(!ok(Outside::Port(&dpdk::PortSpec::Virtual("red/DEV0".into()))));
        assert!(!ok(Outside::Port(&dpdk::PortSpec::Interface("eth0".into()))));
        assert!(
            !ok(Outside::SendSignals)
                && !ok(Outside::TakeSignals)
                && !ok(Outside::Descriptor)
                && !ok(Outside::Crypto("crypto_null"))
        );
        assert!(!ok(Outside::Read("-")) && !ok(Outside::Write("-")) && !ok(Outside::Read("/etc/passwd")));
        let told = allow.permits(Outside::Namespace(None)).unwrap_err().to_string();
        assert!(told.contains("[router.blue.allow] namespaces = [\".\"]"), "{told}");
    }
}
