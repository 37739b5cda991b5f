#ifndef HVD_OPERATOR_CORE_WRITES_DENIAL_H
#define HVD_OPERATOR_CORE_WRITES_DENIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "operator/core/pass/plan.h"

/*
 * Denied writes, and when each may be tried again: after 0.1 s, then twice as long each time, up to
 * 30 s. The wait belongs to the write (repair.h: an object, a field, a value) for one generation of
 * the job; all other work of the job continues. Another value or generation may be tried a second
 * after the last denial. So changes of a spec never make the operator write more often. A write
 * that was not denied for 10 minutes is forgotten.
 *
 * 128 writes of a job have a wait of their own, 96 of them to pods. Further ones to pods share one
 * wait, and so do further ones to other objects. Pure.
 */
struct hvd_denials; /* opaque; NULL: none */

/* A write in a generation of its job. */
struct hvd_attempted_write {
    uint64_t key; /* hvd_repair_key */
    uint64_t value;
    int64_t generation;
    bool is_of_pod;
};

#define HVD_DENIALS_NEWS_SHIFT 32

/* The write of that repair to that object. A status differs with each event, so only the upper half
 * of its value counts, which hashes its news. */
struct hvd_attempted_write hvd_denials_write(enum hvd_kind kind, const char *name,
                                             enum hvd_repair repair, uint64_t value,
                                             int64_t generation);

/* Records that the write was denied at now_ms (the server's); it waits for at_least_ms. *denials is
 * the caller's to destroy. HVD_ERR_NOMEM: nothing is recorded. */
hvd_status_t hvd_denials_note(struct hvd_denials **denials, const struct hvd_attempted_write *write,
                              int64_t now_ms, int64_t at_least_ms);

/* When the write may be tried again; 0: at once. A clock that was set back lengthens no wait. */
int64_t hvd_denials_due_ms(const struct hvd_denials *denials,
                           const struct hvd_attempted_write *write, int64_t now_ms);

/* Forgets the wait of an accepted write, its own or the shared one. */
void hvd_denials_drop(struct hvd_denials **denials, const struct hvd_attempted_write *write);

/* Forgets writes that were not denied for 10 minutes; without any left *denials is NULL. */
void hvd_denials_prune(struct hvd_denials **denials, int64_t now_ms);

/* Frees all. NULL is legal. */
void hvd_denials_destroy(struct hvd_denials *denials);

#endif
