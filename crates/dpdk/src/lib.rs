//! The safe door to DPDK: environment, ports, queues, packets

