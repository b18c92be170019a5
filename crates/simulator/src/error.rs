//! Errors in the parameters of a simulation.

use cluster::Error;

/// What cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The load balancer refuses its configuration.
    #[error(transparent)]
    Policy(#[from] Error),
    /// Any other error.
    #[error("{0}")]
    Bad(String),
}

pub(crate) fn bad<T>(message: String) -> Result<T, SimError> {
    Err(SimError::Bad(message))
}
