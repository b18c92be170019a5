/*
 * Crypto devices: one call for each batch of packets, in place, done when the call returns. Included by shims.h.
 */
#ifndef VALIANT_CRYPTO_H
#define VALIANT_CRYPTO_H

#include <stdint.h>

#include <rte_crypto.h>
#include <rte_cryptodev.h>

/* The most packets in one call. */
enum { VALIANT_CRYPTO_VECTOR = 256 };

/* What is done to packets. */
enum {
	VALIANT_CRYPTO_AES_GCM = 0,
	VALIANT_CRYPTO_AES_CBC_HMAC_SHA1 = 1,
	VALIANT_CRYPTO_AES_CBC_HMAC_SHA256 = 2,
};

/* What became of a packet. */
enum {
	VALIANT_CRYPTO_DONE = 0,
	VALIANT_CRYPTO_FORGED = 1,
	VALIANT_CRYPTO_REFUSED = 2,
};

struct valiant_crypto_info {
	char name[RTE_CRYPTODEV_NAME_MAX_LEN];
	char driver[64];
	uint16_t max_queues;
	int numa_node;
	/* Whether it is hardware, which needs buffers that it can address. */
	uint8_t hardware;
	/* Whether it works at once, without a queue. */
	uint8_t synchronous;
};

struct valiant_crypto_transform {
	uint8_t algorithm;
	uint8_t encrypt;
	/* aad_len counts additional data of GCM. */
	uint16_t key_len, auth_key_len, digest_len, aad_len;
	const uint8_t *key, *auth_key;
};

/*
 * One packet's work. Offsets count from the beginning of its data. GCM: auth_offset says where the additional data
 * begins. CBC with HMAC: what is authenticated. iv: 12 bytes for GCM, 16 for CBC.
 *
 * extended (GCM only): the additional data are 12 bytes: four at auth_offset, the last four of iv, and the next four of the
 * packet. ESP with extended sequence numbers authenticates so the half that it does not send (RFC 4106 section 5).
 */
struct valiant_crypto_job {
	void *session;
	struct rte_mbuf *mbuf;
	uint16_t cipher_offset, cipher_len;
	uint16_t auth_offset, auth_len;
	uint16_t digest_offset;
	/* How long the packet must be. */
	uint16_t need;
	/* VALIANT_CRYPTO_DONE before and, if all went well, after. */
	uint8_t status;
	uint8_t extended;
	uint8_t reserved[2];
	uint8_t iv[16];
} __attribute__((aligned(16)));

struct valiant_crypto_queue;

/* The number of the device of this name, which is made (a virtual device) if there is none; negative errno. */
int valiant_crypto_find(const char *name, const char *devargs, int *made);
int valiant_crypto_info(uint8_t device, struct valiant_crypto_info *info);
/* Configures and starts it, with a pool for this many sessions if its driver makes them; 0 or negative errno. */
int valiant_crypto_start(uint8_t device, uint16_t queues, uint16_t descriptors, unsigned int sessions, int numa_node,
			 struct rte_mempool **session_pool);
/* Stops it; a device that was made for this goes away. */
void valiant_crypto_stop(uint8_t device, int made, struct rte_mempool *session_pool);
/* Whether the device can do this. */
int valiant_crypto_capable(uint8_t device, const struct valiant_crypto_transform *transform);
/* NULL with rte_errno. The keys are not needed any more afterwards. */
void *valiant_crypto_session(uint8_t device, struct rte_mempool *pool,
			     const struct valiant_crypto_transform *transform);
/* Overwrites the keys. Never while a session of the same pool is made. */
void valiant_crypto_session_free(uint8_t device, void *session);

typedef void (*valiant_mbuf_fn)(struct rte_mbuf *mbuf);

/*
 * NULL with rte_errno. Only one thread at a time uses a queue. What the device gives back too late is freed: mbufs of a pool, and
 * by free_heap those without one.
 */
struct valiant_crypto_queue *valiant_crypto_queue_new(uint8_t device, uint16_t queue, int synchronous, int numa_node,
						      valiant_mbuf_fn free_heap);
void valiant_crypto_queue_free(struct valiant_crypto_queue *queue);
/* Its VALIANT_CRYPTO_VECTOR jobs. */
struct valiant_crypto_job *valiant_crypto_jobs(struct valiant_crypto_queue *queue);
/*
 * Does the first n jobs, all of one algorithm; if anything went wrong, says so in *trouble and in the status of what it
 * went wrong with. Returns n; or, when the device does not give
 * packets back in time, fewer: then the packets at jobs whose status is not VALIANT_CRYPTO_REFUSED belong to the queue,
 * which frees them when the device returns them.
 */
uint16_t valiant_crypto_process(struct valiant_crypto_queue *queue, uint16_t n, int gcm, int *trouble);
/* For tests: a queue that is deaf hears no answer of its device. */
void valiant_crypto_deafen(struct valiant_crypto_queue *queue, int deaf);
/* Packets that the device has not given back. */
uint16_t valiant_crypto_late(struct valiant_crypto_queue *queue);

/* The next crypto device from this number on; negative: none. */
int valiant_crypto_next(uint8_t device);

#endif
