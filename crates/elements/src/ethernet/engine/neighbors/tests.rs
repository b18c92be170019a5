use super::*;

const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MAC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
const SECOND: u64 = 1_000_000_000;

fn packet(n: u8) -> Packet {
    Packet::from_bytes(&[n]).unwrap()
}

#[test]
fn a_request_that_was_not_sent_is_asked_for_again_at_once() {
    let t = Neighbors::new(Limits::default());
    assert!(matches!(t.find(IP, packet(1), SECOND, u64::MAX), Answer::Waits { ask: true, .. }));
    t.not_asked(IP);
    assert!(matches!(t.find(IP, packet(2), SECOND + 1, u64::MAX), Answer::Waits { ask: true, .. }));
    assert!(matches!(t.find(IP, packet(3), SECOND + 2, u64::MAX), Answer::Waits { ask: false, .. }));
}

#[test]
fn packets_wait_for_the_answer_in_order() {
    let t = Neighbors::new(Limits::default());
    assert!(matches!(t.find(IP, packet(1), SECOND, u64::MAX), Answer::Waits { ask: true, .. }));
    assert!(matches!(t.find(IP, packet(2), SECOND + 1, u64::MAX), Answer::Waits { ask: false, .. }));
    assert!(matches!(t.find(IP, packet(3), 2 * SECOND, u64::MAX), Answer::Waits { ask: true, .. }));
    let freed: Vec<u8> = t.learn(IP, MAC, 2 * SECOND).0.iter().map(|p| p.data()[0]).collect();
    assert_eq!(freed, [1, 2, 3]);
    assert_eq!(t.waiting(), 0);
    assert!(matches!(
        t.find(IP, packet(4), 3 * SECOND, u64::MAX),
        Answer::Known { address: MAC, ask: false, .. }
    ));
}

#[test]
fn answers_age_are_asked_for_again_and_expire() {
    let t = Neighbors::new(Limits::default());
    t.insert(IP, MAC, 0).unwrap();
    let poll = 60 * SECOND;
    assert!(matches!(t.find(IP, packet(0), 59 * SECOND, poll), Answer::Known { ask: false, .. }));
    assert!(matches!(t.find(IP, packet(0), 61 * SECOND, poll), Answer::Known { ask: true, .. }));
    assert!(matches!(t.find(IP, packet(0), 61 * SECOND + 1, poll), Answer::Known { ask: false, .. }));
    assert!(matches!(t.find(IP, packet(0), 301 * SECOND, poll), Answer::Waits { ask: true, .. }));
}

#[test]
fn packets_that_nobody_answers_for_expire() {
    let t = Neighbors::new(Limits { timeout_ns: 10 * SECOND, ..Limits::default() });
    let other = Ipv4Addr::new(10, 0, 0, 2);
    t.insert(other, MAC, SECOND).unwrap();
    for n in 0..3 {
        drop(t.find(IP, packet(n), SECOND, u64::MAX));
    }
    assert!(t.expire(11 * SECOND).is_empty());
    assert_eq!((t.expire(11 * SECOND + 1).len(), t.waiting(), t.drops(), t.len()), (3, 0, 3, 0));
    // An address that packets are sent to stays just within the time-out.
    drop(t.find(IP, packet(1), 12 * SECOND, u64::MAX));
    drop(t.find(IP, packet(2), 40 * SECOND, u64::MAX));
    assert!(t.expire(40 * SECOND).is_empty());
    assert_eq!(t.expire(41 * SECOND).len(), 2);
    let forever = Neighbors::new(Limits { timeout_ns: 0, ..Limits::default() });
    drop(forever.find(IP, packet(1), SECOND, u64::MAX));
    assert_eq!((forever.expire(u64::MAX).len(), forever.expiry_interval()), (0, None));
}

