/* What a device offers; each function is described in nic.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_tm.h>

#include "nic.h"

int valiant_nic_info(uint16_t port, struct valiant_nic_info *info)
{
	struct rte_eth_dev_info dev;
	int status;

	memset(&dev, 0, sizeof(dev));
	memset(info, 0, sizeof(*info));
	status = rte_eth_dev_info_get(port, &dev);
	if (status != 0)
		return status;
	info->max_rx_queues = dev.max_rx_queues;
	info->max_tx_queues = dev.max_tx_queues;
	info->reta_size = dev.reta_size;
	info->min_mtu = dev.min_mtu;
	info->max_mtu = dev.max_mtu;
	info->max_vfs = dev.max_vfs;
	info->max_vmdq_pools = dev.max_vmdq_pools;
	info->min_rx_descriptors = dev.rx_desc_lim.nb_min;
	info->max_rx_descriptors = dev.rx_desc_lim.nb_max;
	info->min_tx_descriptors = dev.tx_desc_lim.nb_min;
	info->max_tx_descriptors = dev.tx_desc_lim.nb_max;
	info->key_size = dev.hash_key_size;
	info->has_security = rte_eth_dev_get_sec_ctx(port) != NULL;
	info->rss_types = dev.flow_type_rss_offloads;
	info->rx_offloads = dev.rx_offload_capa;
	info->tx_offloads = dev.tx_offload_capa;
	info->capabilities = dev.dev_capa;
	info->max_macs = dev.max_mac_addrs;
	info->max_hash_macs = dev.max_hash_mac_addrs;
	info->if_index = dev.if_index;
	if (rte_eth_dev_fw_version_get(port, info->firmware, sizeof(info->firmware)) != 0)
		info->firmware[0] = '\0';
	info->firmware[sizeof(info->firmware) - 1] = '\0';
	return 0;
}

int valiant_rss_get(uint16_t port, uint8_t *key, uint8_t *len, uint64_t *types)
{
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = *len };
	int status = rte_eth_dev_rss_hash_conf_get(port, &conf);

	*len = RTE_MIN(conf.rss_key_len, *len);
	*types = conf.rss_hf;
	return status;
}

int valiant_rss_set(uint16_t port, const uint8_t *key, uint8_t len, uint64_t types)
{
	struct rte_eth_rss_conf conf = {
		.rss_key = (uint8_t *)(uintptr_t)key,
		.rss_key_len = len,
		.rss_hf = types,
	};

	return rte_eth_dev_rss_hash_update(port, &conf);
}

int valiant_vlan_offload(uint16_t port, int which, int on)
{
	int now = rte_eth_dev_get_vlan_offload(port);

	if (now < 0)
		return now;
	return rte_eth_dev_set_vlan_offload(port, on ? now | which : now & ~which);
}

int valiant_mac_add(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_mac_addr_add(port, &address, 0);
}

int valiant_mac_remove(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_mac_addr_remove(port, &address);
}

int valiant_tm_get(uint16_t port, struct valiant_tm *tm)
{
	struct rte_tm_capabilities capabilities;
	struct rte_tm_error error = { 0 };
	int status;

	memset(&capabilities, 0, sizeof(capabilities));
	memset(tm, 0, sizeof(*tm));
	status = rte_tm_capabilities_get(port, &capabilities, &error);
	if (status != 0) {
		snprintf(tm->message, sizeof(tm->message), "%s", error.message != NULL ? error.message : "");
		return status;
	}
	tm->nodes = capabilities.n_nodes_max;
	tm->levels = capabilities.n_levels_max;
	tm->shapers = capabilities.shaper_n_max;
	tm->priorities = capabilities.sched_sp_n_priorities_max;
	tm->weight = capabilities.sched_wfq_weight_max;
	tm->rate_min = capabilities.shaper_private_rate_min;
	tm->rate_max = capabilities.shaper_private_rate_max;
	return 0;
}

int valiant_rate_limit(uint16_t port, uint16_t queue, uint16_t mbps)
{
	return rte_eth_set_queue_rate_limit(port, queue, mbps);
}
