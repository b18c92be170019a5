//! The frames of a capture file, in memory, which are sent again and again.

use std::sync::Arc;

/// The most bytes of frames that are kept in memory: larger files are for `FromDump`.
const MOST_BYTES: usize = 1 << 30;

/// Frames that one worker sends in turn.
pub(in crate::measure) struct Replay {
    frames: Arc<[Box<[u8]>]>,
    at: usize,
    step: usize,
}

/// Reads all frames of a capture file.
pub(in crate::measure) fn load(hub: &runtime::Hub, path: &str) -> Result<Arc<[Box<[u8]>]>, String> {
    crate::files::engine::frames::read_frames(hub, path, MOST_BYTES).map(Into::into)
}

impl Replay {
    /// The frames of worker `index` of `of`: every `of`-th frame.
    pub(in crate::measure) fn new(frames: Arc<[Box<[u8]>]>, index: usize, of: usize) -> Self {
        Self { frames, at: index, step: of.max(1) }
    }
    /// The number of frames in the file.
    pub(in crate::measure) fn len(&self) -> usize {
        self.frames.len()
    }
    /// Length of the shortest, the longest, and the mean.
    pub(in crate::measure) fn lengths(&self) -> (usize, usize, f64) {
        let lens = || self.frames.iter().map(|f| f.len());
        let mean = lens().sum::<usize>() as f64 / self.len().max(1) as f64;
        (lens().min().unwrap_or(0), lens().max().unwrap_or(0), mean)
    }
    /// The next frame.
    #[inline]
    pub(in crate::measure) fn frame(&self) -> &[u8] {
        self.frames.get(self.at % self.frames.len().max(1)).map_or(&[], |f| f)
    }
    /// Continues with the next frame.
    #[inline]
    pub(in crate::measure) fn advance(&mut self) {
        self.at += self.step;
        if self.at >= self.frames.len() * self.step {
            self.at -= self.frames.len() * self.step;
        }
    }
}
