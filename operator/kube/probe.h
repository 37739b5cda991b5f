#ifndef HVD_OPERATOR_KUBE_PROBE_H
#define HVD_OPERATOR_KUBE_PROBE_H

#include "base/status.h"

/*
 * Asks an http or https URL until it answers with 200, once a second and at most n_attempts times.
 * Certificates are not verified, proxies not used, as by a kubelet's probe. Blocks. Needs
 * hvd_kube_client_global_init. HVD_ERR_UNAVAILABLE has the last answer's code and text, or why none
 * came; HVD_ERR_INVALID is returned at once: a URL that cannot be asked.
 */
hvd_status_t hvd_kube_probe_wait(const char *url, unsigned n_attempts, struct hvd_err *err);

#endif
