//! Frames over connections that are there already (test phase 2 of RFC 9693): they are set up first, then
//! frames are sent over them, in one direction or both. Of what is lost, it is seen whether the device has
//! forgotten connections.

use super::Bench;
use super::args::GenArgs;
use super::connections::{Connections, Existing};
use measure::direction::Direction;
use std::time::Instant;

/// What has to be known of connections to send over them.
pub(super) struct Known {
    /// With what the Responder answers.
    learned: String,
    /// With what the Initiator has sent.
    used: String,
}

/// The sources that send, and the sinks that they send to: the first, and how many.
fn ends(direction: Direction) -> (usize, usize) {
    match direction {
        Direction::Forward => (0, 1),
        Direction::Reverse => (1, 1),
        Direction::Both => (0, 2),
    }
}

impl Bench {
    /// Sends over the connections that were set up, if all were. Returns what is known of them, if they were
    /// used, and whether that has come to its end.
    pub(super) fn over_existing(
        &mut self,
        args: &GenArgs,
        kept: &mut Connections,
    ) -> Result<(Option<Known>, bool), String> {
        kept.established = self.number("sink0.learned")?;
        kept.existing = Some(Existing::default());
        if kept.established < kept.asked {
            return Ok((None, true));
        }
        let known = Known { learned: self.read("sink0.answers")?, used: self.read("gen0.tuples")? };
        for i in 0..2 {
            self.write(&format!("sink{i}.reset"), "")?;
        }
        self.write("sink0.expect", &known.learned)?;
        self.write("sink1.expect", &known.used)?;
        self.write("gen1.take_flows", &known.learned)?;
        let (first, ports) = ends(args.direction);
        self.begin_anew(first, ports)?;
        let time = args.time.unwrap_or_default().as_secs_f64();
        for i in first..first + ports {
            self.write(&format!("gen{i}.rate"), &args.rate.to_string())?;
            self.write(&format!("gen{i}.limit"), "-1")?;
            self.write(&format!("gen{i}.duration"), &format!("{time}s"))?;
            self.write(&format!("gen{i}.reset"), "")?;
        }
        (self.began, self.waited) = (Instant::now(), launch::kept_waiting(std::process::id()));
        for i in first..first + ports {
            self.write(&format!("gen{i}.active"), "true")?;
        }
        let ended = self.watch(|bench| bench.all("gen", ports, "done", "true"))?;
        if !ended {
            for i in first..first + ports {
                self.write(&format!("gen{i}.active"), "false")?;
            }
        }
        self.drain(args.wait)?;
        kept.existing = Some(Existing { changed: self.total("sink", ports, "changed")?, checked: false });
        Ok((Some(known), ended))
    }

    /// Sees which connections still answer. Returns whether that has come to its end.
    pub(super) fn check_existing(
        &mut self,
        args: &GenArgs,
        kept: &mut Connections,
        known: &Known,
    ) -> Result<bool, String> {
        self.write("sink1.reset", "")?;
        self.begin_anew(1, 1)?;
        let rate = args.answer.or(args.set_up).unwrap_or(args.rate);
        self.write("gen1.rate", &rate.to_string())?;
        let ended = self.answer(kept, &known.learned, &known.used, args.wait)?;
        if let Some(existing) = &mut kept.existing {
            existing.checked = ended;
        }
        Ok(ended)
    }
}
