/*
 * Measures DPDK's rte_acl, and a list of rules that is looked at one after the other, for scripts/bench-rules.
 *
 *     acl RULES FRAMES PASSES ALGORITHM [EAL arguments]
 *
 * RULES has a rule on each line: source, its prefix length, destination, its prefix length, the first and the last source port,
 * the first and the last destination port, the protocol (0: any). The first rule that matches counts. FRAMES are Ethernet frames with
 * IPv4 and UDP or TCP, 64 bytes each. The algorithm is one of rte_acl's, or "linear". Bursts of 64 are classified where they
 * lie. The result is a line of JSON: cycles of the counter for each packet in each pass; the sum of the numbers of the rules
 * found, from 1, by which two programs can be compared; the time to build the table, and its memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_acl.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#define FRAME 64
#define BURST 64
/* Where the fields are in a frame. */
#define TYPE 12
#define VERSION 14
#define FRAGMENT 20
#define PROTOCOL 23
#define SOURCE 26
#define DESTINATION 30
#define PORTS 34

enum { F_PROTOCOL, F_SOURCE, F_DESTINATION, F_SOURCE_PORT, F_DESTINATION_PORT, FIELDS };

static const struct rte_acl_field_def fields[FIELDS] = {
	{ RTE_ACL_FIELD_TYPE_BITMASK, 1, F_PROTOCOL, 0, PROTOCOL },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, F_SOURCE, 1, SOURCE },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, F_DESTINATION, 2, DESTINATION },
	{ RTE_ACL_FIELD_TYPE_RANGE, 2, F_SOURCE_PORT, 3, PORTS },
	{ RTE_ACL_FIELD_TYPE_RANGE, 2, F_DESTINATION_PORT, 3, PORTS + 2 },
};

RTE_ACL_RULE_DEF(acl_rule, FIELDS);

struct line {
	uint32_t source, destination, source_mask, destination_mask;
	uint32_t source_bits, destination_bits, protocol;
	uint32_t source_first, source_last, destination_first, destination_last;
};

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static struct line *read_rules(const char *path, uint32_t *count)
{
	FILE *file = fopen(path, "r");
	struct line *lines = NULL, l;
	size_t room = 0;

	if (file == NULL)
		fail("cannot open the rules");
	for (*count = 0; fscanf(file, "%u %u %u %u %u %u %u %u %u", &l.source, &l.source_bits, &l.destination, &l.destination_bits,
				&l.source_first, &l.source_last, &l.destination_first, &l.destination_last, &l.protocol) == 9;
	     ++*count) {
		if (*count == room) {
			room = room ? 2 * room : 1024;
			lines = realloc(lines, room * sizeof(*lines));
			if (lines == NULL)
				fail("no memory");
		}
		l.source_mask = l.source_bits ? ~0u << (32 - l.source_bits) : 0;
		l.destination_mask = l.destination_bits ? ~0u << (32 - l.destination_bits) : 0;
		lines[*count] = l;
	}
	fclose(file);
	return lines;
}

static uint8_t *read_frames(const char *path, size_t *count)
{
	FILE *file = fopen(path, "rb");
	uint8_t *frames;
	long size;

	if (file == NULL || fseek(file, 0, SEEK_END) || (size = ftell(file)) <= 0)
		fail("cannot read the frames");
	rewind(file);
	frames = aligned_alloc(64, size);
	if (frames == NULL || fread(frames, 1, size, file) != (size_t)size)
		fail("cannot read the frames");
	fclose(file);
	*count = size / FRAME;
	return frames;
}

/* A table of all rules. The first has the highest priority. */
static struct rte_acl_ctx *build(const struct line *lines, uint32_t count)
{
	struct rte_acl_param param = { "bench", SOCKET_ID_ANY, RTE_ACL_RULE_SZ(FIELDS), count };
	struct rte_acl_ctx *ctx = rte_acl_create(&param);
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };
	uint32_t i;

	if (ctx == NULL)
		fail("rte_acl_create failed");
	for (i = 0; i < count; i++) {
		const struct line *l = &lines[i];
		struct acl_rule rule = { 0 };

		rule.data.category_mask = 1;
		rule.data.priority = RTE_ACL_MAX_PRIORITY - i;
		rule.data.userdata = i + 1;
		rule.field[F_PROTOCOL].value.u8 = l->protocol;
		rule.field[F_PROTOCOL].mask_range.u8 = l->protocol ? 0xff : 0;
		rule.field[F_SOURCE].value.u32 = l->source;
		rule.field[F_SOURCE].mask_range.u32 = l->source_bits;
		rule.field[F_DESTINATION].value.u32 = l->destination;
		rule.field[F_DESTINATION].mask_range.u32 = l->destination_bits;
		rule.field[F_SOURCE_PORT].value.u16 = l->source_first;
		rule.field[F_SOURCE_PORT].mask_range.u16 = l->source_last;
		rule.field[F_DESTINATION_PORT].value.u16 = l->destination_first;
		rule.field[F_DESTINATION_PORT].mask_range.u16 = l->destination_last;
		if (rte_acl_add_rules(ctx, (struct rte_acl_rule *)&rule, 1))
			fail("rte_acl_add_rules failed");
	}
	memcpy(config.defs, fields, sizeof(fields));
	if (rte_acl_build(ctx, &config))
		fail("rte_acl_build failed");
	return ctx;
}

