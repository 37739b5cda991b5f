#ifndef HVD_OPERATOR_APP_QUEUE_H
#define HVD_OPERATOR_APP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * What is to be reconciled, and when. An item lives inside the thing it stands for (a job), so that
 * adding never allocates but for the heap itself, and a job is never in the queue twice.
 *
 *            add            take                    done
 *   IDLE ----------> DUE ----------> ACTIVE ---------------------> IDLE
 *                     ^                | add while active: done leads back to DUE
 *                     +----------------+
 *
 * Pure: every call brings the time. One thread.
 */
struct hvd_queue_item {
    int64_t _due_ms;
    size_t _index; /* in the heap, plus one; 0: not in it */
    bool _is_active;
    bool _is_again; /* added while active, for _due_ms */
    unsigned _n_failures;
};

struct hvd_queue {
    struct hvd_queue_item **_heap;
    size_t _n;
    size_t _capacity;
    size_t _n_items;
};

/* Frees the heap. A zeroed queue is legal, and is an empty one. */
void hvd_queue_fini(struct hvd_queue *queue);

/* Makes room for one more item, so that add cannot fail. Call once per item. HVD_ERR_NOMEM. */
hvd_status_t hvd_queue_reserve(struct hvd_queue *queue);

/* Takes an item out for good, whatever its state, and gives its room back. */
void hvd_queue_forget(struct hvd_queue *queue, struct hvd_queue_item *item);

/* Wants the item at due_ms, or earlier when it is already wanted earlier. */
void hvd_queue_add(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t due_ms);

/* The item that is due first, now active; NULL when none is due at now_ms. */
struct hvd_queue_item *hvd_queue_take(struct hvd_queue *queue, int64_t now_ms);

/* Ends the active state after success: failures are forgotten. */
void hvd_queue_done(struct hvd_queue *queue, struct hvd_queue_item *item);

/*
 * Ends the active state after a failure: the item comes back after a backoff that doubles with each
 * failure in a row (random: any 32 bits), or at_least_ms. Events that came while it was active
 * do not shorten the wait, later ones do. Returns the wait.
 */
int64_t hvd_queue_fail(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t now_ms,
                       uint32_t random, int64_t at_least_ms);

/* When the first item is due; INT64_MAX when there is none. */
int64_t hvd_queue_next_ms(const struct hvd_queue *queue);

/* Items that are due at now_ms and not taken. */
size_t hvd_queue_depth(const struct hvd_queue *queue, int64_t now_ms);

#endif
