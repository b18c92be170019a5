//! Packet headers as zero-copy views, and Internet checksums
#![forbid(unsafe_code)]
