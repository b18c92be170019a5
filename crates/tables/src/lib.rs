//! Route lookup, flow tables and hashing

