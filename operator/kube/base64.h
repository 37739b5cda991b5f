#ifndef HVD_OPERATOR_KUBE_BASE64_H
#define HVD_OPERATOR_KUBE_BASE64_H

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* Appends the standard base64 form of len bytes to out. Failures as hvd_buf_add. */
hvd_status_t hvd_base64_encode(const void *data, size_t len, struct hvd_buf *out);

/*
 * Decodes the base64 text and appends its bytes to out. Skips white space; padding must be right.
 * HVD_ERR_INVALID for any other text (out may then hold a part), or as hvd_buf_add.
 */
hvd_status_t hvd_base64_decode(struct hvd_strview text, struct hvd_buf *out);

#endif