#[test]
fn waiting_packets_are_bounded() {
    let t = Neighbors::new(Limits { packets: 2, slim: 0, ..Limits::default() });
    for n in 0..5 {
        drop(t.find(IP, packet(n), SECOND, u64::MAX));
    }
    assert_eq!((t.waiting(), t.drops()), (2, 3));
    let freed: Vec<u8> = t.learn(IP, MAC, SECOND).0.iter().map(|p| p.data()[0]).collect();
    assert_eq!(freed, [3, 4]);
    let other = Ipv4Addr::new(10, 0, 0, 2);
    for n in 0..2 {
        drop(t.find(other, packet(n), SECOND, u64::MAX));
    }
    let third = Ipv4Addr::new(10, 0, 0, 3);
    drop(t.find(third, packet(9), SECOND, u64::MAX));
    assert_eq!((t.waiting(), t.drops()), (2, 4));
    assert_eq!(t.learn(third, MAC, SECOND).0.len(), 1);
}

/// Whoever sends to every address of a network leaves the known neighbors in the table.
#[test]
fn addresses_that_do_not_exist_are_forgotten() {
    let budget = Budget::new(1000);
    let limits = Limits { packets: 8, entries: 100, forgets: true, slim: 0, ..Limits::default() };
    let t = Neighbors::new(limits).limited(&budget);
    let host = |n: u32| Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(n));
    for n in 0..50 {
        t.insert(host(n), MAC, SECOND).unwrap();
    }
    for n in 1000..11_000 {
        drop(t.find(host(n), packet(n as u8), SECOND, u64::MAX));
        assert!(t.len() <= 58 && t.waiting() <= 8, "{n}");
    }
    assert_eq!((t.len(), budget.used()), (58, 58));
    assert!((0..50).all(|n| t.get(host(n)) == Some(MAC)));
    // Those that waited last are still asked for.
    assert_eq!(t.learn(host(10_999), MAC, SECOND).0.len(), 1);
    // One that was known, and is so no more, waits as the others do.
    let later = 1000 * SECOND;
    drop(t.find(host(0), packet(1), later, u64::MAX));
    (20_000..20_020).for_each(|n| drop(t.find(host(n), packet(1), later, u64::MAX)));
    assert_eq!((t.get(host(0)), t.waiting()), (None, 8));
}

#[test]
fn dead_addresses_do_not_keep_the_others_waiting() {
    let t = Neighbors::new(Limits { packets: 4, ..Limits::default() });
    for n in 0..100 {
        drop(t.find(Ipv4Addr::new(10, 9, 0, n), packet(n), SECOND, u64::MAX));
    }
    drop(t.find(IP, packet(1), SECOND, u64::MAX));
    assert_eq!(t.learn(IP, MAC, SECOND).0.len(), 1);
    assert_eq!((t.waiting(), t.drops()), (1, 99));
}

/// As in Click: half is kept, and the packets for the oldest entries go, not the oldest packets.
#[test]
fn when_too_many_wait_half_is_kept() {
    let t = Neighbors::new(Limits { packets: 6, ..Limits::default() });
    let host = |n| Ipv4Addr::new(10, 0, 0, n);
    for n in [1, 2, 3, 1, 1] {
        drop(t.find(host(n), packet(n), SECOND, u64::MAX));
    }
    // The first entry becomes the newest.
    assert_eq!(t.learn(host(1), MAC, SECOND).0.len(), 3);
    t.insert(host(1), MAC, SECOND).unwrap();
    for n in 10..14 {
        drop(t.find(host(2), packet(n), SECOND, u64::MAX));
    }
    assert_eq!((t.waiting(), t.drops()), (6, 0));
    let Answer::Waits { displaced, .. } = t.find(host(4), packet(4), SECOND, u64::MAX) else { panic!() };
    assert_eq!(displaced.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), [2, 10, 11, 12]);
    assert_eq!((t.waiting(), t.drops()), (3, 4));
    let rest = |n| t.learn(host(n), MAC, SECOND).0.iter().map(|p| p.data()[0]).collect::<Vec<_>>();
    assert_eq!((rest(2), rest(3), rest(4)), (vec![13], vec![3], vec![4]));
}