static uint32_t number(const uint8_t *at, int bytes)
{
	uint32_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

/* Whether the fields are where they are looked for: IPv4 without options, and no later fragment. */
static int plain(const uint8_t *frame)
{
	return number(frame + TYPE, 2) == 0x0800 && frame[VERSION] == 0x45 && !(number(frame + FRAGMENT, 2) & 0x1fff);
}

static uint32_t linear(const struct line *lines, uint32_t count, const uint8_t *frame)
{
	uint32_t source = number(frame + SOURCE, 4), destination = number(frame + DESTINATION, 4), protocol = frame[PROTOCOL];
	uint32_t from = number(frame + PORTS, 2), to = number(frame + PORTS + 2, 2), i;

	for (i = 0; i < count; i++) {
		const struct line *l = &lines[i];

		if ((source & l->source_mask) == l->source && (destination & l->destination_mask) == l->destination &&
		    (l->protocol == 0 || protocol == l->protocol) && from >= l->source_first && from <= l->source_last && to >= l->destination_first &&
		    to <= l->destination_last)
			return i + 1;
	}
	return 0;
}

static const struct {
	const char *name;
	enum rte_acl_classify_alg algorithm;
} algorithms[] = {
	{ "default", RTE_ACL_CLASSIFY_DEFAULT }, { "scalar", RTE_ACL_CLASSIFY_SCALAR }, { "sse", RTE_ACL_CLASSIFY_SSE },
	{ "avx2", RTE_ACL_CLASSIFY_AVX2 }, { "avx512x16", RTE_ACL_CLASSIFY_AVX512X16 }, { "avx512x32", RTE_ACL_CLASSIFY_AVX512X32 },
};

int main(int argc, char **argv)
{
	const uint8_t *burst[BURST];
	uint32_t results[BURST], count, passes, i;
	struct rte_acl_ctx *ctx = NULL;
	struct rte_malloc_socket_stats stats;
	size_t frames, memory, at, n;
	uint64_t sum = 0, start;
	struct line *lines;
	const char *name;
	double built;
	uint8_t *data;

	if (argc < 5)
		fail("acl RULES FRAMES PASSES ALGORITHM [EAL arguments]");
	lines = read_rules(argv[1], &count);
	data = read_frames(argv[2], &frames);
	passes = atoi(argv[3]);
	name = argv[4];
	argv[4] = argv[0];
	if (rte_eal_init(argc - 4, argv + 4) < 0)
		fail("DPDK does not start");
	rte_malloc_get_socket_stats(0, &stats);
	memory = stats.heap_allocsz_bytes;
	start = rte_rdtsc();
	if (strcmp(name, "linear")) {
		ctx = build(lines, count);
		for (i = 0; i < RTE_DIM(algorithms) && strcmp(name, algorithms[i].name); i++)
			;
		if (i == RTE_DIM(algorithms))
			fail("no such algorithm");
		if (rte_acl_set_ctx_classify(ctx, algorithms[i].algorithm)) {
			printf("{\"refused\": \"%s\"}\n", name);
			return 0;
		}
	}
	built = (double)(rte_rdtsc() - start) / rte_get_tsc_hz() * 1e3;
	rte_malloc_get_socket_stats(0, &stats);
	printf("{\"rules\": %u, \"build_ms\": %.1f, \"memory_bytes\": %zu, \"cycles\": [", count, built,
	       (size_t)stats.heap_allocsz_bytes - memory);
	for (i = 0; i < passes; i++) {
		start = rte_rdtsc();
		for (at = 0; at < frames; at += n) {
			size_t k;

			/* A user of rte_acl, who gets other frames too, has to look at each. */
			for (n = 0; n < BURST && at + n < frames && plain(data + (at + n) * FRAME); n++)
				burst[n] = data + (at + n) * FRAME;
			if (n == 0)
				fail("a frame that is not plain IPv4");
			if (ctx != NULL)
				rte_acl_classify(ctx, burst, results, n, 1);
			else
				for (k = 0; k < n; k++)
					results[k] = linear(lines, count, burst[k]);
			for (k = 0; k < n; k++)
				sum += results[k];
		}
		printf("%s%.2f", i ? ", " : "", (double)(rte_rdtsc() - start) / frames);
	}
	printf("], \"sum\": %" PRIu64 "}\n", passes ? sum / passes : 0);
	rte_eal_cleanup();
	return 0;
}
