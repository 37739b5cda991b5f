#ifndef HVD_OPERATOR_CORE_CHILDREN_H
#define HVD_OPERATOR_CORE_CHILDREN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/api/kind.h"

/* The bodies of a job's children, built from the job alone. */

#define HVD_CHILD_NAME_MAX 64

/* Writes the name of the job's child of that kind (J-ssh, J, J-worker, J-hosts, J-master) to out.
 */
void hvd_child_name(const struct hvd_job *job, enum hvd_kind kind, char out[HVD_CHILD_NAME_MAX]);

/* Key material that the shell makes (OpenSSL, P-256): terminated texts, borrowed for the call. */
struct hvd_ssh_key {
    const char *private_pem; /* "-----BEGIN EC PRIVATE KEY-----" ..., ends with a newline */
    const char *public_line; /* "ecdsa-sha2-nistp256 AAAA...", no newline, no comment */
};

/*
 * The body of the Secret J-ssh: type Opaque, immutable, stringData id, id.pub and known_hosts. It
 * holds a private key: wipe it (explicit_bzero) before hvd_free, and never log it. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_secret_encode(const struct hvd_job *job, const struct hvd_ssh_key *key, char **out,
                               struct hvd_err *err);

/* The bodies of the other children; the caller frees *out with hvd_free. HVD_ERR_NOMEM. */
hvd_status_t hvd_service_encode(const struct hvd_job *job, char **out, struct hvd_err *err);

#endif
