/* Flow rules; each function is described in flow.h. */
#include "flow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_flow.h>

/* What a kind of item is for DPDK, how large its structure is, and how many bytes of it are the header's. */
static const struct {
	enum rte_flow_item_type type;
	size_t size, header;
} kinds[] = {
	[VALIANT_ITEM_ETH] = { RTE_FLOW_ITEM_TYPE_ETH, sizeof(struct rte_flow_item_eth), 14 },
	[VALIANT_ITEM_VLAN] = { RTE_FLOW_ITEM_TYPE_VLAN, sizeof(struct rte_flow_item_vlan), 4 },
	[VALIANT_ITEM_PPPOES] = { RTE_FLOW_ITEM_TYPE_PPPOES, sizeof(struct rte_flow_item_pppoe), 6 },
	[VALIANT_ITEM_PPPOED] = { RTE_FLOW_ITEM_TYPE_PPPOED, sizeof(struct rte_flow_item_pppoe), 6 },
	[VALIANT_ITEM_MPLS] = { RTE_FLOW_ITEM_TYPE_MPLS, sizeof(struct rte_flow_item_mpls), 4 },
	[VALIANT_ITEM_ARP] = { RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4, sizeof(struct rte_flow_item_arp_eth_ipv4), 28 },
	[VALIANT_ITEM_IPV4] = { RTE_FLOW_ITEM_TYPE_IPV4, sizeof(struct rte_flow_item_ipv4), 20 },
	[VALIANT_ITEM_IPV6] = { RTE_FLOW_ITEM_TYPE_IPV6, sizeof(struct rte_flow_item_ipv6), 40 },
	[VALIANT_ITEM_TCP] = { RTE_FLOW_ITEM_TYPE_TCP, sizeof(struct rte_flow_item_tcp), 20 },
	[VALIANT_ITEM_UDP] = { RTE_FLOW_ITEM_TYPE_UDP, sizeof(struct rte_flow_item_udp), 8 },
	[VALIANT_ITEM_SCTP] = { RTE_FLOW_ITEM_TYPE_SCTP, sizeof(struct rte_flow_item_sctp), 12 },
	[VALIANT_ITEM_ICMP] = { RTE_FLOW_ITEM_TYPE_ICMP, sizeof(struct rte_flow_item_icmp), 8 },
	[VALIANT_ITEM_ICMP6] = { RTE_FLOW_ITEM_TYPE_ICMP6, sizeof(struct rte_flow_item_icmp6), 4 },
	[VALIANT_ITEM_ESP] = { RTE_FLOW_ITEM_TYPE_ESP, sizeof(struct rte_flow_item_esp), 8 },
	[VALIANT_ITEM_AH] = { RTE_FLOW_ITEM_TYPE_AH, sizeof(struct rte_flow_item_ah), 12 },
	[VALIANT_ITEM_GRE] = { RTE_FLOW_ITEM_TYPE_GRE, sizeof(struct rte_flow_item_gre), 4 },
	[VALIANT_ITEM_GRE_KEY] = { RTE_FLOW_ITEM_TYPE_GRE_KEY, sizeof(rte_be32_t), 4 },
	[VALIANT_ITEM_L2TPV3] = { RTE_FLOW_ITEM_TYPE_L2TPV3OIP, sizeof(struct rte_flow_item_l2tpv3oip), 4 },
	[VALIANT_ITEM_VXLAN] = { RTE_FLOW_ITEM_TYPE_VXLAN, sizeof(struct rte_flow_item_vxlan), 8 },
	[VALIANT_ITEM_GENEVE] = { RTE_FLOW_ITEM_TYPE_GENEVE, sizeof(struct rte_flow_item_geneve), 8 },
	[VALIANT_ITEM_GTPU] = { RTE_FLOW_ITEM_TYPE_GTPU, sizeof(struct rte_flow_item_gtp), 8 },
	/* Numbers of this host, in its byte order. */
	[VALIANT_ITEM_MARK] = { RTE_FLOW_ITEM_TYPE_MARK, sizeof(struct rte_flow_item_mark), 4 },
	[VALIANT_ITEM_META] = { RTE_FLOW_ITEM_TYPE_META, sizeof(struct rte_flow_item_meta), 4 },
	[VALIANT_ITEM_TAG] = { RTE_FLOW_ITEM_TYPE_TAG, sizeof(struct rte_flow_item_tag), 4 },
};

/* The structure of any item. */
union item_data {
	uint8_t bytes[64];
	struct rte_flow_item_eth eth;
	struct rte_flow_item_vlan vlan;
	struct rte_flow_item_arp_eth_ipv4 arp;
	struct rte_flow_item_ipv6 ipv6;
	struct rte_flow_item_tag tag;
};

