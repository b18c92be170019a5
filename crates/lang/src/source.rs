//! Source texts and positions in them.

use std::sync::Arc;

/// A configuration text and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name as the user gave it (`config` for text that came from elsewhere).
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// A source from text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    /// A source from bytes. Bytes that are not UTF-8 become `\<xx>`, which Click's quoting turns back into
    /// that byte wherever a configuration string can hold it.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Source {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for b in chunk.invalid() {
                text.push_str(&format!("\\<{b:02x}>"));
            }
        }
        Source { name: name.into(), text }
    }
}

/// A range of bytes in one source of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Index of the source in its map.
    pub source: u32,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset one past the last byte.
    pub end: u32,
}

impl Span {
    /// A span of bytes `start..end` of source number `source`.
    pub fn new(source: u32, start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { source, start: clamp(start), end: clamp(end.max(start)) }
    }

    /// From the start of `self` to the end of `other`; `self` if they lie in different sources.
    pub fn to(self, other: Span) -> Span {
        if self.source != other.source {
            return self;
        }
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The part `from..to` (bytes relative to this span's start), kept within this span.
    pub fn part(self, from: usize, to: usize) -> Span {
        let at = |n: usize| self.start.saturating_add(u32::try_from(n).unwrap_or(u32::MAX)).min(self.end);
        Span { source: self.source, start: at(from), end: at(to.max(from)) }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// From `offset` on, lines are numbered from `line` and belong to `name`.
#[derive(Clone, Debug)]
struct LineMark {
    /// Offset of the first byte of the line after the directive.
    offset: u32,
    name: Arc<str>,
    /// Number of that line.
    line: u32,
}

#[derive(Clone, Debug)]
struct File {
    name: Arc<str>,
    text: Arc<str>,
    /// Offset of the first byte of every line.
    lines: Arc<[u32]>,
    marks: Vec<LineMark>,
}

/// A place as file, line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File name, as changed by a `#line` directive.
    pub file: String,
    /// Line number from 1, as changed by a `#line` directive.
    pub line: u32,
    /// Column from 1, in characters.
    pub column: u32,
}

/// The sources of a configuration. Cheap to clone.
#[derive(Clone, Default)]
pub struct SourceMap {
    files: Vec<File>,
}

impl std::fmt::Debug for SourceMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.files.iter().map(|f| &f.name)).finish()
    }
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a source and returns its number. Offsets are 32 bits: text beyond 4 GiB is cut off.
    pub fn add(&mut self, source: &Source) -> u32 {
        let mut text = source.text.as_str();
        if text.len() > u32::MAX as usize - 1 {
            let mut end = u32::MAX as usize - 1;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text = &text[..end];
        }
        let name = if source.name.is_empty() { "config" } else { source.name.as_str() };
        let mut lines = vec![0u32];
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                b'\r' if bytes.get(i + 1) == Some(&b'\n') => {}
                b'\n' | b'\r' => lines.push((i + 1) as u32),
                _ => {}
            }
            i += 1;
        }
        self.files.push(File {
            name: name.into(),
            text: text.into(),
            lines: lines.into(),
            marks: Vec::new(),
        });
        (self.files.len() - 1) as u32
    }

    /// Number of sources.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The text of a source; empty for an unknown number.
    pub fn text(&self, source: u32) -> Arc<str> {
        self.files.get(source as usize).map_or_else(|| "".into(), |f| f.text.clone())
    }

    /// The name of a source; empty for an unknown number.
    pub fn name(&self, source: u32) -> &str {
        self.files.get(source as usize).map_or("", |f| &f.name)
    }

    /// Records a `#line` directive: the line that starts at `offset` is line `line` of `name` (`None`: the
    /// name in force; empty: the source's own name).
    pub(crate) fn mark_line(&mut self, source: u32, offset: usize, line: u32, name: Option<&str>) {
        let Some(file) = self.files.get_mut(source as usize) else { return };
        let offset = offset as u32;
        if file.marks.last().is_some_and(|m| m.offset >= offset) {
            return;
        }
        let name = match name {
            Some("") => file.name.clone(),
            Some(n) => n.into(),
            None => file.marks.last().map_or_else(|| file.name.clone(), |m| m.name.clone()),
        };
        file.marks.push(LineMark { offset, name, line });
    }

    fn line_index(file: &File, offset: u32) -> usize {
        file.lines.partition_point(|&l| l <= offset).saturating_sub(1)
    }

    /// File, line and column of the start of a span.
    pub fn locate(&self, span: Span) -> Location {
        let Some(file) = self.files.get(span.source as usize) else {
            return Location { file: String::new(), line: 0, column: 0 };
        };
        let offset = span.start.min(file.text.len() as u32);
        let index = Self::line_index(file, offset);
        let start = file.lines[index] as usize;
        let column = file.text.get(start..offset as usize).map_or(1, |s| s.chars().count() + 1);
        let marks = &file.marks[..file.marks.partition_point(|m| m.offset <= offset)];
        let (name, line) = match marks.last() {
            Some(m) => {
                let base = Self::line_index(file, m.offset);
                (&m.name, m.line.saturating_add((index - base) as u32))
            }
            None => (&file.name, index as u32 + 1),
        };
        Location { file: name.to_string(), line, column: column as u32 }
    }

    /// `FILE:LINE`, Click's landmark of a span.
    pub fn landmark(&self, span: Span) -> String {
        let l = self.locate(span);
        format!("{}:{}", l.file, l.line)
    }

    /// The text of the line where a span starts, without its end, and the offset of the line.
    pub(crate) fn line_text(&self, span: Span) -> (&str, usize) {
        let Some(file) = self.files.get(span.source as usize) else { return ("", 0) };
        let offset = span.start.min(file.text.len() as u32);
        let index = Self::line_index(file, offset);
        let start = file.lines[index] as usize;
        let end = file.lines.get(index + 1).map_or(file.text.len(), |&e| e as usize);
        (file.text.get(start..end).unwrap_or("").trim_end_matches(['\n', '\r']), start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let mut map = SourceMap::new();
        let s = map.add(&Source::new("f", "ab\r\nc\u{e9}d\rx\n"));
        let at = |o: usize| {
            let l = map.locate(Span::new(s, o, o));
            (l.line, l.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(4), (2, 1));
        assert_eq!(at(7), (2, 3));
        assert_eq!(at(9), (3, 1));
        assert_eq!(at(11), (4, 1));
        assert_eq!(at(1000), (4, 1));
        assert_eq!(map.line_text(Span::new(s, 5, 5)).0, "c\u{e9}d");
    }

    #[test]
    fn line_directives() {
        let mut map = SourceMap::new();
        let s = map.add(&Source::new("f", "a\n#\nb\nc\n"));
        map.mark_line(s, 4, 100, Some("g"));
        assert_eq!(map.landmark(Span::new(s, 0, 0)), "f:1");
        assert_eq!(map.landmark(Span::new(s, 6, 6)), "g:101");
    }

    #[test]
    fn raw_bytes() {
        assert_eq!(Source::from_bytes("x", b"a\xffb").text, "a\\<ff>b");
    }
}
