//! Steering by prefix, the argument `STEER`: each worker gets the packets to a part of the routes of a table.
//! How the addresses are divided is in `division.rs`; here it is decided when.

use super::division::{Division, Part};
use super::exchange::Exchange;
use super::flowkey::BUCKETS;
use super::indirection::Indirection;
use crate::lookup::Table;
use crate::prelude::*;
use runtime::{Control, ControlTask};
use std::any::Any;
use std::fmt::Write;
use std::sync::Arc;

/// How often it looks whether the table has other routes.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The addresses are divided anew when the number of routes has changed by half of it, and by so many.
const CHANGED: usize = 64;

/// The table by whose routes packets are steered, on one worker.
pub(in crate::devices) struct Steer(Box<dyn Fn() -> Option<Arc<Table>> + Send>);

impl Steer {
    /// For the table of the element with this name.
    ///
    /// # Errors
    /// There is no such element, or it has no routes.
    pub(super) fn new(element: &str, cx: &ConfigCx<'_>) -> Result<Self, String> {
        let id = cx.find(element).ok_or_else(|| format!("no element named '{element}'"))?;
        let class = cx.class_of(id);
        if !matches!(class.role, Role::RouteTable { .. }) {
            return Err(format!("'{element}' is a {}, not a table of IPv4 routes", class.name));
        }
        Ok(Self(Box::new(cx.shared_later::<Table>(id))))
    }
    /// The table, when all elements are configured.
    pub(super) fn table(&self) -> Arc<Table> {
        (self.0)().unwrap_or_default()
    }
}

/// The addresses, divided by the routes that there are now.
pub(super) fn division(table: &Table) -> Division {
    Division::new(&table.prefixes(), BUCKETS)
}

/// What packets are steered by, for handlers.
fn steered(exchange: &Exchange) -> Result<(&Table, &Indirection, Arc<Division>), String> {
    let by = exchange.steering_table().zip(exchange.known_indirection());
    let by = by.and_then(|(table, indirection)| Some((&**table, &**indirection, indirection.division()?)));
    by.ok_or_else(|| "packets do not go by prefixes: there is no STEER, or only one worker".to_owned())
}

/// `divide`, written.
pub(super) fn divide(exchange: &Exchange, _: &str) -> Result<(), String> {
    let (table, indirection, _) = steered(exchange)?;
    indirection.divide(division(table));
    Ok(())
}

/// `prefixes`
pub(super) fn prefixes(exchange: &Exchange) -> Result<String, String> {
    let (_, indirection, division) = steered(exchange)?;
    let readings = indirection.readings();
    let mut text = String::new();
    for (bucket, part) in division.parts().iter().enumerate() {
        let worker = indirection.workers()[usize::from(readings.table[bucket])];
        let (Part { prefix, routes, .. }, packets) = (part, readings.packets[bucket]);
        let _ = writeln!(text, "{prefix}\t{worker}\t{routes}\t{packets}");
    }
    Ok(text)
}

/// `parts`
pub(super) fn parts(exchange: &Exchange) -> Result<String, String> {
    let (_, indirection, division) = steered(exchange)?;
    let table = indirection.readings().table;
    let mut text = String::new();
    for (place, worker) in indirection.workers().iter().enumerate() {
        let own = table.iter().zip(division.parts()).filter(|(of, _)| usize::from(**of) == place);
        let (mut prefixes, mut routes, mut bytes) = (0, 0, 0);
        for (_, part) in own {
            prefixes += 1;
            routes += part.routes;
            bytes += part.bytes;
        }
        let _ = writeln!(text, "{worker}\t{prefixes}\t{routes}\t{bytes}");
    }
    Ok(text)
}

/// Divides the addresses anew when the table has many more or many fewer routes, on the control thread.
pub(super) struct Divider {
    element: String,
    exchange: Arc<Exchange>,
    next_ns: u64,
}

impl Divider {
    /// For the element that is being configured.
    pub(super) fn new(element: &str, exchange: &Arc<Exchange>) -> Self {
        Self { element: element.to_owned(), exchange: Arc::clone(exchange), next_ns: 0 }
    }
    /// Returns what is to be logged.
    fn look(&self) -> Option<String> {
        let (table, indirection, known) = steered(&self.exchange).ok()?;
        let (before, now) = (known.routes(), table.len());
        if before.abs_diff(now) < CHANGED.max(before / 2) {
            return None;
        }
        indirection.divide(division(table));
        Some(format!("{}: workers get other prefixes, for there are {now} routes", self.element))
    }
}

impl ControlTask for Divider {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let now = router.now_ns();
        if now >= self.next_ns {
            if let Some(text) = self.look() {
                router.hub().log(Level::INFO, &self.element, &text);
            }
            self.next_ns = now + INTERVAL_NS;
        }
        Some(self.next_ns)
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use locks::IgnorePoison;
    use std::time::Instant;

    #[test]
    fn it_needs_a_table_of_routes() {
        let error = |steer: &str| Bench::error(&format!("FromDevice(net_null0, {steer})"));
        assert!(error("STEER rt").contains("STEER: does not name an element"), "{}", error("STEER rt"));
        let text = error("STEER e");
        assert!(text.contains("STEER: 'e' is a FromDevice, not a table of IPv4 routes"), "{text}");
        assert!(error("STEER e, RSS NONE").contains("STEER spreads packets over workers, RSS NONE does not"));
    }

    /// The routes of each worker.
    fn routes(bench: &mut Bench) -> Vec<usize> {
        let lines = bench.read("parts");
        lines.lines().map(|line| line.split('\t').nth(2).unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn the_addresses_are_divided_anew_when_there_are_other_routes() {
        let config = "e :: FromDevice(net_null0, STEER rt, ACTIVE false) -> Discard; \
                      rt :: RadixIPLookup(0/0 0); Idle -> rt -> Discard;";
        let mut bench = Bench::workers(config, 2, 0, 0);
        let lines = bench.listen();
        assert_eq!(bench.read("prefixes").lines().next(), Some("0.0.0.0/9\t0\t0\t0"));
        // All of them are in one part.
        let many: String = (0..1000).map(|n| format!("add 9.0.{}.{}/32 0\n", n / 250, n % 250)).collect();
        bench.write("rt.ctrl", &many);
        assert_eq!(routes(&mut bench).iter().min(), Some(&0), "not yet");
        let start = Instant::now();
        while routes(&mut bench).contains(&0) && start.elapsed().as_secs() < 10 {
            bench.turns(10);
        }
        let now = routes(&mut bench);
        assert!(now[0].abs_diff(now[1]) < 50 && now[0] + now[1] == 1000, "{now:?}");
        let text = lines.lock().ignore_poison().concat();
        assert!(text.contains("workers get other prefixes, for there are 1001 routes"), "{text}");
        // A change that is too small for that, until somebody asks.
        bench.write("rt.ctrl", "remove 9.0.0.1/32\nremove 9.0.0.2/32");
        bench.write("divide", "");
        assert_eq!(routes(&mut bench).iter().sum::<usize>(), 998);
    }
}
