//! The contents of packets of sources.

use dpdk::Packet;

/// The contents of a source's packets, and the headroom.
pub(crate) struct Payload {
    data: Vec<u8>,
    length: i64,
    headroom: usize,
    bytes: Vec<u8>,
}

/// The default contents of packets: as many bytes as Click's.
const DEFAULT_DATA: &[u8] = b"Valiant made this packet; sixty-nine bytes that nobody needs to read.";

impl Payload {
    /// `data`, cut or repeated to `length` bytes if that is not negative.
    ///
    /// # Errors
    /// The packet would be too long.
    pub(crate) fn new(data: Option<Vec<u8>>, length: i64, headroom: usize) -> Result<Self, String> {
        let data = data.unwrap_or_else(|| DEFAULT_DATA.to_vec());
        Ok(Self { bytes: contents(&data, length)?, data, length, headroom })
    }
    /// The data as it was given, for handlers.
    pub(crate) fn data(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
    /// Errors: as `new`; nothing has changed then.
    pub(crate) fn set_data(&mut self, data: &[u8]) -> Result<(), String> {
        self.bytes = contents(data, self.length)?;
        self.data = data.to_vec();
        Ok(())
    }
    /// The length as it was given; negative if it is that of the data.
    pub(crate) fn length(&self) -> i64 {
        self.length
    }
    /// Errors: as `new`; nothing has changed then.
    pub(crate) fn set_length(&mut self, length: i64) -> Result<(), String> {
        self.bytes = contents(&self.data, length)?;
        self.length = length;
        Ok(())
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
            packet.set_timestamp_ns(ns);
        }
        Some(packet)
    }
}

/// `data`, cut or repeated to `length` bytes if that is not negative.
fn contents(data: &[u8], length: i64) -> Result<Vec<u8>, String> {
    let bytes = usize::try_from(length).unwrap_or(data.len());
    if bytes > dpdk::MAX_BUFFER {
        return Err(format!("a packet holds at most {} bytes, not {bytes}", dpdk::MAX_BUFFER));
    }
    Ok(match length {
        ..0 => data.to_vec(),
        _ if data.is_empty() => vec![0; bytes],
        _ => data.iter().copied().cycle().take(bytes).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_data_is_as_long_as_clicks() {
        assert_eq!(Payload::new(None, -1, 0).unwrap().len(), 69);
    }

    #[test]
    fn data_is_cut_or_repeated() {
        let bytes = |length| Payload::new(Some(vec![1, 2, 3]), length, 0).unwrap().bytes;
        assert_eq!(bytes(-1), [1, 2, 3]);
        assert_eq!(bytes(2), [1, 2]);
        assert_eq!(bytes(5), [1, 2, 3, 1, 2]);
        assert_eq!(Payload::new(Some(vec![]), 2, 0).unwrap().bytes, [0, 0]);
    }

    #[test]
    fn what_no_packet_holds_is_refused_and_changes_nothing() {
        let long = vec![1; 65_536];
        assert_eq!(Payload::new(None, 65_535, 0).unwrap().packet(None).unwrap().len(), 65_535);
        for (data, length) in [(None, 65_536), (None, i64::from(i32::MAX)), (Some(long.clone()), -1)] {
            let why = Payload::new(data, length, 0).err().unwrap();
            assert!(why.starts_with("a packet holds at most 65535 bytes, not "), "{why}");
        }
        assert_eq!(Payload::new(Some(long.clone()), 10, 0).unwrap().len(), 10);
        let mut payload = Payload::new(None, -1, 0).unwrap();
        assert!(payload.set_length(65_536).is_err());
        assert!(payload.set_data(&long).is_err());
        assert_eq!((payload.length(), payload.data().len(), payload.len()), (-1, 69, 69));
    }
}
