//! The file in which an element notes each flow that has ended, in Click's XML format.

use super::flows::{Flow, Key};
use crate::files::engine::output::{Dump, Framing};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{ElementName, Filename};
use runtime::ElementId;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The last line of a flow's record.
const RECORD_END: &[u8] = b"</flow>\n";

fn record_len(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(RECORD_END.len()).position(|window| window == RECORD_END)?;
    Some(at + RECORD_END.len())
}

/// Where ended flows are noted.
pub(in crate::analysis) struct TraceInfo {
    path: String,
    /// The file, which is kept over a hot swap and ends when the last element that writes it is gone.
    file: Option<Arc<Dump>>,
    /// The element that the packets come from.
    source: Option<String>,
    source_id: Option<ElementId>,
}

impl TraceInfo {
    /// Reads the arguments `TRACEINFO` and `SOURCE`.
    pub(in crate::analysis) fn from_args(
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<Option<Self>, ArgError> {
        let path = args.k::<Filename>("TRACEINFO")?.map(|f| f.0);
        path.iter().try_for_each(|path| cx.permits(Outside::Write(path), args))?;
        let source = args.k::<ElementName>("SOURCE")?.map(|name| name.0);
        let Some(path) = path else { return Ok(None) };
        Ok(Some(Self { path, file: None, source, source_id: None }))
    }

    /// Opens the file, which begins when the configuration takes effect, unless the element of this name had
    /// it open before a hot swap.
    pub(in crate::analysis) fn open(&mut self, class: &'static str, cx: &mut Cx<'_>) -> Result<(), String> {
        self.source_id = self.source.as_ref().and_then(|name| cx.find(name));
        let mut head = "<?xml version='1.0' standalone='yes'?>\n<trace".to_owned();
        if let Some(name) = self.source_id.and_then(|id| cx.read_handler(id, "filename", "").ok())
            && !name.trim().is_empty()
        {
            head += &format!(" file='{}'", name.trim());
        }
        head += ">\n";
        // As in Click, what is written to standard output has no end.
        let end: &[u8] = if self.path == "-" { b"" } else { b"</trace>\n" };
        let framing = Framing { class, record_len, unbuffered: false, end };
        let key = format!("{class} {} {}", cx.name(), self.path);
        let file = Dump::open(&key, cx.name(), &self.path, head.into_bytes(), framing, cx.hub())?;
        let begins = Arc::clone(&file);
        cx.at_change_over(move || begins.begin());
        self.file = Some(file);
        Ok(())
    }

    /// Where in its file the source has read the last packet.
    pub(in crate::analysis) fn position(&self, cx: &mut Cx<'_>) -> u32 {
        let position = self.source_id.and_then(|id| cx.read_handler(id, "packet_filepos", "").ok());
        position.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Notes a flow that has ended.
    pub(in crate::analysis) fn note(&self, key: &Key, flow: &Flow) {
        let ends = [(key.low, key.ports[0]), (key.high, key.ports[1])];
        let [(src, sport), (dst, dport)] = if flow.reverse { [ends[1], ends[0]] } else { ends };
        let begin = text::timestamp(flow.first_ns.cast_signed());
        let duration = text::timestamp(flow.last_ns.wrapping_sub(flow.first_ns).cast_signed());
        let (aggregate, packets) = (flow.aggregate, flow.packets);
        let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
        let position =
            if flow.position == 0 { String::new() } else { format!(" filepos='{}'", flow.position) };
        let text = format!(
            "<flow aggregate='{aggregate}' src='{src}' sport='{sport}' dst='{dst}' dport='{dport}' \
             begin='{begin}' duration='{duration}'{position}>\n  <stream dir='0' packets='{}' />\
             <stream dir='1' packets='{}' />\n</flow>\n",
            packets[0], packets[1]
        );
        if let Some(file) = &self.file {
            // Packets pass although their flow could not be noted, for instance on a full disk.
            let _ = file.lock().record(|buffer| buffer.extend_from_slice(text.as_bytes()));
        }
    }

    /// Ends the file.
    pub(in crate::analysis) fn finish(&mut self) {
        self.file = None;
    }
}