#[test]
fn who_does_not_answer_is_asked_for_less_often() {
    let t = Neighbors::new(Limits::default());
    let asked = |from_ms: u64, to_ms: u64, poll_ns: u64| -> Vec<u64> {
        let ask = |ms: &u64| match t.find(IP, packet(0), ms * 1_000_000, poll_ns) {
            Answer::Waits { ask, .. } | Answer::Known { ask, .. } => ask,
        };
        (from_ms..to_ms).filter(ask).collect()
    };
    let mut expected: Vec<u64> = (10..20).map(|n| n * 100).collect();
    expected.extend([3900, 5900]);
    assert_eq!(asked(1000, 6000, u64::MAX), expected);
    // A reply resets that; once it has become old, the same begins anew.
    t.learn(IP, MAC, 6000 * 1_000_000);
    let mut expected: Vec<u64> = (70..80).map(|n| n * 100).collect();
    expected.extend([9900]);
    assert_eq!(asked(6001, 10_000, SECOND), expected);
}

#[test]
fn a_dead_neighbor_costs_the_same_for_every_packet() {
    // Whatever the limits for one address and in all are, refused packets do not increase the memory in
    // use.
    for (packets, per_entry) in [(1000, 1), (1000, 3), (4, 2), (4, usize::MAX), (1, 1)] {
        let t = Neighbors::new(Limits { packets, per_entry, slim: 0, ..Limits::default() });
        let most = packets.min(per_entry);
        for n in 0..10_000u32 {
            let displaced = match t.find(IP, packet(n as u8), SECOND, u64::MAX) {
                Answer::Waits { displaced, .. } => displaced.len(),
                _ => panic!("nobody has answered"),
            };
            assert_eq!(displaced, usize::from(n as usize >= most));
        }
        assert_eq!((t.waiting(), t.lock().waiting.places()), (most, most));
        assert_eq!(t.drops(), 10_000 - most as u64);
        // The newest packets are there, in order.
        let freed: Vec<u8> = t.learn(IP, MAC, SECOND).0.iter().map(|p| p.data()[0]).collect();
        let newest: Vec<u8> = (10_000 - most as u32..10_000).map(|n| n as u8).collect();
        assert_eq!((freed, t.waiting()), (newest, 0));
    }
}

#[test]
fn answers_and_removals_leave_no_trace() {
    let t = Neighbors::new(Limits {
        packets: 100,
        per_entry: 2,
        timeout_ns: SECOND,
        entries: 8,
        forgets: false,
        ..Limits::default()
    });
    for round in 1..2000u32 {
        let now = u64::from(round) * SECOND / 4;
        let ip = Ipv4Addr::new(10, 0, 0, (round % 16) as u8);
        (0..3).for_each(|n| drop(t.find(ip, packet(n), now, u64::MAX)));
        match round % 5 {
            0 => assert!(t.learn(ip, MAC, now).0.len() <= 2),
            1 => assert!(t.remove(ip).len() <= 2),
            2 => assert!(t.insert(ip, MAC, now).unwrap().0.len() <= 2),
            3 => drop(t.expire(now)),
            _ => {}
        }
        assert!(t.waiting() <= 16 && t.lock().waiting.places() <= 16 && t.len() <= 8);
    }
    t.clear();
    assert_eq!((t.waiting(), t.len()), (0, 0));
}

