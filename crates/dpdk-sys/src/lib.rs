//! Raw DPDK bindings and the C shims around its inline functions

