//! What an input of a translator does with a packet of no flow.

use super::headers::FlowId;
use super::pattern::Pattern;
use crate::prelude::*;
use lang::args::NameDb;
use lang::split_words;
use runtime::ElementId;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Chooses patterns for new flows in the place of an input.
pub(crate) trait Mapper: Send + Sync {
    /// Offers patterns for a flow, the best first, until `take` ends that.
    fn offer(&self, flow: FlowId, take: &mut dyn FnMut(&Mapped) -> ControlFlow<()>);
    /// Whether its outputs are there: below this number.
    fn fits(&self, outputs: usize) -> bool;
}

/// What an element that chooses patterns shares.
pub(crate) struct SharedMapper(pub(crate) Arc<dyn Mapper>);

/// A pattern, and the outputs of a flow's packets and of replies.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) outputs: [u8; 2],
}

/// The patterns that IPRewriterPatterns elements have named.
#[derive(Default)]
pub(crate) struct Named(pub(crate) HashMap<String, Arc<Pattern>>);

/// What is done with a packet of no flow.
#[derive(Clone)]
pub(crate) enum Input {
    Drop,
    Pass(u8),
    Keep([u8; 2]),
    Pattern(Mapped),
    Mapper(Arc<dyn Mapper>),
}

/// What names in an input's specification mean.
pub(crate) struct Known<'a> {
    pub(crate) names: &'a NameDb,
    pub(crate) patterns: HashMap<String, Arc<Pattern>>,
    pub(crate) outputs: usize,
}

/// The same, kept for specifications that come while the router runs.
pub(crate) struct Names {
    names: NameDb,
    patterns: HashMap<String, Arc<Pattern>>,
    outputs: usize,
    /// Mappers by the names that they have for the element: those of its own scope first.
    mappers: HashMap<String, Arc<dyn Mapper>>,
}

impl Names {
    pub(crate) fn of(known: &Known<'_>, cx: &ConfigCx<'_>) -> Self {
        let mut mappers = HashMap::new();
        for id in (0..cx.config().elements.len()).map(|n| ElementId(n as u32)) {
            let Some(mapper) = cx.shared_by::<SharedMapper>(id) else { continue };
            let name = cx.name_of(id);
            let ends = name.match_indices('/').map(|(at, _)| name.get(at + 1..).unwrap_or_default());
            for short in ends.chain([name]).filter(|short| cx.find(short) == Some(id)) {
                mappers.insert(short.to_owned(), Arc::clone(&mapper.0));
            }
        }
        Self { names: known.names.clone(), patterns: known.patterns.clone(), outputs: known.outputs, mappers }
    }

    /// Reads a specification.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn parse(&self, text: &str) -> Result<Input, String> {
        let known = Known { names: &self.names, patterns: self.patterns.clone(), outputs: self.outputs };
        Input::parse(text, &known, |name| self.mappers.get(name).cloned().map(Ok))
    }
}

/// All patterns that have names.
pub(crate) fn named(cx: &ConfigCx<'_>) -> HashMap<String, Arc<Pattern>> {
    (0..cx.config().elements.len())
        .filter_map(|n| cx.shared_by::<Named>(ElementId(n as u32)))
        .flat_map(|named| named.0.clone())
        .collect()
}

/// The two outputs at the end of a specification.
fn outputs(words: &[&str], outputs: usize) -> Result<[u8; 2], String> {
    let [forward, reply] = words else { return Err("bad forward port".into()) };
    let forward: usize = forward.parse().map_err(|_| "bad forward port".to_owned())?;
    let reply: usize = reply.parse().map_err(|_| "bad reply port".to_owned())?;
    match (u8::try_from(forward), u8::try_from(reply)) {
        (Ok(f), Ok(r)) if forward < outputs && reply < outputs => Ok([f, r]),
        _ => Err("output port out of range".into()),
    }
}

/// A pattern with its two outputs: `PATTERN FOUTPUT ROUTPUT`.
///
/// # Errors
/// Says what is wrong.
pub(crate) fn mapped(words: &[&str], known: &Known<'_>) -> Result<Mapped, String> {
    let split = words.len().checked_sub(2).filter(|n| *n > 0).ok_or("syntax error")?;
    let (pattern, rest) = words.split_at(split);
    let pattern = match pattern {
        [name] => known.patterns.get(*name).cloned().ok_or_else(|| format!("no such pattern '{name}'"))?,
        words => Arc::new(Pattern::parse(words, known.names)?),
    };
    Ok(Mapped { pattern, outputs: outputs(rest, known.outputs)? })
}

impl Input {
    /// Reads a specification.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn parse(
        text: &str,
        known: &Known<'_>,
        mapper: impl FnOnce(&str) -> Option<Result<Arc<dyn Mapper>, String>>,
    ) -> Result<Self, String> {
        let words = split_words(text);
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let (word, rest) = words.split_first().ok_or("empty argument")?;
        match (*word, rest) {
            ("drop" | "discard", []) => Ok(Self::Drop),
            ("drop" | "discard", _) => Err(format!("syntax error, expected '{word}'")),
            ("pass" | "passthrough" | "nochange", []) => Ok(Self::Pass(0)),
            ("pass" | "passthrough" | "nochange", [output]) => match output.parse::<u8>() {
                Ok(n) if usize::from(n) < known.outputs => Ok(Self::Pass(n)),
                Ok(_) => Err("output port out of range".into()),
                Err(_) => Err("syntax error, expected 'nochange [OUTPUT]'".into()),
            },
            ("pass" | "passthrough" | "nochange", _) => {
                Err("syntax error, expected 'nochange [OUTPUT]'".into())
            }
            ("keep", rest) => outputs(rest, known.outputs).map(Self::Keep),
            ("pattern" | "xpattern", rest) => mapped(rest, known).map(Self::Pattern),
            (name, rest) => match mapper(name) {
                Some(_) if !rest.is_empty() => Err("syntax error, expected element name".into()),
                Some(Ok(mapper)) if mapper.fits(known.outputs) => Ok(Self::Mapper(mapper)),
                Some(Ok(_)) => Err("output port out of range".into()),
                Some(Err(wrong)) => Err(wrong),
                None => Err("unknown specification".into()),
            },
        }
    }

    /// As the handler `patterns` shows it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Drop => "<drop>".into(),
            Self::Pass(_) => "<nochange>".into(),
            Self::Keep(_) => "<keep>".into(),
            Self::Pattern(mapped) => mapped.pattern.to_string(),
            Self::Mapper(_) => "<mapper>".into(),
        }
    }
}
