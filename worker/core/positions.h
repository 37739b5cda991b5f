#ifndef HVD_WORKER_CORE_POSITIONS_H
#define HVD_WORKER_CORE_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/core/tree.h"

/* Sets of positions in a tree, a bit each, from 0 on: arrays of words that the user owns. */

/* Words of a set of positions 0 to size - 1. */
size_t hvd_positions_words(int size);

/* Whether a position is in the set. */
bool hvd_positions_has(const uint64_t *set, int position);

/* Adds a range. */
void hvd_positions_add(uint64_t *set, struct hvd_pos_range range);

/* Whether any position of the range is in the set. */
bool hvd_positions_any(const uint64_t *set, struct hvd_pos_range range);

/* How many positions are in one of two sets, or both. */
int hvd_positions_count(const uint64_t *a, const uint64_t *b, int size);

/*
 * The next positions in a row that are in the set but not in `without` (NULL: none), from `from`
 * on; false when there are none before size.
 */
bool hvd_positions_next(const uint64_t *set, const uint64_t *without, int size, int from,
                        struct hvd_pos_range *range);

#endif
