//! Files for tests.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file that is removed at the end.
pub(in crate::files) struct TestFile(PathBuf);

impl TestFile {
    pub(in crate::files) fn new(bytes: &[u8]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("valiant-files-{}-{n}", std::process::id()));
        std::fs::write(&path, bytes).expect("a file");
        Self(path)
    }
    pub(in crate::files) fn read(&self) -> Vec<u8> {
        std::fs::read(&self.0).expect("a file")
    }
}

impl fmt::Display for TestFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}
