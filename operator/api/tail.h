#ifndef HVD_OPERATOR_API_TAIL_H
#define HVD_OPERATOR_API_TAIL_H

#include <stddef.h>

#include "base/str.h"

/*
 * How many bytes to drop behind the opening quote of a JSON string so that at most max_bytes (at
 * least 12) of what follows it stay. The text begins with that quote, and may end anywhere behind
 * it. No escape sequence, pair of surrogates or UTF-8 sequence is cut in two. A text that grew
 * behind a tail taken earlier with the same max_bytes has the same tail as the whole one. Pure.
 */
size_t hvd_tail_excess(struct hvd_strview text, size_t max_bytes);

#endif
