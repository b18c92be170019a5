/* Flow rules of devices (rte_flow): a rule in plain data of ours, from which the driver's structures are made. */
#ifndef VALIANT_FLOW_H
#define VALIANT_FLOW_H

#include <stdint.h>

/* The most bytes of a header that a rule looks at: an IPv6 header. */
enum { VALIANT_FLOW_BYTES = 40 };

/* Which header an item is, or which number (the last three). */
enum {
	VALIANT_ITEM_ETH,
	VALIANT_ITEM_VLAN,
	VALIANT_ITEM_PPPOES,
	VALIANT_ITEM_PPPOED,
	VALIANT_ITEM_MPLS,
	VALIANT_ITEM_ARP,
	VALIANT_ITEM_IPV4,
	VALIANT_ITEM_IPV6,
	VALIANT_ITEM_TCP,
	VALIANT_ITEM_UDP,
	VALIANT_ITEM_SCTP,
	VALIANT_ITEM_ICMP,
	VALIANT_ITEM_ICMP6,
	VALIANT_ITEM_ESP,
	VALIANT_ITEM_AH,
	VALIANT_ITEM_GRE,
	VALIANT_ITEM_GRE_KEY,
	VALIANT_ITEM_L2TPV3,
	VALIANT_ITEM_VXLAN,
	VALIANT_ITEM_GENEVE,
	VALIANT_ITEM_GTPU,
	VALIANT_ITEM_MARK,
	VALIANT_ITEM_META,
	VALIANT_ITEM_TAG,
};

/* Bytes of a header as they are in a packet, and whether a tag follows (Ethernet and VLAN headers). */
struct valiant_flow_bytes {
	uint8_t bytes[VALIANT_FLOW_BYTES];
	uint8_t tag_follows;
};

struct valiant_flow_item {
	int kind;
	uint8_t compared; /* 0: any header of this kind */
	uint8_t ranged;	  /* whether last counts */
	struct valiant_flow_bytes spec, last, mask;
};

enum {
	VALIANT_ACTION_QUEUE,	     /* a: queue */
	VALIANT_ACTION_RSS,	     /* queues */
	VALIANT_ACTION_DROP,
	VALIANT_ACTION_COUNT,
	VALIANT_ACTION_MARK,	     /* a: mark */
	VALIANT_ACTION_SET_META,     /* a: data, b: mask */
	VALIANT_ACTION_SET_TAG,	     /* a: data, b: mask, c: index */
	VALIANT_ACTION_JUMP,	     /* a: group */
	VALIANT_ACTION_VLAN_POP,
	VALIANT_ACTION_VLAN_PUSH,    /* a: Ethernet type */
	VALIANT_ACTION_VLAN_ID,	     /* a: identifier */
	VALIANT_ACTION_VLAN_PRIORITY, /* a: priority */
	VALIANT_ACTION_METER,	     /* a: meter */
	VALIANT_ACTION_PASS,
};

struct valiant_flow_action {
	int kind;
	uint32_t a, b, c;
	const uint16_t *queues;
	uint32_t n_queues;
};

struct valiant_flow_rule {
	uint32_t group, priority;
	const struct valiant_flow_item *items;
	const struct valiant_flow_action *actions;
	uint32_t n_items, n_actions;
};

/* The most items and actions of a rule. */
enum { VALIANT_FLOW_MOST = 24 };

/* What a driver refuses: its number for the part that it is about (enum rte_flow_error_type), and its words. */
struct valiant_flow_error {
	int kind;
	char message[160];
};

struct valiant_flow_count {
	uint64_t packets, bytes;
	uint8_t has_packets, has_bytes;
};

/* 0, or a negative errno and what the driver says. */
int valiant_flow_validate(uint16_t port, const struct valiant_flow_rule *rule, struct valiant_flow_error *error);
/* The driver's handle in *flow. */
int valiant_flow_create(uint16_t port, const struct valiant_flow_rule *rule, void **flow,
			struct valiant_flow_error *error);
int valiant_flow_destroy(uint16_t port, void *flow, struct valiant_flow_error *error);
int valiant_flow_flush(uint16_t port, struct valiant_flow_error *error);
int valiant_flow_query(uint16_t port, void *flow, struct valiant_flow_count *count, struct valiant_flow_error *error);

#endif
