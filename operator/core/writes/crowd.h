#ifndef HVD_OPERATOR_CORE_WRITES_CROWD_H
#define HVD_OPERATOR_CORE_WRITES_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Repairs of one job beyond those that have records of their own (repair.h): they share one
 * backoff, so that the number of writes does not grow with the number of objects. What is written
 * is remembered in a Bloom filter. A write that is not in it is a first one: 128 of them are sent
 * in each 2 s. One that is in it was undone (a few only seem so): such writes are sent in rounds of
 * 128, the first 2 s after the crowd began and each further one twice as long after the one before,
 * at most 5 minutes. What was not needed for 10 minutes since it was due is forgotten.
 */
struct hvd_crowd {
    uint8_t *bits;       /* owned; 32 KiB, a Bloom filter */
    int64_t window_ms;   /* when the window of first writes began */
    int64_t round_ms;    /* when the last round of repeated writes began */
    int64_t last_ms;     /* when anything was written */
    unsigned n_first;    /* first writes in the window */
    unsigned n_written;  /* and all of them */
    unsigned n_repeated; /* repeated ones */
    unsigned n_rounds;   /* rounds, the beginning counts as one */
    bool is_announced;   /* the event about it was written */
};

#define HVD_CROWD_EACH 128 /* writes in a window or a round */
#define HVD_CROWD_KEY 1    /* that of the event about it, where others have a record's */

/* Begins a crowd at now_ms (the server's). NULL: out of memory. */
struct hvd_crowd *hvd_crowd_create(int64_t now_ms);

/* Frees it; NULL is legal. */
void hvd_crowd_destroy(struct hvd_crowd *crowd);

/* Whether that value was written to that thing before, or seems so. */
bool hvd_crowd_has(const struct hvd_crowd *crowd, uint64_t key, uint64_t value);

/*
 * When the write may be sent: now_ms or earlier for at once. n_planned is how many of the same sort
 * (first or repeated) the plan holds already.
 */
int64_t hvd_crowd_due_ms(const struct hvd_crowd *crowd, bool is_repeated, unsigned n_planned,
                         int64_t now_ms);

/* Records that the value was written. */
void hvd_crowd_note(struct hvd_crowd *crowd, uint64_t key, uint64_t value, int64_t now_ms);

/* Whether so many writes were repeated that another writer must be at work. */
bool hvd_crowd_is_fought(const struct hvd_crowd *crowd);

/* From when on the crowd counts no more. */
int64_t hvd_crowd_calm_ms(const struct hvd_crowd *crowd);

/* Whether it counts no more at now_ms, also because the clock was set back. */
bool hvd_crowd_is_calm(const struct hvd_crowd *crowd, int64_t now_ms);

#endif
