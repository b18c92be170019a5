//! The contents of packets of sources.

use dpdk::Packet;

/// The contents of a source's packets and the room before them.
pub(crate) struct Payload {
    data: Vec<u8>,
    length: i64,
    headroom: usize,
    bytes: Vec<u8>,
}

/// The default contents of packets: as many bytes as Click's.
const DEFAULT_DATA: &[u8] = b"Valiant made this packet; sixty-nine bytes that nobody needs to read.";

/// No packet is so long; what is longer needs no more memory to be no packet.
const TOO_LONG: usize = dpdk::MAX_BUFFER + 1;

impl Payload {
    /// `data`, cut or repeated to `length` bytes if that is not negative.
    pub(crate) fn new(data: Option<Vec<u8>>, length: i64, headroom: usize) -> Self {
        let mut payload =
            Self { data: data.unwrap_or_else(|| DEFAULT_DATA.to_vec()), length, headroom, bytes: Vec::new() };
        payload.rebuild();
        payload
    }
    fn rebuild(&mut self) {
        self.bytes = match usize::try_from(self.length) {
            Ok(length) if self.data.is_empty() => vec![0; length.min(TOO_LONG)],
            Ok(length) => self.data.iter().copied().cycle().take(length.min(TOO_LONG)).collect(),
            Err(_) => self.data.clone(),
        };
    }
    /// The data as it was given, for handlers.
    pub(crate) fn data(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
    pub(crate) fn set_data(&mut self, data: &[u8]) {
        self.data = data.to_vec();
        self.rebuild();
    }
    /// The length as it was given; negative if it is that of the data.
    pub(crate) fn length(&self) -> i64 {
        self.length
    }
    pub(crate) fn set_length(&mut self, length: i64) {
        self.length = length;
        self.rebuild();
    }
    pub(crate) fn headroom(&self) -> usize {
        self.headroom
    }
    pub(crate) fn set_headroom(&mut self, headroom: usize) {
        self.headroom = headroom;
    }
    /// Bytes in a packet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
    /// A new packet; `None` if there is no memory for it.
    pub(crate) fn packet(&self, timestamp_ns: Option<u64>) -> Option<Packet> {
        let mut packet = Packet::alloc(self.headroom, self.bytes.len())?;
        packet.data_mut().copy_from_slice(&self.bytes);
        if let Some(ns) = timestamp_ns {
            packet.anno_mut().timestamp_ns = ns;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_data_is_as_long_as_clicks() {
        assert_eq!(Payload::new(None, -1, 0).len(), 69);
    }

    #[test]
    fn data_is_cut_or_repeated() {
        let bytes = |length| Payload::new(Some(vec![1, 2, 3]), length, 0).bytes;
        assert_eq!(bytes(-1), [1, 2, 3]);
        assert_eq!(bytes(2), [1, 2]);
        assert_eq!(bytes(5), [1, 2, 3, 1, 2]);
        assert_eq!(Payload::new(Some(vec![]), 2, 0).bytes, [0, 0]);
    }
}
