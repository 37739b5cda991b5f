#ifndef HVD_OPERATOR_APP_QUEUE_H
#define HVD_OPERATOR_APP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * The order and time in which jobs are reconciled. An item lives inside its job, so that only the
 * heaps themselves allocate, and a job is never in the queue twice. Among due items, one of a later
 * rank follows all items of earlier ranks that become due within HVD_QUEUE_DELAY_MS after it: it
 * waits, but not for ever.
 *
 *            add            take                    done
 *   IDLE ----------> DUE ----------> ACTIVE ---------------------> IDLE
 *                     ^                | add while active: done leads back to DUE
 *                     +----------------+
 *
 * Pure: every call passes the time. One thread.
 */
#define HVD_QUEUE_DELAY_MS 1000

enum hvd_queue_rank { HVD_QUEUE_SOON, HVD_QUEUE_NEXT, HVD_QUEUE_LATER, HVD_N_QUEUE_RANKS };

struct hvd_queue_item {
    int64_t _due_ms;
    size_t _index; /* in the heap of its rank, plus one; 0: in none */
    unsigned char _rank;
    bool _is_active;
    bool _is_again; /* added while active, for _due_ms and _rank */
    unsigned _n_failures;
};

struct hvd_queue_heap {
    struct hvd_queue_item **_items;
    size_t _n;
};

struct hvd_queue {
    struct hvd_queue_heap _heaps[HVD_N_QUEUE_RANKS];
    size_t _capacity; /* of each heap */
    size_t _n_items;
};

/* Frees the heaps. A zeroed queue is legal and empty. */
void hvd_queue_fini(struct hvd_queue *queue);

/* Makes room for one more item, so that add cannot fail. Call once per item. HVD_ERR_NOMEM. */
hvd_status_t hvd_queue_reserve(struct hvd_queue *queue);

/* Removes an item for good, in any state, and gives its room back. */
void hvd_queue_forget(struct hvd_queue *queue, struct hvd_queue_item *item);

/* Queues the item for due_ms and that rank. An earlier time or rank that it already has stays. */
void hvd_queue_add(struct hvd_queue *queue, struct hvd_queue_item *item, enum hvd_queue_rank rank,
                   int64_t due_ms);

/* Takes the first item, which becomes active; NULL when none is due at now_ms. Items of ranks after
 * `last` do not count before their delay is over. */
struct hvd_queue_item *hvd_queue_take(struct hvd_queue *queue, enum hvd_queue_rank last,
                                      int64_t now_ms);

/* Ends the active state after success: forgets failures. */
void hvd_queue_done(struct hvd_queue *queue, struct hvd_queue_item *item);

/* Ends the active state of an item that could not be processed. It returns at due_ms, or when it
 * was added meanwhile, in its old rank. Keeps failures. */
void hvd_queue_put_back(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t due_ms);

/*
 * Ends the active state after a failure. The item returns, in its old rank, after a backoff that
 * doubles with each failure in a row (random: any 32 bits), or after at_least_ms. Events that came
 * while it was active do not shorten the wait; later ones do. Returns the wait.
 */
int64_t hvd_queue_fail(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t now_ms,
                       uint32_t random, int64_t at_least_ms);

/* When take will return an item; INT64_MAX when there is none. */
int64_t hvd_queue_next_ms(const struct hvd_queue *queue, enum hvd_queue_rank last);

/* Items that are due at now_ms and not taken. */
size_t hvd_queue_depth(const struct hvd_queue *queue, int64_t now_ms);

#endif
