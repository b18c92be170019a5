//! Tests with a real etcd, which each test starts for itself on loopback with a directory of its own.

use etcd::{Change, Client, Entry, Error, Follower, Health, Limits, Mirror, News, Presence, Swap};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[allow(dead_code, reason = "shared with the other tests")]
mod server;
use server::{Etcd, PATIENCE, eventually, free_port, limits};

/// Receives news until a condition holds; returns them.
fn until(news: &Receiver<News>, what: &str, mut holds: impl FnMut(&News) -> bool) -> Vec<News> {
    let end = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(one) = news.recv_timeout(left) else { panic!("no {what} in time; seen: {seen:?}") };
        seen.push(one);
        if holds(&seen[seen.len() - 1]) {
            return seen;
        }
    }
}

fn puts(key: &str, value: &str, news: &News) -> bool {
    let is = |e: &Entry| e.key == key && e.value == value.as_bytes();
    match news {
        News::All { entries, .. } => entries.iter().any(is),
        News::Changes { changes, .. } => changes.iter().any(|c| matches!(c, Change::Put(e) if is(e))),
        _ => false,
    }
}

#[test]
fn keys_are_written_read_swapped_and_removed() {
    let etcd = Etcd::start(&[]);
    let client = etcd.client();
    assert_eq!(client.get("/v/a").unwrap(), None);
    let value: Vec<u8> = (0..=255).collect();
    let first = client.put("/v/a", &value, None).unwrap();
    client.put("/v/b", b"", None).unwrap();
    client.put("/v0", b"behind the prefix", None).unwrap();
    let (entries, revision) = client.list("/v/").unwrap();
    assert_eq!(entries.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["/v/a", "/v/b"]);
    assert_eq!((entries[0].value.clone(), entries[0].revision, revision), (value, first, first + 2));
    assert!(client.delete("/v/b").unwrap() && !client.delete("/v/b").unwrap());

    // Two writers start from the same revision: the second one gets the present value.
    let Swap::Done(base) = client.swap("/v/config", b"one", 0).unwrap() else { panic!("it was not there") };
    let Swap::Done(second) = client.swap("/v/config", b"two", base).unwrap() else {
        panic!("nobody else wrote")
    };
    match client.swap("/v/config", b"three", base).unwrap() {
        Swap::Conflict(Some(entry)) => {
            assert_eq!((entry.value.as_slice(), entry.revision), (&b"two"[..], second))
        }
        other => panic!("{other:?}"),
    }
    // A request that is repeated because its answer was lost is not reported as a conflict.
    assert_eq!(client.swap("/v/config", b"two", base).unwrap(), Swap::Done(second));
    assert!(matches!(client.swap("/v/none", b"x", 99).unwrap(), Swap::Conflict(None)));

    // The first endpoint is dead, the second is not.
    let dead = format!("http://127.0.0.1:{}", free_port());
    let both = Client::new(&[dead.clone(), etcd.url()], limits()).unwrap();
    assert_eq!(both.get("/v/config").unwrap().unwrap().value, b"two");
    let none = Client::new(std::slice::from_ref(&dead), limits()).unwrap();
    assert_eq!(
        none.get("/v/config"),
        Err(Error::Unreachable { endpoint: dead, why: "connection refused".into() })
    );
}

