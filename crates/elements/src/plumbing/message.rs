//! # Message
//! Prints a message while the configuration is read.
//!
//! ## Synopsis
//! `Message(MESSAGE [, TYPE])`
//!
//! ## Arguments
//! - `MESSAGE` (*string*): what to print.
//! - `TYPE` (`MESSAGE`, `WARNING` or `ERROR`, default `MESSAGE`): a warning says so; an error prevents the
//!   start.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! Message("configuration of host A");
//! ```
//!
//! ## See also
//! Error, ChatterSocket

use crate::prelude::*;
use lang::args::Keyword;

/// The `Message` element.
pub struct Message;

impl Element for Message {
    const CLASS: &'static str = "Message";
    const PORTS: &'static str = "0/0";
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/message");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let message: String = args.mp("MESSAGE")?;
        let kind = args.p::<Keyword>("TYPE")?;
        match kind.as_ref().map_or("MESSAGE", |k| &k.0) {
            "MESSAGE" => cx.tell(message),
            "WARNING" => cx.warn(message),
            "ERROR" => return Err(message.into()),
            _ => return Err("unrecognized message type".into()),
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn an_error_prevents_the_start() {
        assert!(Bench::error("Message(\"no way\", ERROR)").contains("no way"));
        assert!(Bench::error("Message(x, SHOUT)").contains("unrecognized message type"));
    }

    #[test]
    fn others_do_not() {
        let warnings = |declaration: &str| {
            let mut bench = Bench::new(declaration);
            let warnings = bench.router().warnings();
            warnings.render_plain(warnings.sources())
        };
        assert!(warnings("Message(hello)").ends_with("'e :: Message':\n  hello\n"));
        assert!(warnings("Message(careful, WARNING)").contains("careful"));
    }
}
