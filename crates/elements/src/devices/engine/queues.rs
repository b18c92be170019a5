//! The queues of a port that an element uses.

use crate::prelude::*;

/// Receive or transmit queues.
pub(in crate::devices) enum Queues {
    /// One for each worker, but at most this many.
    Any(u16),
    /// A first queue, and the number of queues from there on.
    From(u16, u16),
}

impl Queues {
    /// Reads the keyword `QUEUE`: a single queue.
    pub(in crate::devices) fn one(args: &mut Args<'_>) -> Result<Self, ArgError> {
        Ok(args.k::<u16>("QUEUE")?.map_or(Self::Any(u16::MAX), |queue| Self::From(queue, 1)))
    }

    /// Reads `QUEUE` and `N_QUEUES` as FastClick does: by position, and a negative number is no limit.
    pub(in crate::devices) fn range(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let first = args.p::<i32>("QUEUE")?.and_then(|q| u16::try_from(q).ok());
        let number = args.p::<i32>("N_QUEUES")?.and_then(|q| u16::try_from(q).ok());
        Ok(match first {
            Some(first) => Self::From(first, number.unwrap_or(1).max(1)),
            None => Self::Any(number.unwrap_or(u16::MAX)),
        })
    }

    /// Reads FastClick's `MAXTHREADS`: queues without specific numbers are at most so many, as each is used
    /// by another worker.
    pub(in crate::devices) fn limited(self, args: &mut Args<'_>) -> Result<Self, ArgError> {
        let most = args.k::<i32>("MAXTHREADS")?.and_then(|n| u16::try_from(n).ok()).unwrap_or(u16::MAX);
        Ok(match self {
            Self::Any(n) => Self::Any(n.min(most)),
            numbered => numbered,
        })
    }

    /// The number of queues without specific numbers that a router with this many workers requests, and the
    /// specific numbers.
    pub(super) fn requested(&self, workers: usize) -> (u16, Vec<u16>) {
        match *self {
            Self::Any(most) => (most.clamp(1, workers.min(usize::from(u16::MAX)) as u16), Vec::new()),
            Self::From(first, n) => (0, (0..n).map_while(|i| first.checked_add(i)).collect()),
        }
    }
}
