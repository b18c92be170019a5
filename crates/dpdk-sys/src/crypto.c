/* Crypto devices; each function is described in crypto.h. */
#include "shims.h"

#include "ipsec_mb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#define IV_OFFSET (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define IV_ROOM 16
/* Additional data that lie in no packet as they are. */
#define AAD_OFFSET (IV_OFFSET + IV_ROOM)
#define AAD_ROOM 16
/* How long a device may take for a batch, in milliseconds. */
#define PATIENCE_MS 100
/* Where a batch has fewer packets for each session than this, a device that works on several at once gets them together. */
#define RUN_MIN 8

/* Devices that are libipsec-mb, which is called without their driver. */
static uint8_t direct[RTE_CRYPTO_MAX_DEVS];

struct valiant_crypto_queue {
	struct valiant_crypto_job jobs[VALIANT_CRYPTO_VECTOR];
	/* NULL: the device's driver does the work. */
	struct valiant_mb *mb;
	uint8_t device;
	uint8_t synchronous;
	uint16_t index;
	uint16_t late;
	uint8_t deaf;
	valiant_mbuf_fn free_heap;
	struct rte_mempool *pool;
	struct rte_crypto_op *ops[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_op *back[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_vec vecs[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_sgl sgls[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_va_iova_ptr ivs[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_va_iova_ptr digests[VALIANT_CRYPTO_VECTOR];
	struct rte_crypto_va_iova_ptr aads[VALIANT_CRYPTO_VECTOR];
	int32_t status[VALIANT_CRYPTO_VECTOR];
};

int valiant_crypto_find(const char *name, const char *devargs, int *made)
{
	int device = rte_cryptodev_get_dev_id(name);
	int status;

	*made = 0;
	if (device >= 0)
		return device;
	status = rte_eal_hotplug_add("vdev", name, devargs);
	if (status < 0)
		return status;
	*made = 1;
	device = rte_cryptodev_get_dev_id(name);
	return device >= 0 ? device : -ENODEV;
}

int valiant_crypto_info(uint8_t device, struct valiant_crypto_info *info)
{
	struct rte_cryptodev_info dev;
	const char *name = rte_cryptodev_name_get(device);

	memset(&dev, 0, sizeof(dev));
	memset(info, 0, sizeof(*info));
	if (!rte_cryptodev_is_valid_dev(device))
		return -ENODEV;
	rte_cryptodev_info_get(device, &dev);
	snprintf(info->name, sizeof(info->name), "%s", name != NULL ? name : "");
	snprintf(info->driver, sizeof(info->driver), "%s", dev.driver_name != NULL ? dev.driver_name : "");
	info->max_queues = (uint16_t)RTE_MIN(dev.max_nb_queue_pairs, (unsigned int)UINT16_MAX);
	info->numa_node = rte_cryptodev_socket_id(device);
	info->hardware = (dev.feature_flags & RTE_CRYPTODEV_FF_HW_ACCELERATED) != 0;
	info->synchronous = (dev.feature_flags & RTE_CRYPTODEV_FF_SYM_CPU_CRYPTO) != 0;
	return 0;
}

int valiant_crypto_start(uint8_t device, uint16_t queues, uint16_t descriptors, unsigned int sessions, int numa_node,
			 struct rte_mempool **session_pool)
{
	struct rte_cryptodev_config config = {
		.socket_id = rte_cryptodev_socket_id(device),
		.nb_queue_pairs = queues,
		.ff_disable = RTE_CRYPTODEV_FF_ASYMMETRIC_CRYPTO | RTE_CRYPTODEV_FF_SECURITY,
	};
	struct rte_cryptodev_qp_conf queue = { .nb_descriptors = descriptors };
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_cryptodev_info info;
	struct rte_mempool *pool;
	int status;

	rte_cryptodev_info_get(device, &info);
	direct[device] = (uint8_t)valiant_mb_usable(info.driver_name);
	if (direct[device])
		/* The driver wants a pool, but its sessions are not used. */
		sessions = 1;
	if (config.socket_id < 0)
		config.socket_id = 0;
	status = rte_cryptodev_configure(device, &config);
	if (status < 0)
		return status;
	snprintf(name, sizeof(name), "valiant_crypto_%u", device);
	pool = rte_cryptodev_sym_session_pool_create(name, sessions, rte_cryptodev_sym_get_private_session_size(device), 0,
						     0, numa_node);
	if (pool == NULL)
		return rte_errno != 0 ? -rte_errno : -ENOMEM;
	queue.mp_session = pool;
	for (uint16_t i = 0; i < queues && status == 0; i++)
		status = rte_cryptodev_queue_pair_setup(device, i, &queue, numa_node);
	if (status == 0)
		status = rte_cryptodev_start(device);
	if (status < 0) {
		rte_mempool_free(pool);
		return status;
	}
	*session_pool = pool;
	return 0;
}

void valiant_crypto_stop(uint8_t device, int made, struct rte_mempool *session_pool)
{
	const char *name = rte_cryptodev_name_get(device);

	rte_cryptodev_stop(device);
	rte_cryptodev_close(device);
	if (made && name != NULL) {
		char copy[RTE_CRYPTODEV_NAME_MAX_LEN];

		snprintf(copy, sizeof(copy), "%s", name);
		rte_eal_hotplug_remove("vdev", copy);
	}
	rte_mempool_free(session_pool);
}

static enum rte_crypto_auth_algorithm hmac(const struct valiant_crypto_transform *t)
{
	return t->algorithm == VALIANT_CRYPTO_AES_CBC_HMAC_SHA256 ? RTE_CRYPTO_AUTH_SHA256_HMAC :
								      RTE_CRYPTO_AUTH_SHA1_HMAC;
}

int valiant_crypto_capable(uint8_t device, const struct valiant_crypto_transform *t)
{
	struct rte_cryptodev_sym_capability_idx index = { .type = RTE_CRYPTO_SYM_XFORM_AEAD };
	const struct rte_cryptodev_symmetric_capability *can;

	if (t->algorithm == VALIANT_CRYPTO_AES_GCM) {
		index.algo.aead = RTE_CRYPTO_AEAD_AES_GCM;
		can = rte_cryptodev_sym_capability_get(device, &index);
		return can != NULL &&
		       rte_cryptodev_sym_capability_check_aead(can, t->key_len, t->digest_len, t->aad_len, 12) == 0;
	}
	index.type = RTE_CRYPTO_SYM_XFORM_CIPHER;
	index.algo.cipher = RTE_CRYPTO_CIPHER_AES_CBC;
	can = rte_cryptodev_sym_capability_get(device, &index);
	if (can == NULL || rte_cryptodev_sym_capability_check_cipher(can, t->key_len, 16) != 0)
		return 0;
	index.type = RTE_CRYPTO_SYM_XFORM_AUTH;
	index.algo.auth = hmac(t);
	can = rte_cryptodev_sym_capability_get(device, &index);
	return can != NULL &&
	       rte_cryptodev_sym_capability_check_auth(can, t->auth_key_len, t->digest_len, 0) == 0;
}

void *valiant_crypto_session(uint8_t device, struct rte_mempool *pool, const struct valiant_crypto_transform *t)
{
	struct rte_crypto_sym_xform xforms[2];
	/* Encrypted first, authenticated then; the other way round coming back. */
	struct rte_crypto_sym_xform *cipher = &xforms[!t->encrypt], *auth = &xforms[t->encrypt != 0];
	void *session;

	if (direct[device])
		/* On any node that has memory, as the pools of other devices. */
		return valiant_mb_session(t, SOCKET_ID_ANY);
	memset(xforms, 0, sizeof(xforms));
	if (t->algorithm == VALIANT_CRYPTO_AES_GCM) {
		xforms[0].type = RTE_CRYPTO_SYM_XFORM_AEAD;
		xforms[0].aead.op = t->encrypt ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT;
		xforms[0].aead.algo = RTE_CRYPTO_AEAD_AES_GCM;
		xforms[0].aead.key.data = t->key;
		xforms[0].aead.key.length = t->key_len;
		xforms[0].aead.iv.offset = IV_OFFSET;
		xforms[0].aead.iv.length = 12;
		xforms[0].aead.digest_length = t->digest_len;
		xforms[0].aead.aad_length = t->aad_len;
	} else {
		cipher->type = RTE_CRYPTO_SYM_XFORM_CIPHER;
		cipher->cipher.op = t->encrypt ? RTE_CRYPTO_CIPHER_OP_ENCRYPT : RTE_CRYPTO_CIPHER_OP_DECRYPT;
		cipher->cipher.algo = RTE_CRYPTO_CIPHER_AES_CBC;
		cipher->cipher.key.data = t->key;
		cipher->cipher.key.length = t->key_len;
		cipher->cipher.iv.offset = IV_OFFSET;
		cipher->cipher.iv.length = 16;
		auth->type = RTE_CRYPTO_SYM_XFORM_AUTH;
		auth->auth.op = t->encrypt ? RTE_CRYPTO_AUTH_OP_GENERATE : RTE_CRYPTO_AUTH_OP_VERIFY;
		auth->auth.algo = hmac(t);
		auth->auth.key.data = t->auth_key;
		auth->auth.key.length = t->auth_key_len;
		auth->auth.digest_length = t->digest_len;
		xforms[0].next = &xforms[1];
	}
	session = rte_cryptodev_sym_session_create(device, xforms, pool);
	memset(xforms, 0, sizeof(xforms));
	return session;
}

void valiant_crypto_session_free(uint8_t device, void *session)
{
	size_t size;

	if (direct[device]) {
		valiant_mb_session_free(session);
		return;
	}
	size = rte_mempool_from_obj(session)->elt_size;
	rte_cryptodev_sym_session_free(device, session);
	/* Drivers leave key schedules where they are until the memory is used again. */
	explicit_bzero(session, size);
}

struct valiant_crypto_queue *valiant_crypto_queue_new(uint8_t device, uint16_t index, int synchronous, int numa_node,
						      valiant_mbuf_fn free_heap)
{
	struct valiant_crypto_queue *queue = rte_zmalloc_socket(NULL, sizeof(*queue), 64, numa_node);
	char name[RTE_MEMPOOL_NAMESIZE];

	if (queue == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	queue->device = device;
	queue->index = index;
	queue->synchronous = synchronous != 0;
	queue->free_heap = free_heap;
	if (direct[device]) {
		queue->mb = valiant_mb_new(numa_node);
		if (queue->mb == NULL) {
			rte_free(queue);
			return NULL;
		}
		return queue;
	}
	snprintf(name, sizeof(name), "valiant_ops_%u_%u", device, index);
	queue->pool = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, VALIANT_CRYPTO_VECTOR, 0,
						IV_ROOM + AAD_ROOM, numa_node);
	if (queue->pool == NULL ||
	    rte_crypto_op_bulk_alloc(queue->pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC, queue->ops, VALIANT_CRYPTO_VECTOR) == 0) {
		int error = rte_errno != 0 ? rte_errno : ENOMEM;

		rte_mempool_free(queue->pool);
		rte_free(queue);
		rte_errno = error;
		return NULL;
	}
	for (unsigned int i = 0; i < VALIANT_CRYPTO_VECTOR; i++) {
		queue->ops[i]->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
		queue->sgls[i].vec = &queue->vecs[i];
		queue->sgls[i].num = 1;
	}
	return queue;
}

void valiant_crypto_queue_free(struct valiant_crypto_queue *queue)
{
	/* What the device still has keeps the memory that it writes to. */
	if (valiant_crypto_late(queue) > 0)
		return;
	if (queue->mb != NULL) {
		valiant_mb_free(queue->mb);
		rte_free(queue);
		return;
	}
	rte_mempool_put_bulk(queue->pool, (void **)queue->ops, VALIANT_CRYPTO_VECTOR);
	rte_mempool_free(queue->pool);
	rte_free(queue);
}

struct valiant_crypto_job *valiant_crypto_jobs(struct valiant_crypto_queue *queue)
{
	return queue->jobs;
}

/* The additional data of a job with an extended sequence number. */
static uint8_t *extended(struct valiant_crypto_queue *queue, uint16_t i, const uint8_t *data)
{
	const struct valiant_crypto_job *job = &queue->jobs[i];
	uint8_t *aad = rte_crypto_op_ctod_offset(queue->ops[i], uint8_t *, AAD_OFFSET);

	memcpy(aad, data + job->auth_offset, 4);
	memcpy(aad + 4, job->iv + 12, 4);
	memcpy(aad + 8, data + job->auth_offset + 4, 4);
	return aad;
}

/* Takes jobs [from, to) of one session through a device that works at once. */
static void at_once(struct valiant_crypto_queue *queue, uint16_t from, uint16_t to, int gcm, int *trouble)
{
	struct rte_crypto_sym_vec vec = {
		.num = to - from,
		.src_sgl = queue->sgls + from,
		.iv = queue->ivs + from,
		.digest = queue->digests + from,
		.aad = queue->aads + from,
		.status = queue->status + from,
	};
	union rte_crypto_sym_ofs offsets = { .raw = 0 };
	struct valiant_crypto_job *first = &queue->jobs[from];
	uint32_t done;

	for (uint16_t i = from; i < to; i++) {
		struct valiant_crypto_job *job = &queue->jobs[i];
		uint8_t *data = rte_pktmbuf_mtod(job->mbuf, uint8_t *);

		if (gcm) {
			queue->vecs[i].base = data + job->cipher_offset;
			queue->vecs[i].len = job->cipher_len;
		} else {
			queue->vecs[i].base = data + job->auth_offset;
			queue->vecs[i].len = job->auth_len;
		}
		queue->aads[i].va = unlikely(job->extended) ? extended(queue, i, data) : data + job->auth_offset;
		queue->ivs[i].va = job->iv;
		queue->digests[i].va = data + job->digest_offset;
		queue->status[i] = 0;
	}
	if (!gcm) {
		offsets.ofs.cipher.head = first->cipher_offset - first->auth_offset;
		offsets.ofs.cipher.tail = first->auth_len - first->cipher_len - offsets.ofs.cipher.head;
	}
	done = rte_cryptodev_sym_cpu_crypto_process(queue->device, first->session, offsets, &vec);
	if (likely(done == vec.num))
		return;
	*trouble = 1;
	for (uint16_t i = from; i < to; i++) {
		int32_t status = queue->status[i];

		queue->jobs[i].status = status == 0 ? VALIANT_CRYPTO_DONE :
				   status == EBADMSG || status == -EBADMSG ? VALIANT_CRYPTO_FORGED :
								     VALIANT_CRYPTO_REFUSED;
	}
}

static void fill(struct valiant_crypto_queue *queue, uint16_t i, int gcm)
{
	struct valiant_crypto_job *job = &queue->jobs[i];
	struct rte_crypto_op *op = queue->ops[i];
	struct rte_crypto_sym_op *sym = op->sym;
	uint8_t *data = rte_pktmbuf_mtod(job->mbuf, uint8_t *);

	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	memcpy(rte_crypto_op_ctod_offset(op, uint8_t *, IV_OFFSET), job->iv, sizeof(job->iv));
	sym->m_src = job->mbuf;
	sym->m_dst = NULL;
	sym->session = job->session;
	if (gcm) {
		sym->aead.data.offset = job->cipher_offset;
		sym->aead.data.length = job->cipher_len;
		sym->aead.digest.data = data + job->digest_offset;
		sym->aead.digest.phys_addr = rte_pktmbuf_iova_offset(job->mbuf, job->digest_offset);
		sym->aead.aad.data = data + job->auth_offset;
		sym->aead.aad.phys_addr = rte_pktmbuf_iova_offset(job->mbuf, job->auth_offset);
		if (unlikely(job->extended)) {
			sym->aead.aad.data = extended(queue, i, data);
			sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, AAD_OFFSET);
		}
	} else {
		sym->cipher.data.offset = job->cipher_offset;
		sym->cipher.data.length = job->cipher_len;
		sym->auth.data.offset = job->auth_offset;
		sym->auth.data.length = job->auth_len;
		sym->auth.digest.data = data + job->digest_offset;
		sym->auth.digest.phys_addr = rte_pktmbuf_iova_offset(job->mbuf, job->digest_offset);
	}
}

void valiant_crypto_deafen(struct valiant_crypto_queue *queue, int deaf)
{
	queue->deaf = deaf != 0;
}

/* Takes up to most answers, after those that are there already. */
static uint16_t answers(struct valiant_crypto_queue *queue, uint16_t there, uint16_t most)
{
	if (unlikely(queue->deaf))
		return 0;
	return rte_cryptodev_dequeue_burst(queue->device, queue->index, queue->back + there, most);
}

uint16_t valiant_crypto_late(struct valiant_crypto_queue *queue)
{
	while (queue->late > 0) {
		uint16_t n = answers(queue, 0, queue->late);

		if (n == 0)
			break;
		for (uint16_t i = 0; i < n; i++) {
			struct rte_mbuf *mbuf = queue->back[i]->sym->m_src;

			if (mbuf->pool != NULL)
				rte_pktmbuf_free(mbuf);
			else
				queue->free_heap(mbuf);
		}
		queue->late -= n;
	}
	return queue->late;
}

static uint16_t through_queue(struct valiant_crypto_queue *queue, uint16_t n, int gcm, int *trouble)
{
	uint64_t deadline = 0;
	uint16_t sent = 0, back = 0, got = 0;

	if (unlikely(valiant_crypto_late(queue) > 0)) {
		/* The ops are in use. */
		*trouble = 1;
		for (uint16_t i = 0; i < n; i++)
			queue->jobs[i].status = VALIANT_CRYPTO_REFUSED;
		return n;
	}
	for (uint16_t i = 0; i < n; i++)
		fill(queue, i, gcm);
	for (;;) {
		uint16_t in = 0, out;

		if (sent < n)
			in = rte_cryptodev_enqueue_burst(queue->device, queue->index, queue->ops + sent, n - sent);
		sent += in;
		out = answers(queue, got, VALIANT_CRYPTO_VECTOR - got);
		got += out;
		back += out;
		if (back == n)
			break;
		if (in + out > 0) {
			deadline = 0;
			continue;
		}
		/* It takes no more, and has nothing to give back: a packet that it does not like. */
		if (back == sent && sent < n) {
			queue->ops[sent]->status = RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
			queue->ops[sent]->sym->m_src = NULL;
			sent++;
			back++;
			if (back == n)
				break;
			continue;
		}
		if (deadline == 0)
			deadline = rte_get_tsc_cycles() + rte_get_tsc_hz() / 1000 * PATIENCE_MS;
		else if (rte_get_tsc_cycles() > deadline)
			break;
		rte_pause();
	}
	if (unlikely(back < n)) {
		queue->late = sent - back;
		/* The status does not tell who has the packet: software is done before it answers. */
		for (uint16_t i = 0; i < got; i++)
			queue->back[i]->sym->m_src = NULL;
		for (uint16_t i = 0; i < n; i++) {
			int has = i < sent && queue->ops[i]->sym->m_src != NULL;

			queue->jobs[i].status = has ? VALIANT_CRYPTO_DONE : VALIANT_CRYPTO_REFUSED;
		}
		return back;
	}
	for (uint16_t i = 0; i < n; i++) {
		uint8_t status = queue->ops[i]->status;

		if (likely(status == RTE_CRYPTO_OP_STATUS_SUCCESS))
			continue;
		*trouble = 1;
		queue->jobs[i].status = status == RTE_CRYPTO_OP_STATUS_AUTH_FAILED ? VALIANT_CRYPTO_FORGED :
										    VALIANT_CRYPTO_REFUSED;
	}
	return n;
}

uint16_t valiant_crypto_process(struct valiant_crypto_queue *queue, uint16_t n, int gcm, int *trouble)
{
	struct valiant_crypto_job *jobs = queue->jobs;
	uint16_t runs = n > 0;

	if (queue->mb != NULL) {
		valiant_mb_process(queue->mb, jobs, n, gcm, trouble);
		return n;
	}
	*trouble = 0;

	if (queue->synchronous) {
		for (uint16_t i = 1; i < n; i++)
			runs += jobs[i].session != jobs[i - 1].session;
		if (gcm || runs * RUN_MIN <= n || runs == 1) {
			for (uint16_t from = 0, to; from < n; from = to) {
				to = from + 1;
				while (to < n && jobs[to].session == jobs[from].session)
					to++;
				at_once(queue, from, to, gcm, trouble);
			}
			return n;
		}
	}
	return through_queue(queue, n, gcm, trouble);
}

int valiant_crypto_next(uint8_t device)
{
	for (unsigned int i = device; i < RTE_CRYPTO_MAX_DEVS; i++) {
		if (rte_cryptodev_is_valid_dev((uint8_t)i))
			return (int)i;
	}
	return -1;
}
