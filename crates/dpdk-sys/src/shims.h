/* What Rust sees of DPDK: the headers, and the shims around DPDK's inline functions (one call per burst). */
#ifndef VALIANT_SHIMS_H
#define VALIANT_SHIMS_H

#include <stdint.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>

/* The range of ol_flags bits that DPDK leaves to dynamic flags, as bit numbers. */
enum {
	RTE_MBUF_F_FIRST_FREE_BIT = __builtin_ctzll(RTE_MBUF_F_FIRST_FREE),
	RTE_MBUF_F_LAST_FREE_BIT = __builtin_ctzll(RTE_MBUF_F_LAST_FREE),
};

/* One mbuf with data_off = RTE_PKTMBUF_HEADROOM and no data, or NULL. */
struct rte_mbuf *valiant_alloc(struct rte_mempool *pool);
/* n such mbufs; 0, or a negative errno and none. */
int valiant_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void valiant_free(struct rte_mbuf *mbuf);
void valiant_free_bulk(struct rte_mbuf **mbufs, unsigned int n);

#endif
