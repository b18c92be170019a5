/* What a device offers beside packets: its own words, and the calls that change it while it runs. */
#ifndef VALIANT_NIC_H
#define VALIANT_NIC_H

#include <stdint.h>

struct valiant_nic_info {
	uint16_t max_rx_queues, max_tx_queues, reta_size, min_mtu, max_mtu, max_vfs, max_vmdq_pools;
	uint16_t min_rx_descriptors, max_rx_descriptors, min_tx_descriptors, max_tx_descriptors;
	uint8_t key_size, has_security;
	uint64_t rss_types, rx_offloads, tx_offloads, capabilities;
	uint32_t max_macs, max_hash_macs, if_index;
	char firmware[64];
};

struct valiant_tm {
	uint32_t nodes, levels, shapers, priorities, weight;
	uint64_t rate_min, rate_max; /* bytes a second */
	char message[160];
};

static const uint64_t VALIANT_CAPA_FLOW_KEEP = RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP;
static const uint64_t VALIANT_RX_SECURITY = RTE_ETH_RX_OFFLOAD_SECURITY;
static const uint64_t VALIANT_TX_SECURITY = RTE_ETH_TX_OFFLOAD_SECURITY;
static const uint64_t VALIANT_RX_VLAN_STRIP = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
static const uint64_t VALIANT_RX_VLAN_FILTER = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
static const int VALIANT_VLAN_STRIP = RTE_ETH_VLAN_STRIP_OFFLOAD;
static const int VALIANT_VLAN_FILTER = RTE_ETH_VLAN_FILTER_OFFLOAD;

/* All return 0, or a negative errno. */
int valiant_nic_info(uint16_t port, struct valiant_nic_info *info);
/* The key of the hash, of at most *len bytes, and what is hashed. */
int valiant_rss_get(uint16_t port, uint8_t *key, uint8_t *len, uint64_t *types);
int valiant_rss_set(uint16_t port, const uint8_t *key, uint8_t len, uint64_t types);
/* One of VALIANT_VLAN_, on or off; the others stay. */
int valiant_vlan_offload(uint16_t port, int which, int on);
int valiant_mac_add(uint16_t port, const uint8_t *mac);
int valiant_mac_remove(uint16_t port, const uint8_t *mac);
int valiant_tm_get(uint16_t port, struct valiant_tm *tm);
int valiant_rate_limit(uint16_t port, uint16_t queue, uint16_t mbps);

#endif
