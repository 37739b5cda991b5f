#ifndef HVD_WORKER_CORE_POSITIONS_H
#define HVD_WORKER_CORE_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/core/tree.h"

/* Sets of positions in a tree, from 0 on, one bit each: arrays of words that the user owns. */

/* Returns the number of words for a set of positions 0 to size - 1. */
size_t hvd_positions_words(int size);

/* Whether a position is in the set. */
bool hvd_positions_has(const uint64_t *set, int position);

/* Adds a range to the set. */
void hvd_positions_add(uint64_t *set, struct hvd_pos_range range);

/* Whether any position of the range is in the set. */
bool hvd_positions_any(const uint64_t *set, struct hvd_pos_range range);

/* Returns how many positions are in at least one of two sets. */
int hvd_positions_count(const uint64_t *a, const uint64_t *b, int size);

/*
 * Finds the next range of positions, from `from` on, that are in the set but not in `without`
 * (NULL: empty). False when there is none below size.
 */
bool hvd_positions_next(const uint64_t *set, const uint64_t *without, int size, int from,
                        struct hvd_pos_range *range);

#endif
