//! The helper: a small process that keeps the right to make TUN and TAP devices when the router has given up
//! its own, makes them for hot swaps, and does nothing else.
//!
//! It is started before the router opens anything, keeps CAP_NET_ADMIN alone, and ends with the router: its
//! standard input is a socket, whose other end the router has. A request is a line, an answer is a line, with
//! the open descriptor (`SCM_RIGHTS`, unix(7)) where there is one. A request can make a device, or join a TUN
//! or TAP device that exists, and later make its requested settings; it cannot change any other interface.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use locks::IgnorePoison;

use crate::descriptor::{receive, send};
use crate::netdev::index_of;
use crate::rights::{self, Capability};
use crate::tundevice::{FailedStep, TunConfig, TunMode, create, finish};

/// The name under which the program is the helper.
pub const NAME: &str = "valiant-devices";
/// The longest time for making a device: less than the time limit of the caller of a hot swap.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest line.
const LINE: usize = 256;

/// The devices that the helper has opened and not yet set as configured: more than a configuration has.
const UNSETTLED: usize = 4096;

/// What the helper was doing when it failed: the texts of [`create`] and [`finish`].
pub(crate) const DOING: [&str; 9] = [
    "asking the helper that opens devices",
    "opening /dev/net/tun",
    "creating it",
    "opening a socket",
    "setting its link address",
    "setting its MTU",
    "setting its address",
    "switching it on",
    "adding a default route",
];

/// The connection to the helper, if there is one and the router cannot make devices itself.
static HELPER: Mutex<Option<Helper>> = Mutex::new(None);

/// The router's end.
#[derive(Debug)]
pub struct Helper(UnixStream);

impl Helper {
    /// Starts the helper: this program under its own name ([`NAME`]), whose `main` calls [`serve`].
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> io::Result<Helper> {
        let (ours, its) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        ours.set_write_timeout(Some(PATIENCE))?;
        Command::new(std::env::current_exe()?)
            .arg0(NAME)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .env_clear()
            .current_dir("/")
            // A signal that the terminal sends to the router is not for it: it ends with the router.
            .process_group(0)
            .spawn()?;
        let mut helper = Helper(ours);
        // When it has started, it reports so.
        let (line, _) = helper.receive()?;
        if line == "ready" { Ok(helper) } else { Err(io::Error::other(line)) }
    }

    /// From here on devices are opened by the helper.
    pub fn employ(self) {
        *HELPER.lock().ignore_poison() = Some(self);
    }

    /// Reads a line, and the descriptor that came with it.
    fn receive(&mut self) -> io::Result<(String, Option<OwnedFd>)> {
        let (mut line, mut fd) = (Vec::new(), None);
        while line.last() != Some(&b'\n') {
            let mut bytes = [0; LINE];
            let (n, got) = receive(&self.0, &mut bytes)?;
            if n == 0 || line.len() > LINE {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&bytes[..n]);
            fd = got.or(fd);
        }
        line.pop();
        Ok((String::from_utf8_lossy(&line).into_owned(), fd))
    }

    /// Sends a request, and returns the words of the answer after `ok`.
    fn ask(&mut self, request: &str) -> Result<(Vec<String>, Option<OwnedFd>), FailedStep> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        let asked = (self.0.write_all(request.as_bytes())).and_then(|()| self.receive());
        let (line, fd) = asked.map_err(|error| {
            // A later answer would be taken for that to another request, so the helper is ended.
            let _ = self.0.shutdown(Shutdown::Both);
            let error = match error.kind() {
                UnexpectedEof | BrokenPipe | ConnectionReset => "it has ended; start the router again".into(),
                WouldBlock | TimedOut => {
                    format!("no answer within {} s; start the router again", PATIENCE.as_secs())
                }
                _ => return (DOING[0], error),
            };
            (DOING[0], io::Error::other(error))
        })?;
        let mut words = line.split('\t');
        match words.next() {
            Some("ok") => Ok((words.map(str::to_owned).collect(), fd)),
            Some("error") => {
                let doing = words.next().and_then(|n| n.parse::<usize>().ok()).and_then(|n| DOING.get(n));
                let errno = words.next().and_then(|n| n.parse().ok());
                match (doing, errno) {
                    (Some(doing), Some(errno)) => Err((doing, io::Error::from_raw_os_error(errno))),
                    _ => Err(strange(&line)),
                }
            }
            _ => Err(strange(&line)),
        }
    }
}

fn strange(line: &str) -> FailedStep {
    (DOING[0], io::Error::other(format!("it says '{line}'")))
}

