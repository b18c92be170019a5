//! The file of dropped packets.

use runtime::{DropSample, Router};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

/// The writer of dropped packets.
pub(crate) struct DropFile {
    writer: std::thread::JoinHandle<io::Result<()>>,
    path: String,
}

/// Starts to write what is dropped into a pcapng file.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn drop_file(path: &Path, router: &Router) -> Result<DropFile, String> {
    let name = path.display().to_string();
    let problem = |e: io::Error| format!("{name}: {}", launch::reason(&e));
    let file = std::fs::File::create(path).map_err(problem)?;
    let (sender, samples): (SyncSender<DropSample>, _) = sync_channel(4096);
    let mut out = io::BufWriter::new(file);
    pcapng::header(&mut out).map_err(problem)?;
    let writer = std::thread::spawn(move || {
        while let Ok(sample) = samples.recv() {
            pcapng::packet(&mut out, &sample)?;
            for sample in samples.try_iter() {
                pcapng::packet(&mut out, &sample)?;
            }
            // Everything is written to the file now, for readers of the file and in case the process ends.
            out.flush()?;
        }
        out.flush()
    });
    router.hub().set_tap(Some(sender));
    Ok(DropFile { writer, path: name })
}

impl DropFile {
    /// Ends the file.
    pub(crate) fn finish(self, router: &Router) {
        router.hub().set_tap(None);
        match self.writer.join() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::error!(target: "router", "{}: {}", self.path, launch::reason(&e)),
            Err(_) => tracing::error!(target: "router", "{}: the writer failed", self.path),
        }
    }
}

/// The part of the pcapng format (draft-ietf-opsawg-pcapng) that dropped packets need: one section, one
/// interface, enhanced packet blocks with a comment.
mod pcapng {
    use super::{DropSample, Write, io};

    fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
        let total = (body.len() + 12) as u32;
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&total.to_le_bytes())?;
        out.write_all(body)?;
        out.write_all(&total.to_le_bytes())
    }

    fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
        let length = value.len().min(usize::from(u16::MAX) - 3);
        body.extend_from_slice(&code.to_le_bytes());
        body.extend_from_slice(&(length as u16).to_le_bytes());
        body.extend_from_slice(&value[..length]);
        pad(body);
    }

    fn pad(body: &mut Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
    }

    pub(super) fn header(out: &mut impl Write) -> io::Result<()> {
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
        section.extend_from_slice(&1u16.to_le_bytes());
        section.extend_from_slice(&0u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        option(&mut section, 4, b"Valiant"); // shb_userappl
        option(&mut section, 0, b"");
        block(out, 0x0a0d_0d0a, &section)?;
        let mut interface = Vec::new();
        interface.extend_from_slice(&1u16.to_le_bytes()); // LINKTYPE_ETHERNET
        interface.extend_from_slice(&0u16.to_le_bytes());
        interface.extend_from_slice(&0u32.to_le_bytes());
        option(&mut interface, 2, b"dropped"); // if_name
        option(&mut interface, 9, &[9]); // if_tsresol: nanoseconds
        option(&mut interface, 0, b"");
        block(out, 1, &interface)
    }

    pub(super) fn packet(out: &mut impl Write, sample: &DropSample) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend_from_slice(&0u32.to_le_bytes());
        body.extend_from_slice(&((sample.at_ns >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(sample.at_ns as u32).to_le_bytes());
        body.extend_from_slice(&(sample.data.len() as u32).to_le_bytes());
        body.extend_from_slice(&(sample.data.len() as u32).to_le_bytes());
        body.extend_from_slice(&sample.data);
        pad(&mut body);
        option(&mut body, 1, format!("{}: {}", sample.element, sample.reason).as_bytes());
        option(&mut body, 0, b"");
        block(out, 6, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn dropped_packets_are_in_the_file_before_it_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drops.pcapng");
        let config = lang::Source::new("test", "Idle -> c :: CheckIPHeader -> Discard");
        let options = runtime::Options::default();
        let mut router =
            Router::new(&[config], lang::LoadOptions::default(), Arc::new(elements::registry()), options)
                .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
        let samples = drop_file(&path, &router).unwrap();
        router.inject("c", 0, dpdk::Packet::from_bytes(b"no IP at all").into_iter().collect());
        let found = || std::fs::read(&path).unwrap().windows(12).any(|w| w == b"no IP at all");
        // If the process ended now, nothing would be lost.
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            found()
        }));
        samples.finish(&router);
    }
}
