/*
 * Intel's libipsec-mb without DPDK's driver around it. The drivers crypto_aesni_gcm and crypto_aesni_mb hand each packet to that
 * library; a batch of ESP packets needs less work in front of it. Internal to crypto.c.
 */
#ifndef VALIANT_IPSEC_MB_H
#define VALIANT_IPSEC_MB_H

#include "crypto.h"

struct valiant_mb;

/* Whether devices of this driver are the library, and the library can be used. Not by several threads at a time. */
int valiant_mb_usable(const char *driver);
/* The library's state for one queue; NULL with rte_errno. */
struct valiant_mb *valiant_mb_new(int numa_node);
void valiant_mb_free(struct valiant_mb *mb);
/* Keys that are ready for use; NULL with rte_errno. */
void *valiant_mb_session(const struct valiant_crypto_transform *transform, int numa_node);
/* Overwrites the keys. */
void valiant_mb_session_free(void *session);
/* As valiant_crypto_process. */
void valiant_mb_process(struct valiant_mb *mb, struct valiant_crypto_job *jobs, uint16_t n, int gcm, int *trouble);

#endif
