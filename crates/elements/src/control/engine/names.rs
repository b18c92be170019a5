//! Code that the elements that define names share.

use crate::prelude::*;
use lang::args::Arg;
use runtime::NameDb;

/// Defines the names in an information element's arguments, in its scope; all errors are collected.
pub(in crate::control) fn define(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    one: fn(&mut NameDb, &Arg) -> Result<(), Vec<String>>,
) -> Result<(), ArgError> {
    let mut failed = None;
    let name = cx.name().to_owned();
    for arg in args.rest_args() {
        if let Err(messages) = cx.names().within(&name, |db| one(db, &arg)) {
            for message in messages {
                failed = Some(args.error_at(&arg, message));
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
