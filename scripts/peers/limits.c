/*
 * What DPDK's examples need to run here with their sources as they are: linked in with --wrap, these take the place of
 * seven library functions.
 *
 * The examples ask every port for receive checksum offload and stop where it is missing, as it is on virtual devices; and
 * l3fwd's route tables hold 1024 routes (LPM) or 65,536 (FIB), those for IPv6 likewise. Here ports claim that offload and are then configured with what
 * they have, and tables are made for two million routes. Nothing on the way of a packet changes.
 */
#include <rte_ethdev.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>

#define ROUTES (2u << 20)
#define GROUPS (1u << 16)
#define ROUTES6 (1u << 19)
#define GROUPS6 (1u << 19)

int __real_rte_eth_dev_info_get(uint16_t, struct rte_eth_dev_info *);
int __real_rte_eth_dev_configure(uint16_t, uint16_t, uint16_t, const struct rte_eth_conf *);
int __real_rte_eth_rx_queue_setup(uint16_t, uint16_t, uint16_t, unsigned int, const struct rte_eth_rxconf *,
		struct rte_mempool *);
struct rte_lpm *__real_rte_lpm_create(const char *, int, const struct rte_lpm_config *);
struct rte_fib *__real_rte_fib_create(const char *, int, struct rte_fib_conf *);
struct rte_lpm6 *__real_rte_lpm6_create(const char *, int, const struct rte_lpm6_config *);
struct rte_fib6 *__real_rte_fib6_create(const char *, int, struct rte_fib6_conf *);

int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int failed = __real_rte_eth_dev_info_get(port, info);

	if (!failed)
		info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_CHECKSUM;
	return failed;
}

int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *wanted)
{
	struct rte_eth_conf conf = *wanted;
	struct rte_eth_dev_info info;

	if (__real_rte_eth_dev_info_get(port, &info) == 0) {
		conf.rxmode.offloads &= info.rx_offload_capa;
		conf.txmode.offloads &= info.tx_offload_capa;
	}
	return __real_rte_eth_dev_configure(port, rx, tx, &conf);
}

int __wrap_rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned int socket,
		const struct rte_eth_rxconf *wanted, struct rte_mempool *pool)
{
	struct rte_eth_dev_info info;
	struct rte_eth_rxconf conf;

	if (wanted == NULL || __real_rte_eth_dev_info_get(port, &info) != 0)
		return __real_rte_eth_rx_queue_setup(port, queue, descriptors, socket, wanted, pool);
	conf = *wanted;
	conf.offloads &= info.rx_offload_capa | info.rx_queue_offload_capa;
	return __real_rte_eth_rx_queue_setup(port, queue, descriptors, socket, &conf, pool);
}

struct rte_lpm *__wrap_rte_lpm_create(const char *name, int socket, const struct rte_lpm_config *wanted)
{
	struct rte_lpm_config config = *wanted;

	config.max_rules = ROUTES;
	config.number_tbl8s = GROUPS;
	return __real_rte_lpm_create(name, socket, &config);
}

struct rte_fib *__wrap_rte_fib_create(const char *name, int socket, struct rte_fib_conf *wanted)
{
	struct rte_fib_conf config = *wanted;

	config.max_routes = ROUTES;
	if (config.type == RTE_FIB_DIR24_8)
		config.dir24_8.num_tbl8 = GROUPS;
	return __real_rte_fib_create(name, socket, &config);
}

struct rte_lpm6 *__wrap_rte_lpm6_create(const char *name, int socket, const struct rte_lpm6_config *wanted)
{
	struct rte_lpm6_config config = *wanted;

	config.max_rules = ROUTES6;
	config.number_tbl8s = GROUPS6;
	return __real_rte_lpm6_create(name, socket, &config);
}

struct rte_fib6 *__wrap_rte_fib6_create(const char *name, int socket, struct rte_fib6_conf *wanted)
{
	struct rte_fib6_conf config = *wanted;

	config.max_routes = ROUTES6;
	if (config.type == RTE_FIB6_TRIE)
		config.trie.num_tbl8 = GROUPS6;
	return __real_rte_fib6_create(name, socket, &config);
}