struct parts {
	struct rte_flow_attr attr;
	struct rte_flow_item items[VALIANT_FLOW_MOST + 1];
	union item_data data[VALIANT_FLOW_MOST][3];
	struct rte_flow_action actions[VALIANT_FLOW_MOST + 1];
	union {
		struct rte_flow_action_queue queue;
		struct rte_flow_action_rss rss;
		struct rte_flow_action_count count;
		struct rte_flow_action_mark mark;
		struct rte_flow_action_set_meta meta;
		struct rte_flow_action_set_tag tag;
		struct rte_flow_action_jump jump;
		struct rte_flow_action_of_push_vlan push;
		struct rte_flow_action_of_set_vlan_vid vid;
		struct rte_flow_action_of_set_vlan_pcp pcp;
		struct rte_flow_action_meter meter;
	} conf[VALIANT_FLOW_MOST];
};

static void fill(union item_data *data, int kind, const struct valiant_flow_bytes *from)
{
	memset(data, 0, sizeof(*data));
	if (kind == VALIANT_ITEM_ARP) {
		/* The structure has gaps that the header has not. */
		memcpy(&data->arp, from->bytes, 14);
		memcpy(&data->arp.spa, from->bytes + 14, 4);
		memcpy(&data->arp.tha, from->bytes + 18, 6);
		memcpy(&data->arp.tpa, from->bytes + 24, 4);
		return;
	}
	memcpy(data->bytes, from->bytes, kinds[kind].header);
	if (kind == VALIANT_ITEM_ETH)
		data->eth.has_vlan = from->tag_follows;
	if (kind == VALIANT_ITEM_VLAN)
		data->vlan.has_more_vlan = from->tag_follows;
	if (kind == VALIANT_ITEM_TAG)
		data->tag.index = 0;
}

static int refuse(struct valiant_flow_error *error, int kind, const char *message)
{
	error->kind = kind;
	snprintf(error->message, sizeof(error->message), "%s", message);
	return -EINVAL;
}

/* Makes DPDK's structures of a rule. */
static int build(const struct valiant_flow_rule *rule, struct parts *parts, struct valiant_flow_error *error)
{
	memset(parts, 0, sizeof(*parts));
	memset(error, 0, sizeof(*error));
	if (rule->n_items > VALIANT_FLOW_MOST)
		return refuse(error, RTE_FLOW_ERROR_TYPE_ITEM_NUM, "the pattern is too long");
	if (rule->n_actions > VALIANT_FLOW_MOST)
		return refuse(error, RTE_FLOW_ERROR_TYPE_ACTION_NUM, "there are too many actions");
	parts->attr.ingress = 1;
	parts->attr.group = rule->group;
	parts->attr.priority = rule->priority;
	for (uint32_t i = 0; i < rule->n_items; i++) {
		const struct valiant_flow_item *from = &rule->items[i];
		union item_data *data = parts->data[i];

		if (from->kind < 0 || (size_t)from->kind >= RTE_DIM(kinds))
			return refuse(error, RTE_FLOW_ERROR_TYPE_ITEM, "there is no such item");
		parts->items[i].type = kinds[from->kind].type;
		if (!from->compared)
			continue;
		fill(&data[0], from->kind, &from->spec);
		fill(&data[1], from->kind, &from->mask);
		parts->items[i].spec = &data[0];
		parts->items[i].mask = &data[1];
		if (from->ranged) {
			fill(&data[2], from->kind, &from->last);
			parts->items[i].last = &data[2];
		}
	}
	parts->items[rule->n_items].type = RTE_FLOW_ITEM_TYPE_END;
	for (uint32_t i = 0; i < rule->n_actions; i++) {
		const struct valiant_flow_action *from = &rule->actions[i];
		struct rte_flow_action *to = &parts->actions[i];

		to->conf = &parts->conf[i];
		switch (from->kind) {
		case VALIANT_ACTION_QUEUE:
			to->type = RTE_FLOW_ACTION_TYPE_QUEUE;
			parts->conf[i].queue.index = (uint16_t)from->a;
			break;
		case VALIANT_ACTION_RSS:
			to->type = RTE_FLOW_ACTION_TYPE_RSS;
			parts->conf[i].rss.func = RTE_ETH_HASH_FUNCTION_DEFAULT;
			parts->conf[i].rss.queue_num = from->n_queues;
			parts->conf[i].rss.queue = from->queues;
			break;
		case VALIANT_ACTION_DROP:
			to->type = RTE_FLOW_ACTION_TYPE_DROP;
			to->conf = NULL;
			break;
		case VALIANT_ACTION_COUNT:
			to->type = RTE_FLOW_ACTION_TYPE_COUNT;
			break;
		case VALIANT_ACTION_MARK:
			to->type = RTE_FLOW_ACTION_TYPE_MARK;
			parts->conf[i].mark.id = from->a;
			break;
		case VALIANT_ACTION_SET_META:
			to->type = RTE_FLOW_ACTION_TYPE_SET_META;
			parts->conf[i].meta.data = from->a;
			parts->conf[i].meta.mask = from->b;
			break;
		case VALIANT_ACTION_SET_TAG:
			to->type = RTE_FLOW_ACTION_TYPE_SET_TAG;
			parts->conf[i].tag.data = from->a;
			parts->conf[i].tag.mask = from->b;
			parts->conf[i].tag.index = (uint8_t)from->c;
			break;
		case VALIANT_ACTION_JUMP:
			to->type = RTE_FLOW_ACTION_TYPE_JUMP;
			parts->conf[i].jump.group = from->a;
			break;
		case VALIANT_ACTION_VLAN_POP:
			to->type = RTE_FLOW_ACTION_TYPE_OF_POP_VLAN;
			to->conf = NULL;
			break;
		case VALIANT_ACTION_VLAN_PUSH:
			to->type = RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN;
			parts->conf[i].push.ethertype = rte_cpu_to_be_16((uint16_t)from->a);
			break;
		case VALIANT_ACTION_VLAN_ID:
			to->type = RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID;
			parts->conf[i].vid.vlan_vid = rte_cpu_to_be_16((uint16_t)from->a);
			break;
		case VALIANT_ACTION_VLAN_PRIORITY:
			to->type = RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP;
			parts->conf[i].pcp.vlan_pcp = (uint8_t)from->a;
			break;
		case VALIANT_ACTION_METER:
			to->type = RTE_FLOW_ACTION_TYPE_METER;
			parts->conf[i].meter.mtr_id = from->a;
			break;
		case VALIANT_ACTION_PASS:
			to->type = RTE_FLOW_ACTION_TYPE_PASSTHRU;
			to->conf = NULL;
			break;
		default:
			return refuse(error, RTE_FLOW_ERROR_TYPE_ACTION, "there is no such action");
		}
	}
	parts->actions[rule->n_actions].type = RTE_FLOW_ACTION_TYPE_END;
	return 0;
}

