/*
 * What Rust sees of DPDK: the headers, and shims around DPDK's inline functions (one call per burst) and around its
 * large or version-dependent structures (only what Valiant uses of them, in small ones of ours).
 */
#ifndef VALIANT_SHIMS_H
#define VALIANT_SHIMS_H

#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "crypto.h"
#include "flow.h"
#include "nic.h"

/* The range of ol_flags bits that DPDK leaves to dynamic flags, as bit numbers. */
enum {
	RTE_MBUF_F_FIRST_FREE_BIT = __builtin_ctzll(RTE_MBUF_F_FIRST_FREE),
	RTE_MBUF_F_LAST_FREE_BIT = __builtin_ctzll(RTE_MBUF_F_LAST_FREE),
};

/* The DPDK that this was built against, as RTE_VERSION_NUM makes it. */
enum { RTE_VERSION_NUMBER = RTE_VERSION };

/* --- packets --- */

/* One mbuf with data_off = RTE_PKTMBUF_HEADROOM and no data, or NULL. */
struct rte_mbuf *valiant_alloc(struct rte_mempool *pool);
/* n such mbufs; 0, or a negative errno and none. */
int valiant_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void valiant_free(struct rte_mbuf *mbuf);
void valiant_free_bulk(struct rte_mbuf **mbufs, unsigned int n);
/* Gives what the calling thread's cache holds back to the pool. */
void valiant_pool_flush(struct rte_mempool *pool);

/*
 * A pool of n mbufs with buf_len bytes each, or NULL with rte_errno. A dense one has its mbufs side by side, across the
 * bounds of pages, which is right where addresses for devices are virtual ones (valiant_iova_is_va).
 */
struct rte_mempool *valiant_pool_create(const char *name, unsigned int n, unsigned int cache, uint16_t priv_size,
					uint16_t buf_len, int numa_node, int dense);
int valiant_iova_is_va(void);
/* Pieces of memory that the pool is made of. */
unsigned int valiant_pool_pieces(const struct rte_mempool *pool);
/*
 * The page in which the pool's memory begins, from which AF_XDP counts its frames (DPDK's driver takes it so), the bytes
 * from there to the end of the pool's first piece, and those before the mbuf in each object.
 */
uintptr_t valiant_pool_base(const struct rte_mempool *pool, size_t *len, uint32_t *header_size);

/*
 * Receives up to n packets into mbufs, takes the bits of clear_flags out of their ol_flags, and says in *chained
 * whether any has more than one segment. With clear_flags 0 nobody looks, and *chained is 0.
 */
uint16_t valiant_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t clear_flags,
			  uint16_t *chained);
/* Sends up to n packets; those sent belong to the driver. */
uint16_t valiant_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* Has the driver free what it has sent, as far as it can. */
void valiant_tx_reap(uint16_t port, uint16_t queue);

/* --- the environment --- */

/*
 * Sends DPDK's log, and that of the BPF libraries once they are loaded, line by line to the function, with the level of
 * the message (RTE_LOG_ERR and so on) and the number of its log type, -1 for a BPF library.
 */
typedef void (*valiant_log_fn)(const char *text, size_t len, int level, int type);
int valiant_log_capture(valiant_log_fn log);
/* The name of a log type, as in lib.eal; an empty one for a number that nobody has. */
void valiant_log_type_name(int type, char *name, size_t size);
void valiant_log_capture_bpf(void);
/* Takes the mbuf flag for ourselves: the bit, or a negative value. */
int valiant_reserve_mbuf_flag(const char *name, unsigned int bit);
/* rte_errno of this thread. */
int valiant_errno(void);

/* --- ports --- */

struct valiant_port_info {
	char driver[64];
	char name[RTE_ETH_NAME_MAX_LEN];
	uint8_t mac[6];
	int numa_node;
	unsigned int if_index;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint16_t max_mtu;
	uint64_t rx_offloads, tx_offloads, rss_types;
	uint16_t reta_size; /* entries of the indirection table of RSS; 0: it cannot be changed */
	uint8_t rss_key_size;
	uint8_t has_lsc, has_rmv;
};

struct valiant_port_config {
	uint16_t rx_queues, tx_queues;
	uint32_t mtu; /* 0: the driver's own */
	uint64_t rx_offloads, tx_offloads, rss_types;
	const uint8_t *rss_key; /* may be NULL */
	uint8_t rss_key_len;
	uint8_t lsc, rmv, rx_interrupts;
};

struct valiant_link {
	uint32_t speed_mbps; /* 0: none, UINT32_MAX: unknown */
	uint8_t up, full_duplex, autoneg;
};

enum {
	VALIANT_EVENT_LINK = 0,
	VALIANT_EVENT_REMOVED = 1,
	VALIANT_EVENT_RESET = 2,
};

static const uint64_t VALIANT_RX_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t VALIANT_RX_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;
static const uint64_t VALIANT_MBUF_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH;
static const uint64_t VALIANT_TX_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
static const uint64_t VALIANT_TX_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

static const uint64_t VALIANT_RSS_TYPES = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;

typedef void (*valiant_event_fn)(uint16_t port, int event);

int valiant_port_info(uint16_t port, struct valiant_port_info *info);
/* The first port of the device that the devargs name; negative: none. */
int valiant_port_of(const char *devargs);
/* The indirection table of RSS, all entries of it; -ENOSPC: it is longer than any that is known. */
int valiant_reta_get(uint16_t port, uint16_t *queues, uint16_t size);
int valiant_reta_set(uint16_t port, const uint16_t *queues, uint16_t size);
/* The key of RSS, of the length that the driver has. */
int valiant_rss_key_get(uint16_t port, uint8_t *key, uint8_t length);
int valiant_rss_key_set(uint16_t port, const uint8_t *key, uint8_t length);
int valiant_port_configure(uint16_t port, const struct valiant_port_config *config);
int valiant_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, int numa_node,
			   struct rte_mempool *pool);
int valiant_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, int numa_node);
/* Rounds the descriptor counts to what the driver takes. */
int valiant_adjust_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx);
int valiant_port_watch(uint16_t port, valiant_event_fn event);
void valiant_port_unwatch(uint16_t port);
/* Has `removal` called with the name of each device that the kernel wants back, because it is unplugged; 0, or a negative errno. */
typedef void (*valiant_removal_fn)(const char *device);
int valiant_watch_removals(valiant_removal_fn removal);
int valiant_port_link(uint16_t port, struct valiant_link *link);
/* A file descriptor that becomes readable when the queue, with its interrupt on, has packets; negative: none. */
int valiant_rx_fd(uint16_t port, uint16_t queue);
int valiant_rx_interrupt(uint16_t port, uint16_t queue, int on);

#endif
