/* libipsec-mb; each function is described in ipsec_mb.h. */
#include "shims.h"

#include "ipsec_mb.h"

#include <errno.h>
#include <string.h>

#include <rte_malloc.h>

#if __has_include(<intel-ipsec-mb.h>)

#include <dlfcn.h>

#include <intel-ipsec-mb.h>

/* The most jobs in one of the library's bursts. */
#define BURST 128
/* The longest message that fits the library's 16-bit counters, whose highest value means that a lane is free. */
#define LONGEST (UINT16_MAX - 1)
#define MAX_TAG 16

/* The driver has loaded the library already, so that loading it again costs nothing. */
static struct {
	IMB_MGR *(*alloc)(uint64_t flags);
	void (*free)(IMB_MGR *manager);
	void (*init)(IMB_MGR *manager, IMB_ARCH *arch);
	/* For keys: it takes no jobs. */
	IMB_MGR *keys;
} library;

struct session {
	/* AES-GCM in one call. */
	aes_gcm_enc_dec_t gcm;
	uint32_t aad_len;
	uint16_t tag_len;
	uint16_t key_len;
	uint8_t encrypt;
	/* Below 16; jobs of one kind can go through the library's lanes together. */
	uint8_t kind;
	/* No other session has it, or had it. */
	uint64_t id;
	IMB_HASH_ALG hash;
	union {
		struct gcm_key_data gcm_key;
		struct {
			uint32_t encrypt_keys[4 * 15], decrypt_keys[4 * 15];
			uint8_t inner[IMB_SHA256_DIGEST_SIZE_IN_BYTES], outer[IMB_SHA256_DIGEST_SIZE_IN_BYTES];
		} __attribute__((aligned(16)));
	};
} __attribute__((aligned(64)));

struct valiant_mb {
	IMB_MGR *manager;
	IMB_JOB jobs[BURST];
	/* The session for which the job's constant fields are set; 0: none. */
	uint64_t sessions[BURST];
	uint16_t numbers[BURST];
	uint8_t tags[BURST][MAX_TAG];
};

/* A library with this one's interface, as the library loads it. */
static int load(void)
{
	void *handle = dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
	unsigned int (*version)(void);

	if (handle == NULL)
		return 0;
	version = (unsigned int (*)(void))dlsym(handle, "imb_get_version");
	library.alloc = (IMB_MGR * (*)(uint64_t)) dlsym(handle, "alloc_mb_mgr");
	library.free = (void (*)(IMB_MGR *))dlsym(handle, "free_mb_mgr");
	library.init = (void (*)(IMB_MGR *, IMB_ARCH *))dlsym(handle, "init_mb_mgr_auto");
	/* What newer versions add is at the end of structures. */
	return version != NULL && version() >= IMB_VERSION_NUM && library.alloc != NULL && library.free != NULL &&
	       library.init != NULL;
}

static IMB_MGR *manager(void)
{
	IMB_MGR *made = library.alloc(0);

	if (made == NULL)
		return NULL;
	library.init(made, NULL);
	if (made->imb_errno != 0 || made->submit_cipher_burst_nocheck == NULL || made->submit_hash_burst_nocheck == NULL) {
		library.free(made);
		return NULL;
	}
	return made;
}

int valiant_mb_usable(const char *driver)
{
	static int tried;

	if (driver == NULL || (strcmp(driver, "crypto_aesni_gcm") != 0 && strcmp(driver, "crypto_aesni_mb") != 0))
		return 0;
	if (!tried) {
		tried = 1;
		if (load())
			library.keys = manager();
	}
	return library.keys != NULL;
}

struct valiant_mb *valiant_mb_new(int numa_node)
{
	struct valiant_mb *mb = rte_zmalloc_socket(NULL, sizeof(*mb), 64, numa_node);

	if (mb != NULL)
		mb->manager = manager();
	if (mb == NULL || mb->manager == NULL) {
		rte_free(mb);
		rte_errno = ENOMEM;
		return NULL;
	}
	return mb;
}

void valiant_mb_free(struct valiant_mb *mb)
{
	if (mb == NULL)
		return;
	library.free(mb->manager);
	rte_free(mb);
}

static int gcm_keys(IMB_MGR *m, struct session *session, const struct valiant_crypto_transform *t)
{
	switch (t->key_len) {
	case IMB_KEY_128_BYTES:
		IMB_AES128_GCM_PRE(m, t->key, &session->gcm_key);
		session->gcm = t->encrypt ? m->gcm128_enc : m->gcm128_dec;
		return 1;
	case IMB_KEY_192_BYTES:
		IMB_AES192_GCM_PRE(m, t->key, &session->gcm_key);
		session->gcm = t->encrypt ? m->gcm192_enc : m->gcm192_dec;
		return 1;
	case IMB_KEY_256_BYTES:
		IMB_AES256_GCM_PRE(m, t->key, &session->gcm_key);
		session->gcm = t->encrypt ? m->gcm256_enc : m->gcm256_dec;
		return 1;
	default:
		return 0;
	}
}