#[test]
fn a_follower_sees_every_change_through_restart_compaction_and_loss() {
    let mut etcd = Etcd::start(&[]);
    let client = etcd.client();
    client.put("/v/a", b"1", None).unwrap();
    client.put("/other", b"1", None).unwrap();
    let (sender, news) = channel();
    let follower = Follower::start(etcd.client(), "/v/".into(), sender);
    let mut mirror = Mirror::default();
    for one in until(&news, "the first reading", |n| puts("/v/a", "1", n)) {
        mirror.apply(one);
    }
    assert_eq!(mirror.below("/v/").count(), 1);
    client.put("/other", b"2", None).unwrap();
    client.put("/v/b", b"1", None).unwrap();
    client.delete("/v/a").unwrap();
    client.put("/v/c", b"1", None).unwrap();
    let seen = until(&news, "three changes", |n| puts("/v/c", "1", n));
    let changes: Vec<String> = seen
        .iter()
        .flat_map(|n| match n {
            News::Changes { changes, .. } => changes.as_slice(),
            other => panic!("{other:?}"),
        })
        .map(|c| match c {
            Change::Put(e) => format!("+{}", e.key),
            Change::Delete(key) => format!("-{key}"),
        })
        .collect();
    assert_eq!(changes, ["+/v/b", "-/v/a", "+/v/c"]);

    // etcd dies and comes back: one report of each, and no change is missed.
    etcd.kill();
    let seen = until(&news, "the loss", |n| matches!(n, News::Reading(Some(_))));
    assert!(matches!(seen.as_slice(), [News::Reading(Some(Error::Unreachable { .. }))]), "{seen:?}");
    let aside = free_port();
    etcd.up_at(aside);
    let writer = Client::new(&[format!("http://127.0.0.1:{aside}")], limits()).unwrap();
    writer.put("/v/b", b"2", None).unwrap();
    etcd.kill();
    etcd.up();
    let seen = until(&news, "what was missed", |n| puts("/v/b", "2", n));
    assert!(matches!(seen.as_slice(), [News::Reading(None), News::Changes { .. }]), "{seen:?}");

    // The changes that it missed have been compacted: it reads everything again.
    etcd.kill();
    until(&news, "the second loss", |n| matches!(n, News::Reading(Some(_))));
    etcd.up_at(aside);
    writer.delete("/v/b").unwrap();
    let last = writer.put("/v/d", b"1", None).unwrap();
    writer.compact(last).unwrap();
    etcd.kill();
    etcd.up();
    let gone = client.watch("/v/", last - 2).and_then(|mut watch| watch.next_changes());
    assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    for one in until(&news, "a new reading", |n| puts("/v/d", "1", n)) {
        assert!(!matches!(one, News::Changes { .. }), "{one:?}");
        mirror.apply(one);
    }
    assert_eq!(mirror.below("/v/").map(|e| e.key.as_str()).collect::<Vec<_>>(), ["/v/c", "/v/d"]);

    // The store has been emptied: its revisions begin again, which the client notices.
    etcd.kill();
    until(&news, "the third loss", |n| matches!(n, News::Reading(Some(_))));
    etcd.wipe();
    etcd.up();
    let seen = until(&news, "the empty store", |n| matches!(n, News::All { .. }));
    assert!(matches!(seen.last(), Some(News::All { entries, .. }) if entries.is_empty()), "{seen:?}");
    drop(follower);
}

#[test]
fn presence_lasts_as_long_as_its_process() {
    let mut etcd = Etcd::start(&[]);
    let client = etcd.client();
    let there = |value: &str| {
        client
            .get("/v/nodes/1")
            .is_ok_and(|e| e.is_some_and(|e| e.value == value.as_bytes() && e.lease.is_some()))
    };
    // The lease of a process that died is not renewed.
    let lease = client.grant(2).unwrap();
    client.put("/v/nodes/0", b"dead", Some(lease)).unwrap();

    let (sender, news) = channel();
    let presence = Presence::start(etcd.client(), "/v/nodes/1".into(), b"a".to_vec(), 2, sender);
    eventually("the node is there", || there("a"));
    presence.set(b"b".to_vec());
    eventually("its value changes", || there("b"));
    eventually("the dead one goes", || client.get("/v/nodes/0").unwrap().is_none());
    assert_eq!(client.keep_alive(lease), Err(Error::LeaseGone));
    assert!(there("b"));

    // Without etcd one report and nothing else; when it is back, everything is as before, even with a new
    // store.
    etcd.kill();
    until(&news, "the loss", |n| matches!(n, News::Presence(Some(Error::Unreachable { .. }))));
    etcd.wipe();
    etcd.up();
    eventually("the node is there again", || there("b"));
    until(&news, "the end of trouble", |n| *n == News::Presence(None));
    drop(presence);
    assert_eq!(client.get("/v/nodes/1").unwrap(), None);
}

