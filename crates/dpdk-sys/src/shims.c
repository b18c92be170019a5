/* The shims; each is described in shims.h. */
#define _GNU_SOURCE
#include "shims.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- packets --- */

struct rte_mbuf *valiant_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int valiant_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void valiant_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void valiant_free_bulk(struct rte_mbuf **mbufs, unsigned int n)
{
	rte_pktmbuf_free_bulk(mbufs, n);
}

void valiant_pool_flush(struct rte_mempool *pool)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());

	if (cache != NULL)
		rte_mempool_cache_flush(cache, pool);
}

/* Writes an object's address for devices, which is its own address. */
static void set_virtual_iova(struct rte_mempool *pool, void *opaque, void *object, unsigned int number)
{
	(void)pool;
	(void)opaque;
	(void)number;
	rte_mempool_get_header(object)->iova = (rte_iova_t)(uintptr_t)object;
}

/*
 * DPDK gives objects that may lie across the bounds of pages no addresses for devices: where these are physical, there are
 * none. Virtual ones are known.
 */
static void use_virtual_iova(struct rte_mempool *pool)
{
	struct rte_mempool_memhdr *memory;

	STAILQ_FOREACH(memory, &pool->mem_list, next)
		memory->iova = (rte_iova_t)(uintptr_t)memory->addr;
	rte_mempool_obj_iter(pool, set_virtual_iova, NULL);
	pool->flags &= ~RTE_MEMPOOL_F_NON_IO;
}

struct rte_mempool *valiant_pool_create(const char *name, unsigned int n, unsigned int cache, uint16_t priv_size,
					uint16_t buf_len, int numa_node, int dense)
{
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size = buf_len,
		.mbuf_priv_size = priv_size,
	};
	unsigned int size = sizeof(struct rte_mbuf) + priv_size + buf_len;
	unsigned int flags = dense ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
	struct rte_mempool *pool;
	int status;

	pool = rte_mempool_create_empty(name, n, size, cache, sizeof(private), numa_node, flags);
	if (pool == NULL)
		return NULL;
	status = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL);
	if (status == 0) {
		rte_pktmbuf_pool_init(pool, &private);
		status = rte_mempool_populate_default(pool);
	}
	if (status < 0) {
		rte_mempool_free(pool);
		rte_errno = -status;
		return NULL;
	}
	if (dense)
		use_virtual_iova(pool);
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

int valiant_iova_is_va(void)
{
	return rte_eal_iova_mode() == RTE_IOVA_VA;
}

unsigned int valiant_pool_pieces(const struct rte_mempool *pool)
{
	return pool->nb_mem_chunks;
}

uintptr_t valiant_pool_base(const struct rte_mempool *pool, size_t *len, uint32_t *header_size)
{
	const struct rte_mempool_memhdr *memory = STAILQ_FIRST(&pool->mem_list);
	uintptr_t base;

	if (memory == NULL)
		return 0;
	base = RTE_ALIGN_FLOOR((uintptr_t)memory->addr, (uintptr_t)getpagesize());
	*len = (uintptr_t)memory->addr + memory->len - base;
	*header_size = pool->header_size;
	return base;
}

uint16_t valiant_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t clear_flags,
			  uint16_t *chained)
{
	uint16_t received = rte_eth_rx_burst(port, queue, mbufs, n);
	uint16_t segments = 0;
	uint64_t flags = 0;

	*chained = 0;
	if (clear_flags == 0)
		return received;
	/* Without a branch for each packet: few drivers leave the flags that another owner has set. */
	for (uint16_t i = 0; i < received; i++) {
		flags |= mbufs[i]->ol_flags;
		segments |= mbufs[i]->nb_segs;
	}
	if (unlikely(flags & clear_flags)) {
		for (uint16_t i = 0; i < received; i++)
			mbufs[i]->ol_flags &= ~clear_flags;
	}
	*chained = segments > 1;
	return received;
}

uint16_t valiant_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

void valiant_tx_reap(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *none = NULL;

	/* Drivers without this function look for what has been sent whenever they are given something to send. */
	if (rte_eth_tx_done_cleanup(port, queue, 0) < 0)
		rte_eth_tx_burst(port, queue, &none, 0);
}

/* --- the environment --- */

static valiant_log_fn log_fn;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	if (log_fn != NULL)
		log_fn(text, len, rte_log_cur_msg_loglevel(), rte_log_cur_msg_logtype());
	return (ssize_t)len;
}

int valiant_log_capture(valiant_log_fn log)
{
	cookie_io_functions_t io = { .write = log_write };
	FILE *stream = fopencookie(NULL, "w", io);

	if (stream == NULL)
		return -1;
	setvbuf(stream, NULL, _IOLBF, 512);
	log_fn = log;
	return rte_openlog_stream(stream);
}

