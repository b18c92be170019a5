//! The servers of a load balancer: which one a new flow goes to, which ones are up.

use super::headers::FlowId;
use super::input::{Mapped, Mapper};
use super::pattern::Pattern;
use lang::args::{FromArg, NameDb};
use lang::split_words;
use locks::IgnorePoison;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use tables::maglev::{self, MOST_SERVERS, MOST_WEIGHT};

/// Where a server is: its address, and its port if it has one.
pub(crate) type Place = (Ipv4Addr, Option<u16>);

/// What `HASH` can be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Source,
    Flow,
}

#[derive(Clone)]
pub(crate) struct Server {
    address: Ipv4Addr,
    port: Option<u16>,
    weight: u32,
    /// Whether it is to have flows, and whether it answers.
    up: bool,
    answers: bool,
    mapped: Mapped,
    /// How often it has been chosen.
    chosen: Arc<AtomicU64>,
}

impl Server {
    fn named(&self, (address, port): Place) -> bool {
        self.address == address && (port.is_none() || self.port == port)
    }
    pub(crate) fn place(&self) -> String {
        self.port.map_or_else(|| format!("{} -", self.address), |port| format!("{} {port}", self.address))
    }
}

/// The servers, and to which one each hash leads.
struct Servers {
    list: Vec<Server>,
    table: Vec<u16>,
}

impl Servers {
    fn of(list: Vec<Server>) -> Self {
        let name = |server: &Server| {
            u64::from(u32::from(server.address)) << 17 | server.port.map_or(1 << 16, u64::from)
        };
        let weight = |server: &Server| if server.up && server.answers { server.weight } else { 0 };
        let servers: Vec<(u64, u32)> = list.iter().map(|server| (name(server), weight(server))).collect();
        Self { table: maglev::table(&servers), list }
    }
}

/// What the element shares.
pub(crate) struct Pool {
    servers: RwLock<Arc<Servers>>,
    /// Held by whoever changes them; the table is made while others look up the old one.
    changing: Mutex<()>,
    outputs: [u8; 2],
    by: By,
}

/// A server as it is written: where it is, and its weight if there is one.
fn server(text: &str, names: &NameDb) -> Result<(Place, Option<u32>), String> {
    let words = split_words(text);
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let (address, port, weight) = match words[..] {
        [address] => (address, "-", None),
        [address, port] => (address, port, None),
        [address, port, weight] => (address, port, Some(weight)),
        _ => return Err("expected 'ADDR [PORT] [WEIGHT]'".into()),
    };
    let address = Ipv4Addr::from_arg(address, names).map_err(|_| format!("bad address '{address}'"))?;
    let port = match port {
        "-" => None,
        port => Some(port.parse().ok().filter(|p| *p > 0).ok_or_else(|| format!("bad port '{port}'"))?),
    };
    let weight = match weight {
        None => None,
        Some(weight) => Some(
            weight
                .parse()
                .ok()
                .filter(|w| (1..=MOST_WEIGHT).contains(w))
                .ok_or_else(|| format!("bad weight '{weight}': 1 to {MOST_WEIGHT}"))?,
        ),
    };
    Ok(((address, port), weight))
}

impl Pool {
    /// No servers yet.
    pub(crate) fn new(outputs: [u8; 2], by: By) -> Self {
        let servers = RwLock::new(Arc::new(Servers::of(Vec::new())));
        Self { servers, changing: Mutex::new(()), outputs, by }
    }

    fn now(&self) -> Arc<Servers> {
        Arc::clone(&self.servers.read().ignore_poison())
    }

    /// Where all servers are, and whether they answer.
    pub(crate) fn places(&self) -> Vec<(Place, bool)> {
        self.now().list.iter().map(|s| ((s.address, s.port), s.answers)).collect()
    }

    /// Notes which servers answer, and which do not any more.
    pub(crate) fn set_answers(&self, changes: &[(Place, bool)]) {
        let _ = self.change("", |list| {
            for ((address, port), answers) in changes {
                for server in list.iter_mut().filter(|s| s.address == *address && s.port == *port) {
                    server.answers = *answers;
                }
            }
            Ok(())
        });
    }

    /// Nobody asks the servers: all count as if they answered.
    pub(crate) fn forget_answers(&self) {
        let silent: Vec<_> =
            self.places().into_iter().filter(|place| !place.1).map(|p| (p.0, true)).collect();
        if !silent.is_empty() {
            self.set_answers(&silent);
        }
    }

