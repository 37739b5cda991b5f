#ifndef HVD_OPERATOR_APP_SSHKEY_H
#define HVD_OPERATOR_APP_SSHKEY_H

#include "base/status.h"

/* A P-256 key pair in the forms that OpenSSH reads. */
struct hvd_sshkey {
    char *private_pem; /* owned; "-----BEGIN EC PRIVATE KEY-----" ..., ends with a newline */
    char *public_line; /* owned; "ecdsa-sha2-nistp256 AAAA...", no newline */
};

/* Makes a new key pair into *out, the caller's to fini. HVD_ERR_SYSTEM or HVD_ERR_NOMEM. */
hvd_status_t hvd_sshkey_generate(struct hvd_sshkey *out, struct hvd_err *err);

/* Wipes and frees. A zeroed struct is legal. */
void hvd_sshkey_fini(struct hvd_sshkey *key);

#endif
