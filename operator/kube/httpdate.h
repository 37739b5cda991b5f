#ifndef HVD_OPERATOR_KUBE_HTTPDATE_H
#define HVD_OPERATOR_KUBE_HTTPDATE_H

#include <stdint.h>

#include "base/str.h"

/* The Unix seconds of a header line "Date: Sun, 06 Nov 1994 08:49:37 GMT" with or without its end;
 * 0 for every other line and every other form of date. Pure. */
int64_t hvd_httpdate_parse(struct hvd_strview line);

#endif
