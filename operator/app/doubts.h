#ifndef HVD_OPERATOR_APP_DOUBTS_H
#define HVD_OPERATOR_APP_DOUBTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_DOUBTS_MAX 64
#define HVD_DOUBT_MS 10000

/*
 * Jobs that an answer to a request called gone, and of which the watch has not said so. The watch
 * follows within moments, or else the answer was wrong and the watch, which sees no change, never
 * shows the job again: then a list decides. A zeroed struct has none.
 */
struct hvd_doubts {
    uint64_t _uids[HVD_DOUBTS_MAX]; /* hashes */
    size_t _n;
    bool _is_full;   /* there were more */
    int64_t _due_ms; /* valid with _n */
};

/* An answer at now_ms called the job of this uid gone. */
void hvd_doubts_add(struct hvd_doubts *doubts, const char *uid, int64_t now_ms);

/* The watch has said so. */
void hvd_doubts_settle(struct hvd_doubts *doubts, const char *uid);

/* All jobs have been listed. */
void hvd_doubts_clear(struct hvd_doubts *doubts);

/* When a list has to decide; INT64_MAX while there is no doubt. */
int64_t hvd_doubts_due_ms(const struct hvd_doubts *doubts);

#endif
