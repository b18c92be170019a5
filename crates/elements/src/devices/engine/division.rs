//! The IPv4 addresses divided into prefixes, one for each bucket of the indirection table, so that a worker
//! gets the packets of a part of the routes.
//!
//! It begins with 0.0.0.0/0. The prefix with the most routes is split into its two halves until there are as
//! many prefixes as buckets, so none has many more routes than others. A worker has neighboring prefixes,
//! with its share of the routes.

use std::collections::BinaryHeap;
use tables::Prefix;

/// A prefix, and the routes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) prefix: Prefix,
    /// Routes in it: of its own prefix, and of longer ones.
    pub(super) routes: usize,
    /// About how many bytes of the route table lookups of its addresses reach.
    pub(super) bytes: usize,
}

/// How the addresses are divided.
#[derive(Debug)]
pub(super) struct Division {
    /// The first address of each part, in order: the first is 0.
    starts: Vec<u32>,
    parts: Vec<Part>,
    /// The routes that there were.
    routes: usize,
}

impl Division {
    /// Divides by routes, which are in order of address and then of length, into `count` parts.
    pub(super) fn new(routes: &[Prefix], count: usize) -> Self {
        // The one with the most longer routes is first; of those with as many the largest.
        let entry = |prefix: Prefix| {
            let inside = within(routes, prefix);
            let longer = inside.len() - usize::from(inside.first() == Some(&prefix));
            (longer, u8::MAX - prefix.len(), prefix.first())
        };
        let mut heap = BinaryHeap::from([entry(Prefix::DEFAULT)]);
        let mut prefixes = Vec::with_capacity(count);
        while heap.len() + prefixes.len() < count.max(1)
            && let Some((_, inverse, first)) = heap.pop()
        {
            let len = u8::MAX - inverse;
            let half = |bit: u32| Prefix::new(first | (bit << 31).unbounded_shr(len.into()), len + 1);
            match (half(0), half(1)) {
                (Some(lower), Some(upper)) => heap.extend([entry(lower), entry(upper)]),
                _ => prefixes.extend(Prefix::new(first, len)),
            }
        }
        prefixes.extend(heap.into_iter().filter_map(|(_, len, first)| Prefix::new(first, u8::MAX - len)));
        prefixes.sort_unstable();
        let part = |&prefix: &Prefix| {
            let inside = within(routes, prefix);
            Part { prefix, routes: inside.len(), bytes: bytes(prefix, inside) }
        };
        Self {
            starts: prefixes.iter().map(|prefix| prefix.first()).collect(),
            parts: prefixes.iter().map(part).collect(),
            routes: routes.len(),
        }
    }
    /// The part of an address.
    #[inline]
    pub(super) fn part(&self, address: u32) -> usize {
        // Without branches: which way it goes is as good as random.
        let (mut base, mut size) = (0, self.starts.len());
        while size > 1 {
            let half = size / 2;
            let middle = base + half;
            base = std::hint::select_unpredictable(self.starts[middle] <= address, middle, base);
            size -= half;
        }
        base
    }
    /// The parts, in order of address.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }
    /// How many routes there were when the addresses were divided.
    pub(super) fn routes(&self) -> usize {
        self.routes
    }
    /// For each part the one of `places` workers that has it: neighbors have about as many routes each.
    pub(super) fn places(&self, places: usize) -> Vec<u16> {
        // A part without routes of its own is worth something too.
        let worth = |part: &Part| part.routes + 1;
        let all = self.parts.iter().map(worth).sum::<usize>().max(1);
        let mut before = 0;
        (self.parts.iter())
            .map(|part| {
                let middle = before * 2 + worth(part);
                before += worth(part);
                (middle * places / (2 * all)).min(places.saturating_sub(1)) as u16
            })
            .collect()
    }
}

impl PartialEq for Division {
    fn eq(&self, other: &Self) -> bool {
        self.parts.iter().map(|part| part.prefix).eq(other.parts.iter().map(|part| part.prefix))
    }
}

