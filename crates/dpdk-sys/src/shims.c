/* The shims around DPDK's inline functions. */
#include "shims.h"

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
