//! Reads all frames of a capture file at once, for sources that send them again and again.

use super::capture::{Capture, Found};
use super::link::Link;

/// Reads the Ethernet frames of a capture file, at most `most_bytes` bytes.
pub(crate) fn read_frames(
    hub: &runtime::Hub,
    path: &str,
    most_bytes: usize,
) -> Result<Vec<Box<[u8]>>, String> {
    let mut capture = Capture::open(hub, path)?;
    let failed = |e: String| format!("{path}: {e}");
    let (mut frames, mut bytes) = (Vec::new(), 0);
    loop {
        let head = match capture.head().map_err(failed)? {
            Found::Packet(head) => head,
            Found::NotYet => continue,
            Found::End => break,
        };
        if head.link != Link::ETHER {
            return Err(format!("{path}: frames of kind {} are not Ethernet", head.link.name()));
        }
        let packet = capture.packet(&head).map_err(failed)?;
        bytes += packet.len();
        if bytes > most_bytes {
            return Err(format!(
                "{path}: more than {} MB of frames; replay it with FromDump",
                most_bytes >> 20
            ));
        }
        if packet.len() > 0 {
            frames.push(packet.data().into());
        }
    }
    if frames.is_empty() { Err(format!("{path}: no frame in it")) } else { Ok(frames) }
}