void valiant_log_type_name(int type, char *name, size_t size)
{
	char *text = NULL, *line, *rest;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	name[0] = '\0';
	if (stream == NULL)
		return;
	/* DPDK gives the names in no other way: lines such as "id 0: lib.eal, level is info". */
	rte_log_dump(stream);
	fclose(stream);
	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		int id, start = 0;

		if (sscanf(line, "id %d: %n", &id, &start) == 1 && id == type && start > 0) {
			snprintf(name, size, "%.*s", (int)strcspn(line + start, ","), line + start);
			break;
		}
	}
	free(text);
}

static int log_bpf(int level, const char *format, va_list args)
{
	char text[512];
	int len;

	/* 0 warns, 1 informs, 2 debugs, in libbpf and in libxdp. */
	if (level > 1)
		return 0;
	len = vsnprintf(text, sizeof(text), format, args);
	if (len > 0 && log_fn != NULL)
		log_fn(text, RTE_MIN((size_t)len, sizeof(text) - 1), level == 0 ? RTE_LOG_WARNING : RTE_LOG_INFO, -1);
	return len;
}

void valiant_log_capture_bpf(void)
{
	static const char *const libraries[][2] = {
		{ "libbpf.so.1", "libbpf_set_print" },
		{ "libbpf.so.0", "libbpf_set_print" },
		{ "libxdp.so.1", "libxdp_set_print" },
	};

	for (size_t i = 0; i < RTE_DIM(libraries); i++) {
		void *library = dlopen(libraries[i][0], RTLD_NOW | RTLD_NOLOAD);
		void *(*set_print)(int (*)(int, const char *, va_list));

		if (library == NULL)
			continue;
		*(void **)&set_print = dlsym(library, libraries[i][1]);
		if (set_print != NULL)
			set_print(log_bpf);
		dlclose(library);
	}
}

int valiant_reserve_mbuf_flag(const char *name, unsigned int bit)
{
	struct rte_mbuf_dynflag flag = { .flags = 0 };

	snprintf(flag.name, sizeof(flag.name), "%s", name);
	return rte_mbuf_dynflag_register_bitnum(&flag, bit);
}

int valiant_errno(void)
{
	return rte_errno;
}

/* --- ports --- */

int valiant_port_info(uint16_t port, struct valiant_port_info *info)
{
	struct rte_eth_dev_info dev;
	struct rte_ether_addr mac = { { 0 } };
	int status;

	memset(&dev, 0, sizeof(dev));
	status = rte_eth_dev_info_get(port, &dev);
	if (status != 0)
		return status;
	memset(info, 0, sizeof(*info));
	snprintf(info->driver, sizeof(info->driver), "%s", dev.driver_name != NULL ? dev.driver_name : "");
	rte_eth_dev_get_name_by_port(port, info->name);
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	info->numa_node = rte_eth_dev_socket_id(port);
	info->if_index = dev.if_index;
	info->max_rx_queues = dev.max_rx_queues;
	info->max_tx_queues = dev.max_tx_queues;
	info->max_mtu = dev.max_mtu;
	info->rx_offloads = dev.rx_offload_capa;
	info->tx_offloads = dev.tx_offload_capa;
	info->rss_types = dev.flow_type_rss_offloads;
	info->reta_size = dev.reta_size;
	info->rss_key_size = dev.hash_key_size;
	info->has_lsc = dev.dev_flags != NULL && (*dev.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	info->has_rmv = dev.dev_flags != NULL && (*dev.dev_flags & RTE_ETH_DEV_INTR_RMV) != 0;
	return 0;
}

int valiant_port_of(const char *devargs)
{
	struct rte_dev_iterator iterator;
	uint16_t port;
	int found = -1;

	RTE_ETH_FOREACH_MATCHING_DEV(port, devargs, &iterator) {
		if (found < 0)
			found = port;
	}
	return found;
}

/* The longest table that DPDK's drivers have (ice). */
#define RETA_GROUPS (2048 / RTE_ETH_RETA_GROUP_SIZE)

int valiant_reta_get(uint16_t port, uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 groups[RETA_GROUPS];
	int status;

	if (size > RETA_GROUPS * RTE_ETH_RETA_GROUP_SIZE)
		return -ENOSPC;
	memset(groups, 0, sizeof(groups));
	for (int i = 0; i < RETA_GROUPS; i++)
		groups[i].mask = UINT64_MAX;
	status = rte_eth_dev_rss_reta_query(port, groups, size);
	for (int i = 0; status == 0 && i < size; i++)
		queues[i] = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return status;
}

int valiant_reta_set(uint16_t port, const uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 groups[RETA_GROUPS];

	if (size > RETA_GROUPS * RTE_ETH_RETA_GROUP_SIZE)
		return -ENOSPC;
	memset(groups, 0, sizeof(groups));
	for (int i = 0; i < size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];

		group->mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = queues[i];
	}
	return rte_eth_dev_rss_reta_update(port, groups, size);
}

