//! Flows to several outputs of a device under test, each with its part of the frames.

use crate::prelude::*;
use measure::flows::{FlowSpec, Set};
use measure::interleave::Interleave;
use measure::rng::Rng;
use measure::tag::{MAX_OUTPUTS, Outputs};
use measure::zipf::Zipf;

/// The addresses behind each output, and which part of the frames goes there.
#[derive(Clone, Debug)]
pub(in crate::measure) struct ByOutput {
    sets: Vec<Set>,
    parts: Vec<f64>,
}

impl ByOutput {
    /// For outputs with these addresses; without parts, all have the same.
    pub(in crate::measure) fn new(sets: Vec<Set>, parts: Option<&str>) -> Result<Self, ArgError> {
        if sets.len() > MAX_OUTPUTS {
            let n = sets.len();
            return Err(ArgError::new(format!("OUTPUTS: {n} outputs are too many, up to {MAX_OUTPUTS}")));
        }
        if let Some((a, b, _)) = measure::flows::shared(&sets) {
            let (a, b) = (a.min(b) + 1, a.max(b) + 1);
            return Err(ArgError::new(format!("OUTPUTS: outputs {a} and {b} have an address in common")));
        }
        let Some(text) = parts else { return Ok(Self { parts: vec![1.0; sets.len()], sets }) };
        let wrong = || {
            let n = sets.len();
            ArgError::new(format!("PARTS: '{text}' is no list of {n} numbers from 0 on, not all 0"))
        };
        let parts: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let parts = parts.map_err(|_| wrong())?;
        if parts.len() != sets.len() || Interleave::new(&parts).is_err() {
            return Err(wrong());
        }
        Ok(Self { sets, parts })
    }

    /// The outputs that are sent to: their numbers, flows of each, and parts. As many flows as `spec` says
    /// are divided by the parts; each of so many workers needs one to each output.
    pub(in crate::measure) fn specs(
        &self,
        spec: &FlowSpec,
        workers: usize,
    ) -> Result<Vec<(usize, FlowSpec, u32, f64)>, ArgError> {
        let all: f64 = self.parts.iter().sum();
        let most = Outputs::new(self.sets.len()).most();
        let mut specs = Vec::new();
        for (output, (set, part)) in self.sets.iter().zip(&self.parts).enumerate() {
            if *part <= 0.0 {
                continue;
            }
            let flows = spec.flows.map(|n| ((f64::from(n) * part / all).round() as u32).max(1));
            // Flows of different outputs draw different numbers.
            let seed = Rng::new(spec.seed ^ output as u64).number();
            let one = FlowSpec { dst: set.clone(), flows, seed, ..spec.clone() };
            let count =
                one.count().map_err(|e| ArgError::new(format!("FLOWS: output {}: {e}", output + 1)))?;
            if count > most {
                return Err(ArgError::new(format!(
                    "FLOWS: {count} flows to output {} are too many, up to {most} with {} outputs",
                    output + 1,
                    self.sets.len()
                )));
            }
            specs.push((output, one, count.max(workers as u32), *part));
        }
        Ok(specs)
    }

    /// The number of its first flow, for an output.
    pub(in crate::measure) fn first_flow(&self, output: usize) -> u32 {
        Outputs::new(self.sets.len()).first(output)
    }
}

/// The flows of an output, one after the other in the list of all.
struct Group {
    output: usize,
    first: usize,
    len: usize,
    next: usize,
    /// Which is next, if not all in turn.
    draw: Option<Zipf>,
    made: u64,
}

/// How outputs are chosen.
enum Choice {
    /// In the order that keeps their parts at any time.
    InTurn(Interleave),
    /// At random, by their parts.
    AtRandom(Zipf),
}

/// Chooses the output of each frame, and a flow of it.
pub(in crate::measure) struct Chooser {
    groups: Box<[Group]>,
    /// The group of the next frame.
    at: usize,
    choice: Choice,
}

impl Chooser {
    /// For groups of flows: output, number of flows, their order if that is not in turn, part.
    pub(in crate::measure) fn new(
        groups: Vec<(usize, usize, Option<Zipf>, f64)>,
        random: bool,
        seed: u64,
    ) -> Result<Self, ArgError> {
        let parts: Vec<f64> = groups.iter().map(|group| group.3).collect();
        let choice = if random {
            Choice::AtRandom(Zipf::weighted(parts, seed))
        } else {
            Choice::InTurn(Interleave::new(&parts).map_err(|e| ArgError::new(format!("PARTS: {e}")))?)
        };
        let mut first = 0;
        let group = |(output, len, draw, _): (usize, usize, Option<Zipf>, f64)| {
            first += len;
            Group { output, first: first - len, len, next: 0, draw, made: 0 }
        };
        Ok(Self { groups: groups.into_iter().map(group).collect(), at: 0, choice })
    }

    /// The place of the next frame's flow.
    #[inline]
    pub(in crate::measure) fn choose(&mut self) -> usize {
        self.at = match &mut self.choice {
            Choice::InTurn(interleave) => interleave.draw(),
            Choice::AtRandom(draw) => draw.draw(),
        };
        let Some(group) = self.groups.get_mut(self.at) else { return 0 };
        let at = match &mut group.draw {
            Some(draw) => draw.draw(),
            None => {
                let at = group.next;
                group.next = if at + 1 == group.len { 0 } else { at + 1 };
                at
            }
        };
        group.first + at
    }

    /// The frame of the chosen flow was made.
    #[inline]
    pub(in crate::measure) fn count(&mut self) {
        if let Some(group) = self.groups.get_mut(self.at) {
            group.made += 1;
        }
    }

    /// Frames made to each output.
    pub(in crate::measure) fn made(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.groups.iter().map(|group| (group.output, group.made))
    }

    /// Counts from 0 again.
    pub(in crate::measure) fn restart(&mut self) {
        self.groups.iter_mut().for_each(|group| group.made = 0);
    }
}
