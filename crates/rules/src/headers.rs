//! The fields of a packet.