int valiant_rss_key_get(uint16_t port, uint8_t *key, uint8_t length)
{
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = length };

	return rte_eth_dev_rss_hash_conf_get(port, &conf);
}

int valiant_rss_key_set(uint16_t port, const uint8_t *key, uint8_t length)
{
	struct rte_eth_rss_conf conf = { .rss_key = NULL };
	int status = rte_eth_dev_rss_hash_conf_get(port, &conf);

	if (status != 0)
		return status;
	/* What is hashed stays as it is. */
	conf.rss_key = (uint8_t *)(uintptr_t)key;
	conf.rss_key_len = length;
	return rte_eth_dev_rss_hash_update(port, &conf);
}

int valiant_port_configure(uint16_t port, const struct valiant_port_config *config)
{
	struct rte_eth_conf conf;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = config->mtu;
	conf.rxmode.offloads = config->rx_offloads;
	conf.txmode.offloads = config->tx_offloads;
	conf.intr_conf.lsc = config->lsc;
	conf.intr_conf.rmv = config->rmv;
	conf.intr_conf.rxq = config->rx_interrupts;
	if (config->rss_types != 0 && config->rx_queues > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = config->rss_types;
		conf.rx_adv_conf.rss_conf.rss_key = (uint8_t *)(uintptr_t)config->rss_key;
		conf.rx_adv_conf.rss_conf.rss_key_len = config->rss_key_len;
	}
	return rte_eth_dev_configure(port, config->rx_queues, config->tx_queues, &conf);
}

int valiant_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, int numa_node,
			   struct rte_mempool *pool)
{
	return rte_eth_rx_queue_setup(port, queue, descriptors, (unsigned int)numa_node, NULL, pool);
}

int valiant_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, int numa_node)
{
	struct rte_eth_dev_info dev;
	struct rte_eth_conf conf;
	int status = rte_eth_dev_info_get(port, &dev);

	if (status != 0)
		return status;
	/* A queue has the offloads that the port was configured with. */
	if (rte_eth_dev_conf_get(port, &conf) == 0)
		dev.default_txconf.offloads = conf.txmode.offloads;
	return rte_eth_tx_queue_setup(port, queue, descriptors, (unsigned int)numa_node, &dev.default_txconf);
}

int valiant_adjust_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx)
{
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx, tx);
}

static int on_event(uint16_t port, enum rte_eth_event_type type, void *arg, void *result)
{
	valiant_event_fn event = (valiant_event_fn)(uintptr_t)arg;

	(void)result;
	switch (type) {
	case RTE_ETH_EVENT_INTR_LSC:
		event(port, VALIANT_EVENT_LINK);
		break;
	case RTE_ETH_EVENT_INTR_RMV:
		event(port, VALIANT_EVENT_REMOVED);
		break;
	case RTE_ETH_EVENT_INTR_RESET:
		event(port, VALIANT_EVENT_RESET);
		break;
	default:
		break;
	}
	return 0;
}

static const enum rte_eth_event_type events[] = {
	RTE_ETH_EVENT_INTR_LSC,
	RTE_ETH_EVENT_INTR_RMV,
	RTE_ETH_EVENT_INTR_RESET,
};

int valiant_port_watch(uint16_t port, valiant_event_fn event)
{
	for (size_t i = 0; i < RTE_DIM(events); i++) {
		int status = rte_eth_dev_callback_register(port, events[i], on_event, (void *)(uintptr_t)event);

		if (status != 0)
			return status;
	}
	return 0;
}

void valiant_port_unwatch(uint16_t port)
{
	for (size_t i = 0; i < RTE_DIM(events); i++)
		rte_eth_dev_callback_unregister(port, events[i], on_event, (void *)(uintptr_t)-1);
}

static void on_device_event(const char *device, enum rte_dev_event_type type, void *arg)
{
	valiant_removal_fn removal = (valiant_removal_fn)(uintptr_t)arg;

	if (type == RTE_DEV_EVENT_REMOVE)
		removal(device);
}

int valiant_watch_removals(valiant_removal_fn removal)
{
	return rte_dev_event_callback_register(NULL, on_device_event, (void *)(uintptr_t)removal);
}

int valiant_port_link(uint16_t port, struct valiant_link *link)
{
	struct rte_eth_link dev;
	int status;

	memset(&dev, 0, sizeof(dev));
	status = rte_eth_link_get_nowait(port, &dev);
	if (status != 0)
		return status;
	link->speed_mbps = dev.link_speed;
	link->up = dev.link_status == RTE_ETH_LINK_UP;
	link->full_duplex = dev.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	link->autoneg = dev.link_autoneg == RTE_ETH_LINK_AUTONEG;
	return 0;
}

int valiant_rx_fd(uint16_t port, uint16_t queue)
{
	return rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int valiant_rx_interrupt(uint16_t port, uint16_t queue, int on)
{
	return on ? rte_eth_dev_rx_intr_enable(port, queue) : rte_eth_dev_rx_intr_disable(port, queue);
}
