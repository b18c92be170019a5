//! What cannot be simulated.

use cluster::Error;

/// What cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The policy refuses it.
    #[error(transparent)]
    Policy(#[from] Error),
    /// A matrix that is none.
    #[error("{0}")]
    Matrix(String),
    /// Something else.
    #[error("{0}")]
    Bad(String),
}

pub(crate) fn bad<T>(message: String) -> Result<T, SimError> {
    Err(SimError::Bad(message))
}