/* Keeps what the driver has said, which may lie in the memory of the call. */
static int said(int status, const struct rte_flow_error *from, struct valiant_flow_error *error)
{
	if (status == 0)
		return 0;
	error->kind = (int)from->type;
	snprintf(error->message, sizeof(error->message), "%s", from->message != NULL ? from->message : "");
	return status < 0 ? status : -status;
}

int valiant_flow_validate(uint16_t port, const struct valiant_flow_rule *rule, struct valiant_flow_error *error)
{
	struct rte_flow_error from = { 0 };
	struct parts parts;
	int status = build(rule, &parts, error);

	if (status != 0)
		return status;
	return said(rte_flow_validate(port, &parts.attr, parts.items, parts.actions, &from), &from, error);
}

int valiant_flow_create(uint16_t port, const struct valiant_flow_rule *rule, void **flow,
			struct valiant_flow_error *error)
{
	struct rte_flow_error from = { 0 };
	struct parts parts;
	int status = build(rule, &parts, error);

	*flow = NULL;
	if (status != 0)
		return status;
	rte_errno = 0;
	*flow = rte_flow_create(port, &parts.attr, parts.items, parts.actions, &from);
	if (*flow != NULL)
		return 0;
	return said(rte_errno != 0 ? -rte_errno : -EINVAL, &from, error);
}

int valiant_flow_destroy(uint16_t port, void *flow, struct valiant_flow_error *error)
{
	struct rte_flow_error from = { 0 };

	memset(error, 0, sizeof(*error));
	return said(rte_flow_destroy(port, flow, &from), &from, error);
}

int valiant_flow_flush(uint16_t port, struct valiant_flow_error *error)
{
	struct rte_flow_error from = { 0 };

	memset(error, 0, sizeof(*error));
	return said(rte_flow_flush(port, &from), &from, error);
}

int valiant_flow_query(uint16_t port, void *flow, struct valiant_flow_count *count, struct valiant_flow_error *error)
{
	struct rte_flow_action action[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_COUNT },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_query_count from_driver = { 0 };
	struct rte_flow_error from = { 0 };
	int status;

	memset(error, 0, sizeof(*error));
	memset(count, 0, sizeof(*count));
	status = rte_flow_query(port, flow, action, &from_driver, &from);
	if (status != 0)
		return said(status, &from, error);
	count->packets = from_driver.hits;
	count->bytes = from_driver.bytes;
	count->has_packets = from_driver.hits_set;
	count->has_bytes = from_driver.bytes_set;
	return 0;
}
