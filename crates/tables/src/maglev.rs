//! Consistent hashing by Maglev's table (Eisenbud et al., NSDI 2016, section 3.4).
//!
//! Each server has an order of all places of the table, that depends on its name alone. The servers take
//! places in turn, each the first one of its order that is free, a server of twice the weight twice as often.
//! So all have their share to within a part in a hundred, and when a server leaves, nearly all places that
//! were not its own stay as they were.

/// How many places a table has: a prime, hundreds for each server.
pub const PLACES: usize = 65_537;
/// The most servers.
pub const MOST_SERVERS: usize = 1_024;
/// The largest weight.
pub const MOST_WEIGHT: u32 = 256;

/// A place that belongs to nobody, as there are no servers.
pub const NOBODY: u16 = u16::MAX;

fn scramble(name: u64, salt: u64) -> u64 {
    let mut x = name ^ salt;
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        x = (x ^ x >> 31).wrapping_mul(factor);
    }
    x ^ x >> 29
}

/// The number of the server at each place, for servers with these names and weights; one of weight 0 has
/// none. The result depends on nothing else, so that several balancers agree.
#[must_use]
pub fn table(servers: &[(u64, u32)]) -> Vec<u16> {
    struct Turn {
        server: u16,
        weight: u32,
        credit: u32,
        at: usize,
        skip: usize,
    }
    let mut table = vec![NOBODY; PLACES];
    let mut turns: Vec<Turn> = servers
        .iter()
        .take(MOST_SERVERS)
        .enumerate()
        .filter(|(_, (_, weight))| *weight > 0)
        .map(|(server, (name, weight))| Turn {
            server: server as u16,
            weight: (*weight).min(MOST_WEIGHT),
            credit: 0,
            at: (scramble(*name, 0x9e37_79b9_7f4a_7c15) % PLACES as u64) as usize,
            skip: (scramble(*name, 0xd1b5_4a32_d192_ed03) % (PLACES as u64 - 1)) as usize + 1,
        })
        .collect();
    // Names alone decide who is first, not the order in which servers are given.
    turns.sort_by_key(|turn| (servers.get(usize::from(turn.server)).map(|s| s.0), turn.server));
    let Some(most) = turns.iter().map(|turn| turn.weight).max() else { return table };
    let mut free = PLACES;
    while free > 0 {
        for turn in &mut turns {
            turn.credit += turn.weight;
            if turn.credit < most {
                continue;
            }
            turn.credit -= most;
            // As the number of places is prime, the steps lead to all of them.
            while let Some(place) = table.get_mut(turn.at) {
                turn.at = (turn.at + turn.skip) % PLACES;
                if *place == NOBODY {
                    *place = turn.server;
                    free -= 1;
                    break;
                }
            }
            if free == 0 {
                break;
            }
        }
    }
    table
}

#[cfg(all(test, not(miri)))] // Nothing here is unsafe, and there it takes minutes.
mod tests {
    use super::*;

    fn shares(table: &[u16], servers: usize) -> Vec<usize> {
        let mut shares = vec![0; servers];
        table.iter().for_each(|server| shares[usize::from(*server)] += 1);
        shares
    }

    #[test]
    fn shares_are_as_the_weights() {
        let servers: Vec<(u64, u32)> = (0..50).map(|n| (1000 + n, 1)).collect();
        let equal = shares(&table(&servers), 50);
        let (least, most) = (equal.iter().min().unwrap(), equal.iter().max().unwrap());
        assert!(most - least <= 1, "{least} {most}");
        let weights = shares(&table(&[(1, 1), (2, 2), (3, 0), (4, 5)]), 4);
        let all: usize = weights.iter().sum();
        assert_eq!((all, weights[2]), (PLACES, 0));
        for (share, weight) in weights.iter().zip([1, 2, 0, 5]) {
            let ideal = all * weight / 8;
            assert!(share.abs_diff(ideal) <= 2, "{weights:?}");
        }
    }

    #[test]
    fn a_server_that_leaves_takes_few_places_of_others_along() {
        let servers: Vec<(u64, u32)> = (0..20).map(|n| (77 * n + 5, 1)).collect();
        let before = table(&servers);
        let mut without = servers.clone();
        without[7].1 = 0;
        let after = table(&without);
        let moved = before.iter().zip(&after).filter(|(b, a)| **b != 7 && b != a).count();
        assert!(moved * 100 < PLACES * 5, "{moved}");
        assert!(!after.contains(&7));
    }

    #[test]
    fn the_order_does_not_matter_and_nobody_is_no_server() {
        let names = |table: &[u16], servers: &[(u64, u32)]| {
            table.iter().map(|s| servers[usize::from(*s)].0).collect::<Vec<_>>()
        };
        let (a, b) = ([(1, 1), (2, 3), (9, 1)], [(9, 1), (1, 1), (2, 3)]);
        assert_eq!(names(&table(&a), &a), names(&table(&b), &b));
        assert!(table(&[]).iter().all(|s| *s == NOBODY));
        assert!(table(&[(1, 0)]).iter().all(|s| *s == NOBODY));
    }
}