#[test]
fn a_new_table_takes_over_what_it_has_room_for() {
    let old = Neighbors::new(Limits::default());
    let other = Ipv4Addr::new(10, 0, 0, 2);
    for n in 0..4 {
        drop(old.find(IP, packet(n), SECOND, u64::MAX));
        drop(old.find(other, packet(10 + n), SECOND, u64::MAX));
    }
    let new = Neighbors::new(Limits { packets: 4, per_entry: 3, ..Limits::default() });
    new.insert(other, MAC, SECOND).unwrap();
    let lost: Vec<u8> = new.adopt(&old, SECOND).iter().map(|p| p.data()[0]).collect();
    assert_eq!(lost, [0, 10, 11, 12, 13]);
    assert_eq!((old.waiting(), new.waiting()), (0, 3));
    drop(new.find(Ipv4Addr::new(10, 0, 0, 3), packet(9), SECOND, u64::MAX));
    assert_eq!(new.waiting(), 4);
    let freed: Vec<u8> = new.learn(IP, MAC, SECOND).0.iter().map(|p| p.data()[0]).collect();
    assert_eq!(freed, [1, 2, 3]);
}

#[test]
fn nobody_teaches_us_what_we_did_not_ask() {
    let t = Neighbors::new(Limits::default());
    assert!(t.learn(IP, MAC, 0).0.is_empty());
    assert_eq!(t.len(), 0);
}

/// As Click's ARPTable.
#[test]
fn unless_it_is_to_know_whoever_speaks() {
    let t = Neighbors::new(Limits { unrequested: true, entries: 2, ..Limits::default() });
    let host = |n| Ipv4Addr::new(10, 0, 0, n);
    for n in 1..=3 {
        assert!(t.learn(host(n), MAC, u64::from(n) * SECOND).0.is_empty());
    }
    assert_eq!((t.len(), t.get(host(1)), t.get(host(3))), (2, None, Some(MAC)));
    drop(t.find(host(4), packet(4), 4 * SECOND, u64::MAX));
    drop(t.learn(host(5), MAC, 5 * SECOND));
    assert_eq!(t.learn(host(6), MAC, 6 * SECOND).1.len(), 1, "whoever waits loses its place");
    assert_eq!((t.drops(), t.waiting()), (1, 0));
}

#[test]
fn a_packet_is_refused_rather_than_the_oldest() {
    let limits = Limits { per_entry: 2, keeps_oldest: true, ..Limits::default() };
    let t = Neighbors::new(limits);
    for n in 0..4 {
        drop(t.find(IP, packet(n), SECOND, u64::MAX));
    }
    assert_eq!((t.waiting(), t.drops()), (2, 2));
    let asks = |at| matches!(t.find(IP, packet(9), at, u64::MAX), Answer::Waits { ask: true, .. });
    assert!(!asks(SECOND) && asks(2 * SECOND), "it causes a request as any other");
    let freed: Vec<u8> = t.learn(IP, MAC, SECOND).0.iter().map(|p| p.data()[0]).collect();
    assert_eq!(freed, [0, 1]);
}

#[test]
fn a_forgotten_address_keeps_its_entry_and_its_packets() {
    let t = Neighbors::new(Limits::default());
    drop(t.find(IP, packet(1), SECOND, u64::MAX));
    t.set(IP, Some(MAC), SECOND).unwrap();
    assert_eq!((t.get(IP), t.waiting()), (Some(MAC), 1));
    t.set(IP, None, SECOND).unwrap();
    assert_eq!((t.get(IP), t.len(), t.waiting()), (None, 1, 1));
    assert_eq!(t.learn(IP, MAC, SECOND).0.len(), 1);
    drop(t.find(Ipv4Addr::new(10, 0, 0, 9), packet(1), SECOND, u64::MAX));
    assert_eq!((t.clear().len(), t.len(), t.drops()), (1, 0, 1));
}

#[test]
fn a_copy_is_dropped_when_the_table_changes() {
    let t = Neighbors::new(Limits::default());
    let mut cache = Cache::default();
    cache.check(&t);
    cache.put(IP, MAC, SECOND);
    assert_eq!((cache.get(IP, 0), cache.get(IP, SECOND)), (Some(MAC), None));
    t.insert(IP, EtherAddr([4; 6]), 0).unwrap();
    cache.check(&t);
    assert_eq!(cache.get(IP, 0), None);
}

