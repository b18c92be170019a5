//! Frames between the nodes of a cluster: whatever arrives, nothing panics, nothing grows without bound, and
//! what was not sealed with the key changes nothing. The first byte says how the rest is used: as a frame, as
//! the body of a sealed one (what a neighbor with the key may say), or as a piece of routes.
#![no_main]

use cluster::frame::{self, FrameKind, Header};
use cluster::hello::Settings;
use cluster::routes::Summary;
use cluster::{Control, Failures, Key, NodeId, Received, Replica};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

const NODES: u16 = 5;
const MS: u64 = 1_000_000;

fn node(me: u16) -> (Control, Replica) {
    let mut control = Control::new(NodeId(me), NODES, Key::nobodys(), [me as u8; 16]).expect("a node");
    let mut replica = Replica::new(NodeId(me), 1000).expect("a replica");
    let peer = NodeId(1 - me);
    control.link(0, peer, Settings::default()).expect("a link");
    replica.link(peer);
    (control, replica)
}

/// Node 0 and its routes when it hears node 1, the last hello of that one, and the time.
fn met() -> &'static (Control, Replica, Vec<u8>, u64) {
    static MET: OnceLock<(Control, Replica, Vec<u8>, u64)> = OnceLock::new();
    MET.get_or_init(|| {
        let ((mut a, routes), (mut b, _)) = (node(0), node(1));
        let (mut out, mut last, mut now) = (Vec::new(), Vec::new(), 0);
        for _ in 0..60 {
            now += 5 * MS;
            a.tick(now, NodeId(1));
            if a.hello(now, NodeId(1), Summary::default(), &mut out) {
                b.receive(now, NodeId(0), &out);
            }
            b.tick(now, NodeId(0));
            if b.hello(now, NodeId(0), Summary::default(), &mut out) {
                a.receive(now, NodeId(1), &out);
                last.clone_from(&out);
            }
        }
        assert!(a.neighbor(NodeId(1)).is_some_and(|n| n.is_up()));
        (a, routes, last, now)
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let (mut a, mut routes, last, now) = met().clone();
    let mut out = Vec::new();
    let before = a.failures();
    match how % 3 {
        0 => {
            for frame in rest.chunks(200) {
                a.receive(now, NodeId(1), frame);
            }
            assert!(a.failures() == before && a.neighbor(NodeId(1)).is_some_and(|n| n.is_up()));
        }
        1 => {
            let Ok((old, _)) = frame::open(&Key::nobodys(), &last) else { return };
            for (i, body) in rest.chunks(1400).enumerate() {
                let kind = if how & 4 == 0 { FrameKind::Hello } else { FrameKind::Routes };
                let header = Header { kind, sequence: old.sequence + 1 + i as u64, ..old };
                if frame::seal(&Key::nobodys(), &header, 1500, &mut out, |b| b.extend(body))
                    && let Received::Routes(piece) = a.receive(now, NodeId(1), &out)
                {
                    routes.take(NodeId(1), piece, |_, _| false);
                }
            }
            let _: Failures = a.failures();
            a.tick(now + 20 * MS, NodeId(1));
            a.hello(now + 20 * MS, NodeId(1), routes.summary(), &mut out);
            assert!(out.len() <= 1500);
        }
        _ => {
            for piece in rest.chunks(300) {
                routes.take(NodeId(1), piece, |_, _| true);
            }
            assert!(routes.len() <= 1000 && routes.table().len() == routes.len());
            for room in [0, 10, 24, 100, 1400] {
                let mut piece = Vec::new();
                routes.piece(now, NodeId(1), Some(Summary::default()), room, &mut piece);
                assert!(piece.len() <= room);
            }
            routes.changes(10_000);
            assert!(!routes.has_changes());
        }
    }
});