    fn change(
        &self,
        text: &str,
        act: impl FnOnce(&mut Vec<Server>) -> Result<(), String>,
    ) -> Result<(), String> {
        let _changing = self.changing.lock().ignore_poison();
        let mut list = self.now().list.clone();
        act(&mut list).map_err(|wrong| format!("{}: {wrong}", text.trim()))?;
        let new = Arc::new(Servers::of(list));
        *self.servers.write().ignore_poison() = new;
        Ok(())
    }

    /// Adds servers, or changes their weights. Returns which text is wrong, and why.
    pub(crate) fn add_all(&self, texts: &[&str], names: &NameDb) -> Result<(), (usize, String)> {
        let mut read = Vec::with_capacity(texts.len());
        for (n, text) in texts.iter().enumerate() {
            read.push(server(text, names).map_err(|wrong| (n, wrong))?);
        }
        let mut last = 0;
        let done = self.change("", |list| {
            for (n, ((address, port), weight)) in read.into_iter().enumerate() {
                last = n;
                if let Some(there) = list.iter_mut().find(|s| s.address == address && s.port == port) {
                    there.weight = weight.unwrap_or(there.weight);
                    continue;
                }
                if list.len() == MOST_SERVERS {
                    return Err(format!("more than {MOST_SERVERS} servers"));
                }
                let pattern = Arc::new(Pattern::to(address, port));
                list.push(Server {
                    address,
                    port,
                    weight: weight.unwrap_or(1),
                    up: true,
                    answers: true,
                    mapped: Mapped { pattern, outputs: self.outputs },
                    chosen: Arc::default(),
                });
            }
            Ok(())
        });
        done.map_err(|wrong| (last, wrong.trim_start_matches(": ").to_owned()))
    }

    pub(crate) fn add(&self, text: &str, names: &NameDb) -> Result<(), String> {
        self.add_all(&[text], names).map_err(|(_, wrong)| wrong)
    }

    pub(crate) fn remove(&self, text: &str) -> Result<(), String> {
        let (place, _) = server(text, &runtime::handler_names())?;
        self.change(text, |list| {
            let before = list.len();
            list.retain(|server| !server.named(place));
            if list.len() == before { Err("no such server".into()) } else { Ok(()) }
        })
    }

    pub(crate) fn set_up(&self, text: &str, up: bool) -> Result<(), String> {
        let (place, _) = server(text, &runtime::handler_names())?;
        self.change(text, |list| {
            let mut known = false;
            for server in list.iter_mut().filter(|server| server.named(place)) {
                (server.up, known) = (up, true);
            }
            if known { Ok(()) } else { Err("no such server".into()) }
        })
    }

    fn hash(&self, flow: FlowId) -> usize {
        let FlowId { src, sport, dst, dport } = flow;
        let ports = u64::from(sport) << 16 | u64::from(dport);
        let rest = if self.by == By::Flow { u64::from(u32::from(dst)) << 32 | ports } else { 0 };
        let mut x = u64::from(u32::from(src)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rest;
        x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((x ^ x >> 32) % maglev::PLACES as u64) as usize
    }

    /// Calls `act` with the server of a flow, if there is any.
    pub(crate) fn of<T>(&self, flow: FlowId, act: impl FnOnce(&Server) -> T) -> Option<T> {
        let servers = self.now();
        let server = servers.table.get(self.hash(flow)).and_then(|n| servers.list.get(usize::from(*n)));
        server.map(act)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for server in &self.now().list {
            let state = match (server.up, server.answers) {
                (false, _) => "down",
                (true, false) => "silent",
                (true, true) => "up",
            };
            let chosen = server.chosen.load(Relaxed);
            let _ = writeln!(text, "{} {} {state} {chosen}", server.place(), server.weight);
        }
        text
    }
}

/// Gives new flows to the servers of a pool.
pub(crate) struct Balancing(pub(crate) Arc<Pool>);

impl Mapper for Balancing {
    fn offer(&self, flow: FlowId, take: &mut dyn FnMut(&Mapped) -> ControlFlow<()>) {
        let mapped = self.0.of(flow, |server| {
            server.chosen.fetch_add(1, Relaxed);
            server.mapped.clone()
        });
        if let Some(mapped) = mapped {
            let _ = take(&mapped);
        }
    }
    fn fits(&self, outputs: usize) -> bool {
        self.0.outputs.iter().all(|output| usize::from(*output) < outputs)
    }
}
