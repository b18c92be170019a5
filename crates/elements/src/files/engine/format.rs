//! The lines of an IP summary dump: those with an exclamation mark describe the file, the others describe
//! packets, unless the packets are in binary records.

use super::binary;
use super::capture::NO_MEMORY;
use super::draft::{Draft, Flow};
use super::fieldreader;
use super::fields::{self, Field, words};
use crate::prelude::*;
use lang::args::{IpProto, parse};

/// The format version of files that do not specify one.
const MINOR: u32 = 3;

/// The contents of the lines with an exclamation mark.
#[derive(Clone)]
pub(in crate::files) struct Format {
    fields: Vec<Option<Field>>,
    /// The order in which fields are written into a packet.
    order: Vec<usize>,
    flow: Option<Flow>,
    protocol: u8,
    minor: u32,
    aggregate: u32,
    binary: bool,
    complained: bool,
}

impl Format {
    /// Nothing is known except the protocol of packets whose lines have none.
    pub(in crate::files) fn new(protocol: u8) -> Self {
        Self {
            fields: Vec::new(),
            order: Vec::new(),
            flow: None,
            protocol,
            minor: MINOR,
            aggregate: 0,
            binary: false,
            complained: false,
        }
    }
    /// Whether the fields of the lines are known.
    pub(in crate::files) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether binary records follow.
    pub(in crate::files) fn is_binary(&self) -> bool {
        self.binary
    }

    /// The fields of the lines that follow. Returns warnings about those that are ignored.
    ///
    /// # Errors
    /// It names no field.
    pub(in crate::files) fn data(&mut self, text: &str) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        self.fields.clear();
        for word in words(text) {
            let field = fields::find(&word);
            match field {
                None => warnings.push(format!("unknown content type '{word}'")),
                Some(field) if !fieldreader::reads(field.kind) => {
                    warnings.push(format!("content type '{word}' ignored on input"));
                }
                Some(_) => {}
            }
            self.fields.push(field);
        }
        self.order = (0..self.fields.len()).collect();
        let fields = &self.fields;
        self.order.sort_by_key(|at| fields.get(*at).copied().flatten().map_or(0, |f| f.order));
        if self.fields.is_empty() { Err("no contents specified".to_owned()) } else { Ok(warnings) }
    }
    /// Addresses and ports for packets whose lines do not have them.
    pub(in crate::files) fn flow(&mut self, text: &str) -> Result<(), String> {
        let words = words(text);
        let at = |i: usize| words.get(i).map(String::as_str).ok_or("bad !flowid specification");
        let ip = |w: &str| if w == "-" { Ok([0; 4].into()) } else { w.parse() };
        let port = |w: &str| if w == "-" { Ok(0) } else { w.parse::<u16>() };
        let (src, src_port) = (ip(at(0)?), port(at(1)?));
        let (dst, dst_port) = (ip(at(2)?), port(at(3)?));
        let (Ok(src), Ok(src_port), Ok(dst), Ok(dst_port)) = (src, src_port, dst, dst_port) else {
            self.flow = None;
            return Err("bad !flowid specification".to_owned());
        };
        self.flow = Some(Flow { src, src_port, dst, dst_port });
        words.get(4).map_or(Ok(()), |proto| self.proto(proto))
    }
    fn proto(&mut self, text: &str) -> Result<(), String> {
        self.protocol = match text.trim() {
            "T" => 6,
            "U" => 17,
            "I" => 1,
            other => parse::<IpProto>(other).map_err(|_| "bad protocol in !proto".to_owned())?.0,
        };
        Ok(())
    }

    /// Reads a line that describes the file. Returns warnings about it.
    pub(in crate::files) fn bang(&mut self, line: &str) -> Result<Vec<String>, String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "!data" | "!contents" => return self.data(rest),
            "!flowid" => self.flow(rest)?,
            "!proto" => self.proto(rest)?,
            "!aggregate" => {
                self.aggregate = rest.trim().parse().map_err(|_| "bad !aggregate specification")?;
            }
            "!binary" => {
                self.binary = true;
                if !rest.trim().is_empty() {
                    return Err("bad !binary specification".to_owned());
                }
            }
            "!IPSummaryDump" => match rest.trim().split_once('.').map(|(a, b)| (a.parse(), b.parse())) {
                Some((Ok(1u32), Ok(minor))) if minor <= MINOR => self.minor = minor,
                _ => return Ok(vec![format!("unexpected IPSummaryDump version {}", rest.trim())]),
            },
            _ => {}
        }
        Ok(Vec::new())
    }

    /// The packet that a line describes.
    pub(in crate::files) fn packet(&mut self, line: &str, checksum: bool) -> Result<Option<Packet>, String> {
        let mut values = Vec::with_capacity(self.fields.len());
        let mut rest = line.trim_start();
        for _ in 0..self.fields.len() {
            let mut quoted = false;
            let mut escaped = false;
            let end = rest.find(|c: char| {
                let stop = c.is_whitespace() && !quoted;
                quoted ^= c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                stop
            });
            let (value, after) = rest.split_at(end.unwrap_or(rest.len()));
            values.push(value);
            rest = after.trim_start();
        }
        let mut draft = self.draft();
        let mut known = 0;
        for at in &self.order {
            if let (Some(Some(field)), Some(value)) = (self.fields.get(*at), values.get(*at))
                && !matches!(*value, "" | "-")
                && fieldreader::read(field, value, &mut draft)
            {
                known += 1;
            }
        }
        self.finish(known, draft, line.trim().is_empty(), checksum)
    }

    /// The packet that a binary record, without its length, describes.
    pub(in crate::files) fn record(
        &mut self,
        mut record: &[u8],
        checksum: bool,
    ) -> Result<Option<Packet>, String> {
        let fields = self.fields.iter();
        let values: Vec<_> =
            fields.map(|f| f.and_then(|f| Some((f, binary::take(&f, &mut record)?)))).collect();
        let mut draft = self.draft();
        let mut known = 0;
        for at in &self.order {
            if let Some(Some((field, bytes))) = values.get(*at) {
                known += usize::from(fieldreader::read_binary(field, bytes, &mut draft));
            }
        }
        self.finish(known, draft, false, checksum)
    }

    fn draft(&self) -> Draft {
        let mut draft = Draft::new(self.protocol, self.flow, self.minor);
        if self.aggregate != 0 {
            draft.anno.set_aggregate(self.aggregate);
        }
        draft
    }

    /// The packet, if a field of it is known; a line that cannot be read is reported once.
    fn finish(
        &mut self,
        known: usize,
        draft: Draft,
        empty: bool,
        checksum: bool,
    ) -> Result<Option<Packet>, String> {
        if known > 0 {
            return draft.finish(checksum).map(Some).ok_or_else(|| NO_MEMORY.to_owned());
        }
        if empty || std::mem::replace(&mut self.complained, true) {
            return Ok(None);
        }
        Err(if self.fields.is_empty() { "no '!data' provided" } else { "packet parse error" }.to_owned())
    }
}