/// The routes of a prefix and of longer ones within it.
fn within(routes: &[Prefix], prefix: Prefix) -> &[Prefix] {
    let begin = routes.partition_point(|route| *route < prefix);
    let rest = &routes[begin..];
    &rest[..rest.partition_point(|route| route.first() <= prefix.last())]
}

/// About how many bytes of a route table the lookups of a prefix's addresses reach, as [`tables::Lpm`]
/// reckons it: a cache line for each route, at most one for each /19, and 1 KB for each /24 with longer
/// routes.
fn bytes(prefix: Prefix, routes: &[Prefix]) -> usize {
    let lines = 1 << 19u8.saturating_sub(prefix.len());
    let mut groups = 0;
    let mut last = None;
    for route in routes.iter().filter(|route| route.len() > 24) {
        groups += usize::from(last.replace(route.first() >> 8) != Some(route.first() >> 8));
    }
    routes.len().min(lines) * 64 + groups * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(text: &str) -> Vec<Prefix> {
        let mut routes: Vec<Prefix> = text.split(' ').map(|one| one.parse().unwrap()).collect();
        routes.sort_unstable();
        routes
    }

    fn random(count: usize) -> Vec<Prefix> {
        let mut x = 1u64;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 32) as u32
        };
        let one = |_| Prefix::new(next() >> 1, 16 + (next() % 17) as u8).unwrap();
        let mut routes: Vec<Prefix> = (0..count).map(one).collect();
        routes.sort_unstable();
        routes
    }

    #[test]
    fn parts_are_all_addresses_once() {
        for routes in
            [vec![], routes("0.0.0.0/0"), routes("10.0.0.0/8 10.0.0.0/32 10.0.0.1/32"), random(5000)]
        {
            for count in [1, 2, 3, 512] {
                let division = Division::new(&routes, count);
                assert_eq!(division.parts().len(), count);
                let mut next = 0u64;
                for (n, part) in division.parts().iter().enumerate() {
                    let (first, last) = (part.prefix.first(), part.prefix.last());
                    assert_eq!(u64::from(first), next);
                    next = u64::from(last) + 1;
                    assert_eq!((division.part(first), division.part(last)), (n, n));
                }
                assert_eq!(next, 1 << 32);
            }
        }
    }

    #[test]
    fn without_routes_parts_are_equal() {
        let division = Division::new(&[], 512);
        assert!(division.parts().iter().all(|part| part.prefix.len() == 9 && part.routes == 0));
        let places = division.places(2);
        assert!(
            places[..256].iter().all(|place| *place == 0) && places[256..].iter().all(|place| *place == 1)
        );
    }

    #[test]
    fn workers_have_as_many_routes() {
        // All of them are in the lower half of the addresses.
        let routes = random(100_000);
        let division = Division::new(&routes, 512);
        assert!(division.parts().iter().all(|part| part.routes < 100_000 * 3 / 512));
        for workers in [1, 2, 3, 8] {
            let places = division.places(workers);
            assert!(places.is_sorted(), "neighbors");
            for worker in 0..workers {
                let has = |(_, place): &(&Part, &u16)| usize::from(**place) == worker;
                let own = division.parts().iter().zip(&places).filter(has);
                let own: usize = own.map(|(part, _)| part.routes).sum();
                assert!(own.abs_diff(100_000 / workers) < 1000, "{own} of 1/{workers}");
            }
        }
    }

    #[test]
    fn one_address_cannot_be_split() {
        let routes = vec![Prefix::host(7); 100];
        let division = Division::new(&routes, 40);
        assert_eq!(division.parts().len(), 40);
        assert_eq!(division.parts()[division.part(7)].prefix, Prefix::host(7));
    }

    #[test]
    fn bytes_are_those_of_the_table() {
        let routes = routes("10.0.0.0/8 10.0.0.0/24 10.0.32.0/24 10.0.32.128/25 10.0.32.192/26 11.0.0.0/24");
        let part = Division::new(&routes, 1).parts()[0];
        assert_eq!((part.routes, part.bytes), (6, 6 * 64 + 1024));
        assert_eq!(bytes("10.0.32.0/24".parse().unwrap(), &routes[3..5]), 64 + 1024);
    }
}
