#ifndef HVD_OPERATOR_APP_DOUBTS_H
#define HVD_OPERATOR_APP_DOUBTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_DOUBTS_MAX 64
#define HVD_DOUBT_MS 10000

/*
 * Jobs that an answer to a request reported as gone, and the watch has not. The watch normally
 * follows within moments. If not, the answer was wrong, and a watch without a change never shows
 * the job again; then a list decides. A zeroed struct has none.
 */
struct hvd_doubts {
    uint64_t _uids[HVD_DOUBTS_MAX]; /* hashes */
    size_t _n;
    bool _is_full;   /* there were more */
    int64_t _due_ms; /* valid with _n */
};

/* Adds a job, by uid, that an answer at now_ms reported as gone. */
void hvd_doubts_add(struct hvd_doubts *doubts, const char *uid, int64_t now_ms);

/* Removes a job that the watch has reported as gone. */
void hvd_doubts_settle(struct hvd_doubts *doubts, const char *uid);

/* Removes all, after a list of all jobs. */
void hvd_doubts_clear(struct hvd_doubts *doubts);

/* When a list must decide; INT64_MAX while there is no doubt. */
int64_t hvd_doubts_due_ms(const struct hvd_doubts *doubts);

#endif
