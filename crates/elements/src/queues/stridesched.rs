//! # StrideSched
//! Pulls from its inputs in proportion to their tickets.
//!
//! ## Synopsis
//! `StrideSched(TICKETS0, ..., TICKETSn-1)`
//!
//! ## Arguments
//! - `TICKETS` (*int*, 0 to 32768, one for each input): the input's share. An input with twice the tickets
//!   gives twice the packets; one without tickets is never pulled from. More than 32768 are reduced to that.
//!
//! ## Ports
//! One or more pull inputs, one pull output. Each pull goes through the inputs in the order of their passes,
//! which grow by 65536 / tickets with every try, until one gives a packet. Inputs that are known to be empty
//! are skipped, and their pass grows.
//!
//! ## Handlers
//! - `tickets0` ... `tickets63` (read/write): the tickets of an input, for each of the first 64.
//! - `config` (read): the present tickets of all inputs, separated by commas.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! s :: StrideSched(2, 1) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10, STOP true) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! ## See also
//! RoundRobinSched, PrioSched, DRRSched

use crate::plumbing::engine::text;
use crate::prelude::*;

const STRIDE1: u32 = 1 << 16;
const MAX_TICKETS: i32 = 1 << 15;

/// One input.
#[derive(Clone, Copy)]
struct Client {
    port: usize,
    tickets: u32,
    pass: u32,
}

impl Client {
    fn stride(&mut self) {
        // Passes wrap around and are compared by their difference.
        self.pass = self.pass.wrapping_add(STRIDE1.checked_div(self.tickets).unwrap_or(STRIDE1));
    }
}

/// The `StrideSched` element.
pub struct StrideSched {
    tickets: Vec<u32>,
    /// Inputs with tickets, in the order of their passes.
    queue: Vec<Client>,
    /// Inputs that have been tried in the present pull.
    tried: Vec<Client>,
}

impl StrideSched {
    /// Before the clients with the same pass: the last one inserted is the first one tried.
    fn insert(queue: &mut Vec<Client>, client: Client) {
        let before = |c: &Client| (client.pass.wrapping_sub(c.pass) as i32) > 0;
        let at = queue.iter().position(|c| !before(c)).unwrap_or(queue.len());
        queue.insert(at, client);
    }

    fn set_tickets(&mut self, port: usize, text: &str) -> Result<(), String> {
        let tickets = text::value::<i32>(text, "tickets value must be integer")?;
        if tickets < 0 {
            return Err("number of tickets must be >= 0".into());
        }
        let tickets = tickets.min(MAX_TICKETS) as u32;
        let place = self.tickets.get_mut(port).ok_or_else(|| format!("port {port} out of range"))?;
        *place = tickets;
        // In the middle of a pull, some have been tried already.
        let queued = self.queue.iter_mut().chain(&mut self.tried).find(|c| c.port == port);
        match (queued, tickets) {
            (Some(_), 0) => {
                self.queue.retain(|c| c.port != port);
                self.tried.retain(|c| c.port != port);
            }
            (Some(client), _) => client.tickets = tickets,
            (None, 0) => {}
            (None, _) => {
                let mut client = Client { port, tickets, pass: 0 };
                if let Some(first) = self.queue.first() {
                    client.pass = first.pass;
                    client.stride();
                }
                Self::insert(&mut self.queue, client);
            }
        }
        Ok(())
    }
}

/// Declares `ticketsN` for constant N: handler names and functions are static.
macro_rules! tickets_handlers {
    ($h:ident: $($n:literal)*) => {$(
        $h.read_with(concat!("tickets", $n), Combine::First, |e, _, _| {
            Ok(e.tickets.get($n).map_or_else(|| "-1".into(), u32::to_string))
        });
        $h.write(concat!("tickets", $n), |e, v, _| e.set_tickets($n, v));
        $h.only(&[concat!("tickets", $n)], |ports| ports.n_inputs() > $n);
    )*};
}

