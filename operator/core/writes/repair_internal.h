#ifndef HVD_OPERATOR_CORE_WRITES_REPAIR_INTERNAL_H
#define HVD_OPERATOR_CORE_WRITES_REPAIR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "operator/api/kind.h"
#include "operator/core/pass/plan.h"
#include "operator/core/writes/crowd.h"
#include "operator/core/writes/repair.h"

/* Within operator/core only: the log of repairs, as contest.c reads it. */

#define HVD_REPAIR_CALM_MS                                                                         \
    600000 /* what was not needed for so long since it was due is forgotten */

/* The key under which the log keeps a repair of an object. */
uint64_t hvd_repair_key(enum hvd_kind kind, const char *name, enum hvd_repair repair);

/* The record of that key; NULL if there is none, or no log. Borrowed. */
const struct hvd_repair_record *hvd_repairs_find(const struct hvd_repairs *repairs, uint64_t key);

/* Whether a write to an object of that kind, which has no record, gets one of its own, beside
 * n_planned others that do; repairs may be NULL. */
bool hvd_repairs_has_room(const struct hvd_repairs *repairs, enum hvd_kind kind, size_t n_planned);

/* The shared backoff of the writes without records; NULL if there is none, or it no longer counts.
 * Borrowed. */
const struct hvd_crowd *hvd_repairs_crowd(const struct hvd_repairs *repairs, int64_t now_ms);

/* Whether a former operator has reported that others undo such a write, and no more than 10 minutes
 * ago; repairs may be NULL. */
bool hvd_repairs_has_carried(const struct hvd_repairs *repairs, const struct hvd_action *action,
                             int64_t now_ms);

/* Whether a repair costs more than its own request: an attempt, or a new object. */
bool hvd_repair_is_costly(enum hvd_repair repair);

/* Whether a write of that value at now_ms would repeat the last one, so that it was undone. */
bool hvd_repair_is_again(const struct hvd_repair_record *record, uint64_t value, int64_t now_ms);

/* Whether a write that is needed again was undone so often that another writer must be at work. */
bool hvd_repair_is_fight(const struct hvd_repair_record *record);

/* For a write that was undone: its longest wait, when it may be sent again, and when its record
 * stops counting. */
int64_t hvd_repair_longest_ms(const struct hvd_repair_record *record);
int64_t hvd_repair_due_ms(const struct hvd_repair_record *record);
int64_t hvd_repair_calm_ms(const struct hvd_repair_record *record);

#endif
