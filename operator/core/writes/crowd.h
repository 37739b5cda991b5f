#ifndef HVD_OPERATOR_CORE_WRITES_CROWD_H
#define HVD_OPERATOR_CORE_WRITES_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Repairs of one job beyond those with records of their own (repair.h). They share one backoff, so
 * that the number of writes does not grow with the number of objects. A Bloom filter remembers the
 * writes. A write that is not in it is a first one: 128 of them are sent in each 2 s. One that is
 * in it was undone (some only seem so). Such writes are sent in rounds of 128, the first 2 s after
 * the crowd began. Each further wait is twice as long, up to 5 minutes. A write that was not needed
 * for 10 minutes since it was due is forgotten.
 */
struct hvd_crowd {
    uint8_t *bits;       /* owned; 32 KiB, a Bloom filter */
    int64_t window_ms;   /* when the window of first writes began */
    int64_t round_ms;    /* start of the last round of repeated writes */
    int64_t last_ms;     /* time of the last write */
    unsigned n_first;    /* first writes in the window */
    unsigned n_written;  /* all writes in the window */
    unsigned n_repeated; /* repeated ones */
    unsigned n_rounds;   /* number of rounds; the beginning counts as one */
    bool is_announced;   /* the event about it was written */
};

#define HVD_CROWD_EACH 128 /* writes in a window or a round */
#define HVD_CROWD_KEY 1    /* the key of the event about the crowd, in place of a record's key */

/* Begins a crowd at now_ms (the server's). NULL: out of memory. */
struct hvd_crowd *hvd_crowd_create(int64_t now_ms);

/* Frees it; NULL is legal. */
void hvd_crowd_destroy(struct hvd_crowd *crowd);

/* Whether that value was written to that target before, or seems so. */
bool hvd_crowd_has(const struct hvd_crowd *crowd, uint64_t key, uint64_t value);

/*
 * When the write may be sent; at once if that is now_ms or earlier. n_planned is the number of
 * writes of the same sort (first or repeated) in the plan.
 */
int64_t hvd_crowd_due_ms(const struct hvd_crowd *crowd, bool is_repeated, unsigned n_planned,
                         int64_t now_ms);

/* Records that the value was written. */
void hvd_crowd_note(struct hvd_crowd *crowd, uint64_t key, uint64_t value, int64_t now_ms);

/* Whether so many writes were repeated that another writer must be at work. */
bool hvd_crowd_is_fought(const struct hvd_crowd *crowd);

/* When the crowd stops counting. */
int64_t hvd_crowd_calm_ms(const struct hvd_crowd *crowd);

/* Whether it no longer counts at now_ms, also because the clock was set back. */
bool hvd_crowd_is_calm(const struct hvd_crowd *crowd, int64_t now_ms);

#endif
