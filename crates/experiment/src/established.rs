//! What has become of connections in a trial.

use measure::connections::{Step, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Connections through the device (RFC 9693).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connected {
    /// What they are for.
    pub step: StepOf,
    /// How many there were to be.
    pub asked: u64,
    /// How many were set up: their frame has arrived at the Responder.
    pub established: u64,
    /// Of these, how many have answered: the frame that goes back has arrived at the Initiator, as one of
    /// this connection.
    pub answered: u64,
    /// How many answers have arrived as those of other connections.
    pub wrong: u64,
    /// How many answers were sent later than the rate asks for, or not at all.
    #[serde(default)]
    pub answers_missed: u64,
    /// From the first frame of the Initiator to its last, in seconds.
    pub seconds: f64,
    /// How long the command needed that then removed all of them, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied_s: Option<f64>,
    /// The same once more, with an empty table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_s: Option<f64>,
}

/// What connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOf {
    /// The maximum connection establishment rate.
    Rate,
    /// The connection tracking table capacity.
    Capacity,
    /// The connection tear-down rate.
    TearDown,
}

impl From<Step> for StepOf {
    fn from(step: Step) -> Self {
        match step {
            Step::Rate => Self::Rate,
            Step::Capacity => Self::Capacity,
            Step::TearDown => Self::TearDown,
        }
    }
}

impl Connected {
    /// From the generator's report.
    pub(crate) fn read(wanted: Wanted, report: &Value) -> Option<Self> {
        let of = report.get("connections")?;
        let number = |name: &str| of.get(name)?.as_u64();
        Some(Self {
            step: wanted.step.into(),
            asked: wanted.connections,
            established: number("established")?,
            answered: number("answered")?,
            wrong: number("wrong")?,
            answers_missed: number("answers_missed")?,
            seconds: report.get("sent")?.get("seconds")?.as_f64()?,
            emptied_s: None,
            empty_s: None,
        })
    }

    /// How many of them are there and answer.
    pub(crate) fn kept(&self) -> u64 {
        if self.established < self.asked { self.established } else { self.answered }
    }
}
