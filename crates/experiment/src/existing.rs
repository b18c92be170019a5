//! Connections over which the frames of a trial were sent (RFC 9693, test phase 2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Connections that were there before the frames of a trial were sent over them (RFC 9693, test phase 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Existing {
    /// How many there were to be.
    pub asked: u64,
    /// How many were set up.
    pub established: u64,
    /// Frames of the trial that have arrived with the addresses or ports of another connection. They count as
    /// lost.
    pub changed: u64,
    /// Of how many the answer has arrived after the trial; none: that was not looked at, as nothing was lost.
    pub answered: Option<u64>,
    /// How many answers have arrived as those of other connections.
    pub wrong: u64,
}

impl Existing {
    /// From the generator's report; none: it has sent over no connections.
    pub(crate) fn read(report: &Value) -> Option<Self> {
        let of = report.get("connections")?;
        let existing = of.get("existing").filter(|existing| existing.is_object())?;
        let number = |name: &str| of.get(name)?.as_u64();
        let checked = existing.get("checked")?.as_bool()?;
        Some(Self {
            asked: number("asked")?,
            established: number("established")?,
            changed: existing.get("changed")?.as_u64()?,
            answered: if checked { Some(number("answered")?) } else { None },
            wrong: number("wrong")?,
        })
    }

    /// Whether all were there.
    pub(crate) fn all_set_up(&self) -> bool {
        self.established >= self.asked
    }

    /// What has become of them, if something was lost.
    pub(crate) fn words(&self) -> Option<String> {
        let answered = self.answered?;
        let forgotten = self.asked.saturating_sub(answered);
        let mut text = match forgotten {
            0 => format!("all {} connections were still there", self.asked),
            n => format!("the device had forgotten {n} of {} connections", self.asked),
        };
        if self.changed > 0 {
            text += &format!(
                "; {} frames arrived with the addresses or ports of other connections",
                self.changed
            );
        }
        Some(text)
    }
}