static int cbc_keys(IMB_MGR *m, struct session *session, const struct valiant_crypto_transform *t)
{
	/* RFC 2104: the first block of the inner and of the outer hash. */
	uint8_t inner[64], outer[64];
	int sha256 = t->algorithm == VALIANT_CRYPTO_AES_CBC_HMAC_SHA256;

	switch (t->key_len) {
	case IMB_KEY_128_BYTES:
		IMB_AES_KEYEXP_128(m, t->key, session->encrypt_keys, session->decrypt_keys);
		break;
	case IMB_KEY_192_BYTES:
		IMB_AES_KEYEXP_192(m, t->key, session->encrypt_keys, session->decrypt_keys);
		break;
	case IMB_KEY_256_BYTES:
		IMB_AES_KEYEXP_256(m, t->key, session->encrypt_keys, session->decrypt_keys);
		break;
	default:
		return 0;
	}
	if (t->auth_key_len > sizeof(inner))
		return 0;
	memset(inner, 0x36, sizeof(inner));
	memset(outer, 0x5c, sizeof(outer));
	for (uint16_t i = 0; i < t->auth_key_len; i++) {
		inner[i] ^= t->auth_key[i];
		outer[i] ^= t->auth_key[i];
	}
	if (sha256) {
		IMB_SHA256_ONE_BLOCK(m, inner, session->inner);
		IMB_SHA256_ONE_BLOCK(m, outer, session->outer);
	} else {
		IMB_SHA1_ONE_BLOCK(m, inner, session->inner);
		IMB_SHA1_ONE_BLOCK(m, outer, session->outer);
	}
	explicit_bzero(inner, sizeof(inner));
	explicit_bzero(outer, sizeof(outer));
	session->hash = sha256 ? IMB_AUTH_HMAC_SHA_256 : IMB_AUTH_HMAC_SHA_1;
	session->kind = (t->key_len / 8 - 2) << 2 | sha256 << 1 | (t->encrypt != 0);
	return 1;
}

void *valiant_mb_session(const struct valiant_crypto_transform *t, int numa_node)
{
	static uint64_t ids;
	struct session *session = rte_zmalloc_socket(NULL, sizeof(*session), 64, numa_node);

	if (session == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	session->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
	session->encrypt = t->encrypt != 0;
	session->key_len = t->key_len;
	session->aad_len = t->aad_len;
	session->tag_len = t->digest_len;
	if (t->digest_len > MAX_TAG || !(t->algorithm == VALIANT_CRYPTO_AES_GCM ? gcm_keys(library.keys, session, t) :
										cbc_keys(library.keys, session, t))) {
		valiant_mb_session_free(session);
		rte_errno = ENOTSUP;
		return NULL;
	}
	return session;
}

void valiant_mb_session_free(void *session)
{
	explicit_bzero(session, sizeof(struct session));
	rte_free(session);
}

/* Whether two tags are the same, in a time that does not depend on where they differ. */
static inline int same_tag(const uint8_t *a, const uint8_t *b, uint16_t len)
{
	uint64_t x[2], y[2];
	uint32_t u, v;
	uint8_t differ = 0;

	memcpy(x, a, 8);
	memcpy(y, b, 8);
	switch (len) {
	case 16:
		memcpy(x + 1, a + 8, 8);
		memcpy(y + 1, b + 8, 8);
		return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
	case 12:
		memcpy(&u, a + 8, 4);
		memcpy(&v, b + 8, 4);
		return ((x[0] ^ y[0]) | (u ^ v)) == 0;
	default:
		for (uint16_t i = 0; i < len; i++)
			differ |= a[i] ^ b[i];
		return differ == 0;
	}
}

static void all_gcm(struct valiant_crypto_job *jobs, uint16_t n, int *trouble)
{
	struct gcm_context_data context;
	uint8_t tag[MAX_TAG], extended[12];

	for (uint16_t i = 0; i < n; i++) {
		struct valiant_crypto_job *job = &jobs[i];
		const struct session *session = job->session;
		uint8_t *data = rte_pktmbuf_mtod(job->mbuf, uint8_t *);
		uint8_t *text = data + job->cipher_offset, *theirs = data + job->digest_offset;
		const uint8_t *aad = data + job->auth_offset;

		if (unlikely(job->extended)) {
			memcpy(extended, aad, 4);
			memcpy(extended + 4, job->iv + 12, 4);
			memcpy(extended + 8, aad + 4, 4);
			aad = extended;
		}
		session->gcm(&session->gcm_key, &context, text, text, job->cipher_len, job->iv, aad, session->aad_len,
			     session->encrypt ? theirs : tag, session->tag_len);
		if (!session->encrypt && unlikely(!same_tag(tag, theirs, session->tag_len))) {
			job->status = VALIANT_CRYPTO_FORGED;
			*trouble = 1;
		}
	}
}

/* The fields of a job that are the same for all packets of a session. */
static void set_session(IMB_JOB *job, const struct session *session)
{
	memset(job, 0, sizeof(*job));
	job->cipher_mode = IMB_CIPHER_CBC;
	job->cipher_direction = session->encrypt ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
	job->chain_order = session->encrypt ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
	job->hash_alg = session->hash;
	job->enc_keys = session->encrypt_keys;
	job->dec_keys = session->decrypt_keys;
	job->key_len_in_bytes = session->key_len;
	job->iv_len_in_bytes = 16;
	job->auth_tag_output_len_in_bytes = session->tag_len;
	job->u.HMAC._hashed_auth_key_xor_ipad = session->inner;
	job->u.HMAC._hashed_auth_key_xor_opad = session->outer;
}

/* The first n of the library's jobs, which are of one kind. */
static void burst(struct valiant_mb *mb, struct valiant_crypto_job *jobs, uint32_t n, const struct session *of, int *trouble)
{
	IMB_MGR *m = mb->manager;
	IMB_CIPHER_DIRECTION direction = of->encrypt ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
	uint32_t hashed = 0, ciphered;

	if (!of->encrypt)
		hashed = IMB_SUBMIT_HASH_BURST_NOCHECK(m, mb->jobs, n, of->hash);
	ciphered = IMB_SUBMIT_CIPHER_BURST_NOCHECK(m, mb->jobs, n, IMB_CIPHER_CBC, direction, of->key_len);
	if (of->encrypt)
		hashed = IMB_SUBMIT_HASH_BURST_NOCHECK(m, mb->jobs, n, of->hash);
	if (unlikely(hashed != n || ciphered != n)) {
		*trouble = 1;
		for (uint32_t i = 0; i < n; i++)
			jobs[mb->numbers[i]].status = VALIANT_CRYPTO_REFUSED;
		return;
	}
	if (of->encrypt)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct valiant_crypto_job *job = &jobs[mb->numbers[i]];
		const uint8_t *theirs = rte_pktmbuf_mtod_offset(job->mbuf, uint8_t *, job->digest_offset);

		if (unlikely(!same_tag(mb->tags[i], theirs, of->tag_len))) {
			job->status = VALIANT_CRYPTO_FORGED;
			*trouble = 1;
		}
	}
}

