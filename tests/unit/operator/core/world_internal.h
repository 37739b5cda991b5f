#ifndef HVD_TESTS_UNIT_OPERATOR_CORE_WORLD_INTERNAL_H
#define HVD_TESTS_UNIT_OPERATOR_CORE_WORLD_INTERNAL_H

#include "tests/unit/operator/core/world.h"

/* Within world*.c only. */

#define WORLD_MAX_OBJECTS 128

/* A member of a pod whose Job lets it go while the operator runs, which has seen both. */
#define WORLD_RELEASED "released"

/* Whether that text stands at the path of an object. */
bool world_is(const cJSON *object, const char *path, const char *text);

/* Gives an object its next version, and a new one its identity. */
void world_stamp(struct world *w, cJSON *object, bool is_new);

/* How many attempts have ended, by the job's status. */
int64_t world_ended(const struct world *w);

/* Fails the test if a status counts more attempts than had ended before, and the end of one of them
 * has no entry in attemptLogs. */
void world_check_ends(const struct world *w, int64_t ended_before);

/* Sets w->trace by w->trace_events, if there are any. */
void world_read_events(struct world *w, const struct hvd_action *action);

/* Takes an object out and frees it. */
void world_drop(struct world *w, cJSON *object);

/* Deletes an object: it goes unless a finalizer holds it. False if nothing changes. */
bool world_delete(struct world *w, cJSON *object);

/* Deletes a pod as a controller does; false if nothing changes. */
bool world_delete_pod(struct world *w, cJSON *pod);

#endif
