//! The second phase of connections: the Responder answers.

use super::connections::Connections;
use super::{Bench, MOST_WAITS};
use measure::learned::Answers;
use std::time::{Duration, Instant};

impl Bench {
    /// The second phase, when the first has ended. Returns whether it has come to its end too.
    pub(super) fn answers(&mut self, asked: u32, wait: Duration) -> Result<(Connections, bool), String> {
        let mut kept = Connections {
            asked: asked.into(),
            established: self.number("sink0.learned")?,
            ..Connections::default()
        };
        if kept.established < kept.asked {
            return Ok((kept, true));
        }
        let (learned, used) = (self.read("sink0.answers")?, self.read("gen0.tuples")?);
        let ended = self.answer(&mut kept, &learned, &used, wait)?;
        Ok((kept, ended))
    }

    /// One frame of each connection goes back, and it is counted which arrive where they belong. Returns
    /// whether that has come to its end.
    pub(super) fn answer(
        &mut self,
        kept: &mut Connections,
        learned: &str,
        used: &str,
        wait: Duration,
    ) -> Result<bool, String> {
        let before = (self.number("to1.n_sent")?, self.number("to1.dropped")?);
        self.write("gen1.answers", learned)?;
        let ended = self.watch(|bench| Ok(bench.read("gen1.done")?.trim() == "true"))?;
        let (start, mut last, mut since) = (Instant::now(), 0, Instant::now());
        while ended && start.elapsed() < wait.saturating_mul(MOST_WAITS) {
            let (made, sent) = (self.number("gen1.count")?, self.number("to1.n_sent")? - before.0);
            let (dropped, arrived) = (self.number("to1.dropped")? - before.1, self.number("sink1.learned")?);
            if sent + arrived != last {
                (last, since) = (sent + arrived, Instant::now());
            }
            if sent + dropped >= made && arrived >= sent || since.elapsed() >= wait {
                break;
            }
            self.router.turn();
            std::thread::sleep(Duration::from_millis(2));
        }
        kept.sent = self.number("to1.n_sent")? - before.0;
        kept.missed = self.number("gen1.missed")?;
        let of = |text: &str| Answers::read(text).map_err(|bad| bad.to_string());
        kept.count(&of(used)?, &of(&self.read("sink1.answers")?)?);
        Ok(ended)
    }

    pub(super) fn number(&mut self, handler: &str) -> Result<u64, String> {
        let text = self.read(handler)?;
        text.trim().parse().map_err(|_| format!("{handler}: '{text}' is no number"))
    }
}