/* All packets whose session is of the same kind as that of job `first`. */
static void all_cbc(struct valiant_mb *mb, struct valiant_crypto_job *jobs, uint16_t first, uint16_t n, int *trouble)
{
	const struct session *of = jobs[first].session;
	uint32_t k = 0;

	for (uint16_t i = first; i < n; i++) {
		struct valiant_crypto_job *job = &jobs[i];
		const struct session *session = job->session;
		uint8_t *data;
		IMB_JOB *its;

		if (unlikely(session->kind != of->kind))
			continue;
		if (unlikely(job->cipher_len == 0 || job->auth_len > LONGEST)) {
			job->status = VALIANT_CRYPTO_REFUSED;
			*trouble = 1;
			continue;
		}
		data = rte_pktmbuf_mtod(job->mbuf, uint8_t *);
		its = &mb->jobs[k];
		if (unlikely(mb->sessions[k] != session->id)) {
			mb->sessions[k] = session->id;
			set_session(its, session);
		}
		its->src = data;
		its->dst = data + job->cipher_offset;
		its->cipher_start_src_offset_in_bytes = job->cipher_offset;
		its->msg_len_to_cipher_in_bytes = job->cipher_len;
		its->hash_start_src_offset_in_bytes = job->auth_offset;
		its->msg_len_to_hash_in_bytes = job->auth_len;
		its->iv = job->iv;
		its->auth_tag_output = session->encrypt ? data + job->digest_offset : mb->tags[k];
		mb->numbers[k] = i;
		if (++k == BURST) {
			burst(mb, jobs, k, of, trouble);
			k = 0;
		}
	}
	if (k > 0)
		burst(mb, jobs, k, of, trouble);
}

void valiant_mb_process(struct valiant_mb *mb, struct valiant_crypto_job *jobs, uint16_t n, int gcm, int *trouble)
{
	unsigned int kinds = 0;

	*trouble = 0;
	if (gcm) {
		all_gcm(jobs, n, trouble);
		return;
	}
	for (uint16_t first = 0; first < n; first++) {
		unsigned int kind = 1U << ((const struct session *)jobs[first].session)->kind;

		if (kinds & kind)
			continue;
		kinds |= kind;
		all_cbc(mb, jobs, first, n, trouble);
	}
}

#else

int valiant_mb_usable(const char *driver)
{
	(void)driver;
	return 0;
}

struct valiant_mb *valiant_mb_new(int numa_node)
{
	(void)numa_node;
	rte_errno = ENOTSUP;
	return NULL;
}

void valiant_mb_free(struct valiant_mb *mb)
{
	(void)mb;
}

void *valiant_mb_session(const struct valiant_crypto_transform *transform, int numa_node)
{
	(void)transform;
	(void)numa_node;
	rte_errno = ENOTSUP;
	return NULL;
}

void valiant_mb_session_free(void *session)
{
	(void)session;
}

void valiant_mb_process(struct valiant_mb *mb, struct valiant_crypto_job *jobs, uint16_t n, int gcm, int *trouble)
{
	(void)mb;
	(void)gcm;
	*trouble = 1;
	for (uint16_t i = 0; i < n; i++)
		jobs[i].status = VALIANT_CRYPTO_REFUSED;
}

#endif
