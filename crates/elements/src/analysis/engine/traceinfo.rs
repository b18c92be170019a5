//! The file in which an element notes each flow that has ended, in Click's XML format.

use super::flows::{Flow, Key};
use crate::outfile::NewFile;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{ElementName, Filename};
use locks::IgnorePoison;
use runtime::{ElementId, reason};
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

type Sink = BufWriter<Box<dyn Write + Send>>;

/// The file, from the moment when the configuration takes effect.
#[derive(Default)]
struct Sheet(Mutex<Option<Sink>>);

/// Where ended flows are noted.
pub(in crate::analysis) struct TraceInfo {
    path: String,
    sheet: Arc<Sheet>,
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
        Ok(Some(Self { path, sheet: cx.shared(Sheet::default), source, source_id: None }))
    }

    /// Opens the file, which begins when the configuration takes effect.
    pub(in crate::analysis) fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.source_id = self.source.as_ref().and_then(|name| cx.find(name));
        let mut head = "<?xml version='1.0' standalone='yes'?>\n<trace".to_owned();
        if let Some(name) = self.source_id.and_then(|id| cx.read_handler(id, "filename", "").ok())
            && !name.trim().is_empty()
        {
            head += &format!(" file='{}'", name.trim());
        }
        head += ">\n";
        let (sheet, path) = (Arc::clone(&self.sheet), self.path.clone());
        let wrong = move |e: std::io::Error| format!("{path}: {}", reason(&e));
        let new =
            if self.path == "-" { None } else { Some(NewFile::open(cx.hub(), &self.path).map_err(&wrong)?) };
        cx.at_change_over(move || {
            let file: Box<dyn Write + Send> = match new {
                None => Box::new(std::io::stdout()),
                Some(new) => Box::new(new.begin().map_err(&wrong)?),
            };
            let mut sink = BufWriter::new(file);
            sink.write_all(head.as_bytes()).map_err(wrong)?;
            *sheet.0.lock().ignore_poison() = Some(sink);
            Ok(())
        });
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
        self.write(&format!(
            "<flow aggregate='{aggregate}' src='{src}' sport='{sport}' dst='{dst}' dport='{dport}' \
             begin='{begin}' duration='{duration}'{position}>\n  <stream dir='0' packets='{}' />\
             <stream dir='1' packets='{}' />\n</flow>\n",
            packets[0], packets[1]
        ));
    }

    fn write(&self, text: &str) {
        if let Some(sink) = self.sheet.0.lock().ignore_poison().as_mut() {
            // Packets pass although their flow could not be noted, for instance on a full disk.
            let _ = sink.write_all(text.as_bytes());
        }
    }

    /// Ends the file.
    pub(in crate::analysis) fn finish(&self) {
        if self.path != "-" {
            self.write("</trace>\n");
        }
        if let Some(mut sink) = self.sheet.0.lock().ignore_poison().take() {
            let _ = sink.flush();
        }
    }
}
