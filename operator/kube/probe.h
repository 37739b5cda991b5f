#ifndef HVD_OPERATOR_KUBE_PROBE_H
#define HVD_OPERATOR_KUBE_PROBE_H

#include "base/status.h"

/*
 * Requests an http or https URL until it answers with 200, once a second and at most n_attempts
 * times. Verifies no certificates and uses no proxies, like a kubelet's probe. Blocks. Needs
 * hvd_kube_client_global_init. HVD_ERR_UNAVAILABLE has the last answer's code and text, or why
 * there was none. An unusable URL returns HVD_ERR_INVALID at once.
 */
hvd_status_t hvd_kube_probe_wait(const char *url, unsigned n_attempts, struct hvd_err *err);

#endif
