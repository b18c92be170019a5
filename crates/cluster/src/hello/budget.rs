//! A limit of authentication codes that are checked per time.

use super::settings::Settings;

/// Frames of the largest size whose codes are checked per hello interval, and at once after a pause,
pub(super) const TAGS: (u64, u64) = (64, 256);
/// and of frames that are not of the present session.
pub(super) const OTHER_TAGS: (u64, u64) = (16, 32);

/// How many bytes of frames are checked per time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagBudget {
    bytes: u64,
    at_ns: u64,
}

impl TagBudget {
    /// A full one.
    pub(super) const fn new(now_ns: u64) -> Self {
        Self { bytes: u64::MAX, at_ns: now_ns }
    }
    /// Takes this many bytes, if the limit allows it: `often` of the longest frames per hello interval, and
    /// `most` of them at once. Returns whether it does.
    pub(super) fn take(
        &mut self,
        now_ns: u64,
        bytes: u16,
        (often, most): (u64, u64),
        settings: &Settings,
    ) -> bool {
        let longest = u64::from(settings.frame_bytes);
        let passed = now_ns.saturating_sub(self.at_ns);
        let more = passed.saturating_mul(often * longest) / settings.hello_ns.max(1);
        if more > 0 {
            self.at_ns = now_ns;
        }
        self.bytes = self.bytes.saturating_add(more).min(most * longest);
        let left = self.bytes.checked_sub(bytes.into());
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}