impl Element for StrideSched {
    const CLASS: &'static str = "StrideSched";
    const PORTS: &'static str = "1-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("queues/stridesched");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let texts = args.rest();
        if texts.len() != cx.n_inputs() {
            return Err(ArgError::new(format!("need {} arguments, one per input port", cx.n_inputs())));
        }
        let mut tickets = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let n = text::value::<i32>(text, "should be number of tickets (integer)");
            let n = n.map_err(|e| ArgError::new(format!("argument {i} {e}")))?;
            if n < 0 {
                return Err(ArgError::new(format!("argument {i} (number of tickets) must be >= 0")));
            }
            if n > MAX_TICKETS {
                cx.warn(format!("input {i}'s tickets reduced to {MAX_TICKETS}"));
            }
            tickets.push(n.min(MAX_TICKETS) as u32);
        }
        let mut queue = Vec::new();
        // From the last, so that ties go to the first.
        for (port, &tickets) in tickets.iter().enumerate().rev().filter(|(_, t)| **t > 0) {
            let mut client = Client { port, tickets, pass: 0 };
            client.stride();
            Self::insert(&mut queue, client);
        }
        Ok(Self { tried: Vec::with_capacity(queue.len()), tickets, queue })
    }

    fn handlers(h: &mut Handlers<Self>) {
        tickets_handlers!(h: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        h.read("config", |e| e.tickets.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
    }
}

impl Vector for StrideSched {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..max {
            let mut got = 0;
            while got == 0
                && let Some(port) = self.queue.first().map(|client| client.port)
            {
                if cx.upstream_active(port) {
                    got = cx.pull_lending(self, port, 1, out);
                }
                // A handler may have taken its tickets away meanwhile.
                if let Some(at) = self.queue.iter().position(|client| client.port == port) {
                    let mut client = self.queue.remove(at);
                    client.stride();
                    self.tried.push(client);
                }
            }
            for client in self.tried.drain(..) {
                Self::insert(&mut self.queue, client);
            }
            if got == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const OFF: &str = "InfiniteSource(ACTIVE false) ->";

    fn bench(arguments: &str) -> Bench {
        let config =
            format!("e :: StrideSched({arguments}); {OFF} a :: Queue -> [0] e; {OFF} b :: Queue -> [1] e;");
        let mut bench = Bench::with_config(&config, 0, 1);
        for (queue, byte) in [("a", b'a'), ("b", b'b')] {
            for _ in 0..20 {
                bench.router().inject(
                    queue,
                    0,
                    [dpdk::Packet::from_bytes(&[byte]).unwrap()].into_iter().collect(),
                );
            }
        }
        bench
    }

    fn pull(bench: &mut Bench, n: usize) -> String {
        bench.pull(0, n).iter().map(|(_, p)| char::from(p.data()[0])).collect()
    }

    #[test]
    fn tickets_are_shares() {
        assert_eq!(pull(&mut bench("2, 1"), 9).matches('a').count(), 6);
        assert_eq!(pull(&mut bench("1, 3"), 12).matches('b').count(), 9);
        assert_eq!(pull(&mut bench("0, 1"), 30), "b".repeat(20));
        assert_eq!(pull(&mut bench("1, 1"), 1), "a");
    }

    #[test]
    fn tickets_change_while_it_runs() {
        let mut b = bench("1, 1");
        b.write("tickets0", "0");
        assert_eq!(pull(&mut b, 4), "bbbb");
        b.write("tickets0", "99999");
        assert_eq!(b.read("config"), "32768, 1");
        assert_eq!(b.read("tickets1"), "1");
        assert!(pull(&mut b, 10).matches('a').count() >= 9);
        assert!(b.try_write("tickets2", "1").unwrap_err().to_string().contains("tickets2"));
        assert!(b.try_write("tickets0", "-1").is_err());
    }

    #[test]
    fn argument_errors() {
        assert!(Bench::error("StrideSched(1, 2)").contains("need 1 arguments, one per input port"));
        assert!(Bench::error("StrideSched(-1)").contains("must be >= 0"));
        assert!(Bench::error("StrideSched(x)").contains("should be number of tickets"));
    }
}