#[test]
fn a_full_etcd_is_named_and_still_read() {
    let etcd = Etcd::start(&["--quota-backend-bytes=200000"]);
    let client = etcd.client();
    client.put("/v/config", b"kept", None).unwrap();
    let (sender, news) = channel();
    let _follower = Follower::start(etcd.client(), "/v/".into(), sender.clone());
    let value = vec![7; 50_000];
    // It looks at its size when it writes what has gathered, some times a second.
    let full = (0..2000).find_map(|i| {
        std::thread::sleep(Duration::from_millis(5));
        client.put(&format!("/junk/{i}"), &value, None).err()
    });
    let message = full.clone().map(|e| e.to_string()).unwrap_or_default();
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    assert!(message.contains("NOSPACE") && message.contains("etcdctl alarm disarm"), "{message}");
    assert!(matches!(client.swap("/v/config", b"new", 0), Err(Error::Full { .. }) | Ok(Swap::Conflict(_))));
    let presence = Presence::start(etcd.client(), "/v/nodes/1".into(), b"a".to_vec(), 2, sender);
    let mut health = Health::default();
    let seen = until(&news, "the word about it", |n| health.apply(n).is_some());
    assert!(matches!(health.trouble(), Some(Error::Full { .. })), "{seen:?}");
    // Existing keys stay.
    assert_eq!(client.get("/v/config").unwrap().unwrap().value, b"kept");
    assert!(client.delete("/junk/0").unwrap());
    drop(presence);
}

#[test]
fn a_slow_etcd_holds_nobody_up() {
    let etcd = Etcd::start(&[]);
    let quick = Limits { request: Duration::from_millis(300), watch: Duration::from_millis(300), ..limits() };
    let client = Arc::new(Client::new(&[etcd.url()], quick).unwrap());
    client.put("/v/a", b"1", None).unwrap();
    let (sender, news) = channel();
    let _follower = Follower::start(Arc::clone(&client), "/v/".into(), sender);
    until(&news, "the first reading", |n| puts("/v/a", "1", n));
    etcd.signal("-STOP");
    assert!(matches!(client.get("/v/a"), Err(Error::Slow { limit_ms: 300, .. })));
    until(&news, "the word about it", |n| matches!(n, News::Reading(Some(Error::Slow { .. }))));
    etcd.signal("-CONT");
    until(&news, "the end of trouble", |n| *n == News::Reading(None));
    client.put("/v/a", b"2", None).unwrap();
    until(&news, "the next change", |n| puts("/v/a", "2", n));
}

/// The end of a process does not wait for requests in progress, however long these may take.
#[test]
fn an_end_waits_for_no_answer() {
    let etcd = Etcd::start(&[]);
    let hour = Duration::from_secs(3600);
    let patient = Limits { connect: hour, request: hour, watch: hour, ..limits() };
    let client = Arc::new(Client::new(&[etcd.url()], patient).unwrap());
    let (sender, news) = channel();
    let follower = Follower::start(Arc::clone(&client), "/v/".into(), sender.clone());
    let presence = Presence::start(Arc::clone(&client), "/v/nodes/1".into(), b"a".to_vec(), 60, sender);
    until(&news, "the node is there", |n| puts("/v/nodes/1", "a", n));
    etcd.signal("-STOP");
    presence.set(b"b".to_vec());
    drop(presence);
    drop(follower);
    // This is the last client: the thread ends with it.
    assert!(Arc::into_inner(client).is_some());
}

/// A server at that port that is not etcd is recognized, whatever it sends.
#[test]
fn something_that_is_no_etcd_is_named() {
    let answers = [
        "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot found",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let client = Client::new(&[url], limits()).unwrap();
        for error in [client.get("/v/a").unwrap_err(), client.watch("/v/", 1).unwrap_err()] {
            assert!(
                matches!(&error, Error::Foreign { .. })
                    || (answer.is_empty() && matches!(&error, Error::Unreachable { .. })),
                "{answer:?}: {error:?}"
            );
        }
    }
}
