#ifndef HVD_OPERATOR_API_TAIL_H
#define HVD_OPERATOR_API_TAIL_H

#include <stddef.h>

#include "base/str.h"

/*
 * How many bytes to drop after the opening quote of a JSON string so that at most max_bytes (at
 * least 12) stay. The text begins with that quote and may end anywhere after it. The cut never
 * splits an escape sequence, a surrogate pair or a UTF-8 sequence. A text that was cut earlier with
 * the same max_bytes and then grew has the same tail as the whole text. Pure.
 */
size_t hvd_tail_excess(struct hvd_strview text, size_t max_bytes);

#endif
