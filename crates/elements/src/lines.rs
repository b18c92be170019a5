//! The output of elements that print packets: lines on a chatter channel, or in a file.

use crate::outfile::NewFile;
use crate::prelude::*;
use lang::args::{Filename, Word};
use locks::IgnorePoison;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The file that all replicas print to, from the moment when the configuration takes effect.
#[derive(Default)]
struct OutFile {
    file: Mutex<Option<File>>,
    /// Whether a replica has opened it.
    opened: AtomicBool,
}

impl OutFile {
    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().ignore_poison()
    }
}

/// The output that the arguments `OUTFILE` and `CHANNEL` request.
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
        path.iter().try_for_each(|path| cx.permits(Outside::Write(path), args))?;
        Ok(Self { path, file: cx.shared(OutFile::default), channel: String::new() })
    }

    /// Reads the `CHANNEL` argument too.
    pub(crate) fn with_channel(mut self, args: &mut Args<'_>) -> Result<Self, ArgError> {
        let channel = args.k::<Word>("CHANNEL")?.map(|w| w.0).filter(|name| name != "default");
        self.channel = channel.unwrap_or_default();
        Ok(self)
    }

    /// Opens the file, if there is one and no other replica has done so. It is changed only when the
    /// configuration takes effect.
    pub(crate) fn open(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        if self.file.opened.load(Ordering::Acquire) {
            return Ok(());
        }
        let new = NewFile::open(cx.hub(), &path).map_err(|e| format!("{path}: {e}"))?;
        self.file.opened.store(true, Ordering::Release);
        let place = Arc::clone(&self.file);
        cx.at_change_over(move || {
            *place.lock() = Some(new.begin().map_err(|e| format!("{path}: {e}"))?);
            Ok(())
        });
        Ok(())
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: String, cx: &Cx<'_>) {
        if self.path.is_none() {
            return cx.hub().chatter_on(&self.channel, &line);
        }
        if let Some(file) = self.file.lock().as_mut() {
            // As in Click, a packet is passed on although its line could not be written, for instance to a
            // full disk.
            let _ = file.write_all((line + "\n").as_bytes());
        }
    }
}