/// Opens a device: in the helper if there is one, else in this process ([`create`]).
pub(crate) fn open(config: &TunConfig) -> Result<(OwnedFd, String, bool), FailedStep> {
    let mut helper = HELPER.lock().ignore_poison();
    // The helper has no right to enter another network namespace; where that is needed, this process does it
    // as long as it has the right itself.
    let helper = helper.as_mut().filter(|_| config.namespace.is_none());
    let Some(helper) = helper else { return create(config) };
    let (words, fd) = helper.ask(&request(config))?;
    match (&words[..], fd) {
        ([name, known], Some(fd)) => Ok((fd, name.clone(), known == "1")),
        _ => Err(strange(&words.join(" "))),
    }
}

/// Completes the settings of a device: in the helper if there is one, else in this process ([`finish`]).
pub(crate) fn settle(name: &str, config: &TunConfig, known: bool) -> Result<(), FailedStep> {
    let mut helper = HELPER.lock().ignore_poison();
    match helper.as_mut().filter(|_| config.namespace.is_none()) {
        Some(helper) => helper.ask(&format!("settle\t{name}\n")).map(drop),
        None => finish(name, config, known),
    }
}

fn request(config: &TunConfig) -> String {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mac = config.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    format!(
        "tun\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
        config.name,
        if config.mode == TunMode::Ip { "ip" } else { "ethernet" },
        u8::from(config.multi_queue),
        or_none(config.address.map(|(address, prefix)| format!("{address}/{prefix}"))),
        or_none(config.gateway.map(|gateway| gateway.to_string())),
        or_none(mac),
        or_none(config.mtu.map(|mtu| mtu.to_string())),
        u8::from(config.up),
    )
}

/// Reads a request; `None` if it is invalid.
fn parse(line: &str) -> Option<TunConfig> {
    let words: Vec<&str> = line.split('\t').collect();
    let ["tun", name, mode, multi_queue, address, gateway, mac, mtu, up] = words[..] else { return None };
    let is = |word: &str| match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let mode = match mode {
        "ip" => TunMode::Ip,
        "ethernet" => TunMode::Ethernet,
        _ => return None,
    };
    let mut config = TunConfig::new(name, mode);
    (config.multi_queue, config.up) = (is(multi_queue)?, is(up)?);
    if address != "-" {
        let (address, prefix) = address.split_once('/')?;
        let prefix = prefix.parse().ok().filter(|n| *n <= 32)?;
        config.address = Some((address.parse::<Ipv4Addr>().ok()?, prefix));
    }
    if gateway != "-" {
        config.gateway = Some(gateway.parse().ok()?);
    }
    if mac != "-" {
        let bytes: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        config.mac = Some(bytes?.try_into().ok()?);
    }
    if mtu != "-" {
        config.mtu = Some(mtu.parse().ok()?);
    }
    Some(config)
}

