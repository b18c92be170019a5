//! From the errors of the library to those of this crate.

use crate::Error;
use crate::error::reason;
use std::error::Error as StdError;
use std::io;
use tokio_rustls::rustls;
use tonic::Code;

/// The cause of a request that got no answer.
#[derive(Debug)]
pub(crate) enum Cause {
    /// TLS failed.
    Tls(rustls::Error),
    /// No connection was established in time.
    Slow,
    /// No connection could be established.
    Away(String),
    /// The connection ended unexpectedly.
    Broken(String),
    /// The server does not speak HTTP/2.
    Foreign(String),
}

/// Finds the innermost error that explains the failure.
pub(crate) fn cause(error: &(dyn StdError + 'static)) -> Cause {
    let mut last = error;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(e) = error.downcast_ref::<rustls::Error>() {
            return Cause::Tls(e.clone());
        }
        if let Some(e) = error.downcast_ref::<io::Error>() {
            return cause_of_io(e);
        }
        if let Some(e) = error.downcast_ref::<h2::Error>() {
            return match e.get_io() {
                Some(io) => cause_of_io(io),
                None if e.is_remote() => Cause::Broken(e.to_string()),
                None => Cause::Foreign(e.to_string()),
            };
        }
        (last, next) = (error, error.source());
    }
    Cause::Broken(last.to_string())
}

fn cause_of_io(error: &io::Error) -> Cause {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, TimedOut, UnexpectedEof,
    };
    if let Some(e) = tls_error(error) {
        return Cause::Tls(e.clone());
    }
    match error.kind() {
        TimedOut => Cause::Slow,
        // HTTP/2 reports an error of TLS as invalid data, with its text only.
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof | InvalidData => {
            Cause::Broken(reason(error))
        }
        _ if error.to_string().contains("failed to lookup address") => Cause::Away("no such host".into()),
        _ => Cause::Away(reason(error)),
    }
}

/// The error of TLS, if it is the cause.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The error for a request that etcd refused.
pub(crate) fn refusal(endpoint: String, code: Code, message: &str) -> Error {
    let message = message.to_owned();
    match code {
        Code::ResourceExhausted if message.contains("space exceeded") => Error::Full { endpoint },
        Code::OutOfRange if message.contains("compacted") => Error::Compacted { revision: 0 },
        Code::NotFound if message.contains("lease") => Error::LeaseGone,
        // The answer of HTTP/2 servers that are not etcd.
        Code::Unimplemented => Error::Foreign { endpoint, why: message },
        _ if message.contains("grpc-status header missing") => Error::Foreign { endpoint, why: message },
        Code::Unavailable => Error::NoLeader { endpoint, message },
        _ if message.contains("user name is empty") => {
            Error::Unwelcome { endpoint, why: "it asks for a user: give user and password_file".into() }
        }
        code => Error::Refused { endpoint, message, code: code as i32 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refusals_mean() {
        let refused = |code, text| refusal("http://e:1".into(), code, text);
        let full = "etcdserver: mvcc: database space exceeded";
        assert!(matches!(refused(Code::ResourceExhausted, full), Error::Full { .. }));
        assert!(matches!(
            refused(Code::ResourceExhausted, "etcdserver: too many requests"),
            Error::Refused { code: 8, .. }
        ));
        assert_eq!(refused(Code::NotFound, "etcdserver: requested lease not found"), Error::LeaseGone);
        let alone = refused(Code::Unavailable, "etcdserver: no leader");
        assert!(matches!(alone, Error::NoLeader { message, .. } if message.ends_with("no leader")));
        assert!(matches!(refused(Code::Unimplemented, "unknown service"), Error::Foreign { .. }));
    }

    #[test]
    fn what_is_behind_an_error_is_found() {
        let io = |kind: io::ErrorKind| cause(&io::Error::from(kind));
        assert!(
            matches!(io(io::ErrorKind::ConnectionRefused), Cause::Away(why) if why == "connection refused")
        );
        assert!(matches!(io(io::ErrorKind::ConnectionReset), Cause::Broken(_)));
        assert!(matches!(io(io::ErrorKind::TimedOut), Cause::Slow));
        let tls = io::Error::other(rustls::Error::HandshakeNotComplete);
        assert!(matches!(cause(&tls), Cause::Tls(rustls::Error::HandshakeNotComplete)));
        let http = h2::Error::from(h2::Reason::PROTOCOL_ERROR);
        assert!(matches!(cause(&http), Cause::Foreign(_)));
    }
}