/// The limit of a virtual router is for all its tables: who is over it makes room in its own.
#[test]
fn two_tables_have_no_more_entries_than_their_router_may_have() {
    let budget = Budget::new(3);
    let table = || Neighbors::new(Limits::default()).limited(&budget);
    let (one, two) = (table(), table());
    let host = |n| Ipv4Addr::new(10, 0, 0, n);
    let over = |answer| match answer {
        Answer::Waits { over, displaced, .. } => Some((over.map(|over| over.most), displaced.len())),
        Answer::Known { .. } => None,
    };
    assert_eq!(over(one.find(host(1), packet(1), SECOND, u64::MAX)), Some((None, 0)));
    assert_eq!(over(one.find(host(2), packet(2), 2 * SECOND, u64::MAX)), Some((None, 0)));
    assert!(one.insert(host(3), MAC, SECOND).is_ok() && one.insert(host(3), MAC, SECOND).is_ok());
    // One message in a second, however many there are.
    assert_eq!(over(one.find(host(4), packet(4), 3 * SECOND, u64::MAX)), Some((Some(3), 1)));
    assert_eq!(over(one.find(host(5), packet(5), 4 * SECOND, u64::MAX)), Some((None, 1)));
    assert_eq!((one.len(), budget.used(), budget.refused()), (3, 3, 2));
    // A table without entries has none that could make room: the packet comes back.
    assert_eq!(over(two.find(host(1), packet(1), SECOND, u64::MAX)), Some((None, 1)));
    assert_eq!(two.insert(host(1), MAC, SECOND).map(drop).unwrap_err().most, 3);
    assert_eq!((two.len(), two.drops(), budget.refused()), (0, 1, 4));
    drop(one.remove(host(5)));
    assert!(two.insert(host(1), MAC, SECOND).is_ok());
    // A hot swap counts none twice.
    let next = table();
    assert_eq!(next.adopt(&one, 5 * SECOND).len(), 0);
    assert_eq!((next.len(), one.len(), budget.used()), (2, 0, 3));
    drop((next.clear(), two.expire(1000 * SECOND)));
    assert_eq!(budget.used(), 0);
}
/// As Click's ARPTable: an entry that has expired, or was never confirmed, and is asked for is as old as it
/// may be, and stands before those that are as old.
#[test]
fn what_has_expired_and_is_asked_for_moves_up() {
    let t = Neighbors::new(Limits { timeout_ns: 10 * SECOND, ..Limits::default() });
    let ip = |n| Ipv4Addr::new(10, 0, 0, n);
    (1..=3).for_each(|n| _ = t.insert(ip(n), MAC, 100 * SECOND));
    (1..=2).for_each(|n| _ = t.find(ip(n), packet(n), 112 * SECOND, u64::MAX));
    let order = |t: &Neighbors| -> Vec<String> {
        let list = t.list(113 * SECOND);
        list.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(order(&t), ["10.0.0.3", "10.0.0.2", "10.0.0.1"]);
    assert!(t.list(113 * SECOND).contains("10.0.0.1 0 02-00-00-00-00-01 11.000000"));
    t.learn(ip(2), MAC, 113 * SECOND);
    assert_eq!(order(&t), ["10.0.0.3", "10.0.0.1", "10.0.0.2"]);
}

/// With a limit of the user's, use does not keep an entry; being confirmed does.
#[test]
fn the_entry_that_was_confirmed_longest_ago_makes_room() {
    for (entries, gone) in [(3, 1), (0, 0)] {
        let t = Neighbors::new(Limits { entries, ..Limits::default() });
        let ip = |n| Ipv4Addr::new(10, 0, 0, n);
        (1..=3).for_each(|n| _ = t.insert(ip(n), MAC, u64::from(n) * SECOND));
        let _ = t.find(ip(1), packet(1), 4 * SECOND, u64::MAX);
        t.insert(ip(4), MAC, 5 * SECOND).unwrap();
        assert_eq!(t.get(ip(1)).is_none(), gone == 1);
        assert_eq!(t.get(ip(2)), Some(MAC));
    }
}