/// Runs the helper: gives up all capabilities but one, and makes devices until the router has ended. Its
/// socket is standard input.
///
/// # Errors
/// Standard input is not a socket; or the capabilities could not be given up.
pub fn serve() -> Result<(), String> {
    let input = io::stdin();
    let mut socket = input_socket(&input).map_err(|_| "this is a part of `valiant run`".to_owned())?;
    rights::give_up(None, &[Capability::NET_ADMIN])?;
    let failed = |error: io::Error| error.to_string();
    socket.write_all(b"ready\n").map_err(failed)?;
    let (mut line, mut unsettled) = (Vec::new(), VecDeque::<PendingDevice>::new());
    let mut byte = [0; 1];
    loop {
        match socket.read(&mut byte) {
            // The router has ended.
            Ok(0) => return Ok(()),
            Ok(_) if byte[0] == b'\n' => {
                let Ok(text) = std::str::from_utf8(&line) else {
                    return Err("this is not a request".to_owned());
                };
                let answer = match text.strip_prefix("settle\t") {
                    Some(name) => settle_own(&mut unsettled, name).map(|()| ("ok\n".to_owned(), None)),
                    None => {
                        let Some(config) = parse(text) else {
                            return Err("this is not a request".to_owned());
                        };
                        create(&config).map(|(fd, name, known)| {
                            let text = format!("ok\t{name}\t{}\n", u8::from(known));
                            if unsettled.len() >= UNSETTLED {
                                unsettled.pop_front();
                            }
                            let index = index_of(&name);
                            unsettled.push_back(PendingDevice { name, index, config, known });
                            (text, Some(fd))
                        })
                    }
                };
                line.clear();
                let (text, fd) = answer.unwrap_or_else(|(doing, error)| {
                    let doing = DOING.iter().position(|known| *known == doing).unwrap_or(0);
                    (format!("error\t{doing}\t{}\n", error.raw_os_error().unwrap_or(libc::EINVAL)), None)
                });
                send(&socket, text.as_bytes(), fd.as_ref()).map_err(failed)?;
            }
            Ok(_) if line.len() < LINE => line.push(byte[0]),
            Ok(_) => return Err("a request is too long".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// A device that the helper has opened and not yet set as configured.
struct PendingDevice {
    name: String,
    index: u32,
    config: TunConfig,
    known: bool,
}

/// Applies the settings of the request with which this process opened the device; no other device can be set,
/// nor one that has got the same name since.
fn settle_own(unsettled: &mut VecDeque<PendingDevice>, name: &str) -> Result<(), FailedStep> {
    let own = unsettled.iter().rposition(|own| own.name == name).and_then(|at| unsettled.remove(at));
    let refused = |errno| (DOING[0], io::Error::from_raw_os_error(errno));
    let own = own.ok_or_else(|| refused(libc::EPERM))?;
    if index_of(name) != own.index {
        return Err(refused(libc::ENODEV));
    }
    finish(name, &own.config, own.known)
}

/// Standard input, if it is a Unix socket.
fn input_socket(input: &io::Stdin) -> io::Result<UnixStream> {
    use std::os::fd::AsFd;
    let socket = UnixStream::from(input.as_fd().try_clone_to_owned()?);
    socket.local_addr()?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let mut config = TunConfig::new("vtap%d", TunMode::Ethernet);
        for _ in 0..2 {
            let line = request(&config);
            let back = parse(line.trim_end_matches('\n')).unwrap();
            assert_eq!(format!("{back:?}"), format!("{config:?}"));
            config = TunConfig {
                name: String::new(),
                mode: TunMode::Ip,
                address: Some((Ipv4Addr::new(10, 7, 0, 1), 24)),
                gateway: Some(Ipv4Addr::new(10, 7, 0, 2)),
                mac: Some([2, 0, 0, 0, 0, 9]),
                mtu: Some(1400),
                up: false,
                multi_queue: true,
                ..config
            };
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let good = "tun\tx\tip\t0\t10.0.0.1/24\t-\t-\t-\t1";
        assert!(parse(good).is_some());
        for (from, to) in [
            ("tun", "up"),
            ("\tip", "\tpi"),
            ("\t0", "\t2"),
            ("/24", "/33"),
            ("10.", "1000."),
            ("\t1", "\t1\t"),
        ] {
            assert!(parse(&good.replacen(from, to, 1)).is_none(), "{from} -> {to}");
        }
        for end in 0..good.len() - 1 {
            assert!(parse(&good[..end]).is_none());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses sockets")]
    fn an_answer_that_comes_late_is_not_taken_for_another() {
        let (here, mut there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut helper = Helper(here);
        let error = helper.ask("settle\tx\n").unwrap_err().1.to_string();
        assert!(error.contains("no answer") && error.contains("start the router again"), "{error}");
        let late = there.write_all(b"ok\tx\t0\n");
        let error = helper.ask("settle\ty\n").unwrap_err().1.to_string();
        assert!(error.contains("it has ended"), "{error} {late:?}");
        // And the end of the helper is reported.
        let mut rest = Vec::new();
        there.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"settle\tx\n");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn only_the_device_that_was_opened_is_set() {
        let config = TunConfig { up: false, ..TunConfig::new("lo", TunMode::Ip) };
        let entry =
            |index| PendingDevice { name: "lo".to_owned(), index, config: config.clone(), known: true };
        let errno = |result: Result<(), FailedStep>| result.map_err(|(_, error)| error.raw_os_error());
        let index = index_of("lo");
        let mut unsettled = VecDeque::from([entry(index), entry(index + 1)]);
        // Another device has got the name since; then the right one has it, once; then none.
        assert_eq!(errno(settle_own(&mut unsettled, "lo")), Err(Some(libc::ENODEV)));
        assert_eq!(errno(settle_own(&mut unsettled, "lo")), Ok(()));
        assert_eq!(errno(settle_own(&mut unsettled, "lo")), Err(Some(libc::EPERM)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "sends a descriptor")]
    fn a_descriptor_comes_with_its_line() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut end, given) = UnixStream::pair().unwrap();
        send(&there, b"ok\tx\n", Some(&OwnedFd::from(given))).unwrap();
        send(&there, b"plain\n", None).unwrap();
        let mut helper = Helper(here);
        let mut bytes = [0; 5];
        let (n, fd) = receive(&helper.0, &mut bytes).unwrap();
        assert_eq!((n, &bytes), (5, b"ok\tx\n"));
        let mut given = UnixStream::from(fd.unwrap());
        given.write_all(b"!").unwrap();
        assert_eq!(end.read(&mut [0; 8]).unwrap(), 1);
        let (line, fd) = helper.receive().unwrap();
        assert_eq!((line.as_str(), fd.is_none()), ("plain", true));
        drop(there);
        assert!(helper.receive().is_err());
    }
}
