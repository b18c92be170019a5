//! Where elements that print packets put their lines: a chatter channel, or a file.

use crate::prelude::*;
use lang::args::{Filename, Word};
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that all replicas print to, once it is open.
#[derive(Default)]
struct OutFile(Mutex<Option<File>>);

/// What the `OUTFILE` and `CHANNEL` arguments say.
pub(crate) struct Lines {
    path: Option<String>,
    file: Arc<OutFile>,
    /// Empty for the default channel.
    channel: String,
}

impl Lines {
    /// Reads the `OUTFILE` argument.
    pub(crate) fn from_args(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let path = args.k::<Filename>("OUTFILE")?.map(|f| f.0);
        Ok(Self { path, file: cx.shared(OutFile::default), channel: String::new() })
    }

    /// Reads the `CHANNEL` argument too.
    pub(crate) fn with_channel(mut self, args: &mut Args<'_>) -> Result<Self, ArgError> {
        let channel = args.k::<Word>("CHANNEL")?.map(|w| w.0).filter(|name| name != "default");
        self.channel = channel.unwrap_or_default();
        Ok(self)
    }

    /// Opens the file, if there is one and no other replica has done so.
    pub(crate) fn open(&self) -> Result<(), String> {
        if let Some(path) = &self.path {
            let mut file = self.file.0.lock().unwrap_or_else(PoisonError::into_inner);
            if file.is_none() {
                *file = Some(File::create(path).map_err(|e| format!("{path}: {e}"))?);
            }
        }
        Ok(())
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: String, cx: &Cx<'_>) {
        if self.path.is_none() {
            return cx.hub().chatter_on(&self.channel, &line);
        }
        let mut file = self.file.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut() {
            // As in Click, a full disk does not stop the packet.
            let _ = file.write_all((line + "\n").as_bytes());
        }
    }
}
