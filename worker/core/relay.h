#ifndef HVD_WORKER_CORE_RELAY_H
#define HVD_WORKER_CORE_RELAY_H

#include "worker/core/message.h"

/*
 * An inner node of a set's tree: merges what its parties (itself, and every child with all that
 * hangs under it) ask for, so that its parent hears of a tensor once.
 *
 *     requests of positions ──> waiting ──all of the subtree──> one request, by spans ──┐
 *     bits of parties       ──> words   ──all parties, ANDed──> BITS ───────────────────┼─> parent
 *     JOIN                  ──────────────────────at once─────────────────────────────>─┤
 *     leaves                ──> the first one at once, the last one for all ────────────┘
 *
 *     plan of the parent ──> children first, as it is; then hvd_relay_plan
 *
 * Nothing is decided here. Requests of one name that differ go up as one request each, with the
 * positions that make it, so that the coordinator sees what is wrong. Ranks that have joined count
 * as having asked, but are not among the positions. A tensor that has a slot and is asked for by
 * name all the same must go up at once, for the coordinator to take the slot away: the others have
 * asked by bit, and will ask by name when they hear of that.
 *
 * The relay follows the plans for what it must know of slots: which ones there are, since when, and
 * whether zeros of joined ranks make sense in them. Its children know no later plan than it does.
 */
struct hvd_relay;

struct hvd_relay_options {
    const struct hvd_node *node; /* has children; borrowed for good */
    uint32_t set;                /* the number of the process set */
    int world_size;              /* ranks of the job: roots are numbered in it */
};

/* A relay that knows of no tensor. HVD_ERR_NOMEM. */
hvd_status_t hvd_relay_create(const struct hvd_relay_options *options, struct hvd_relay **out,
                              struct hvd_err *err);

/* NULL is fine. */
void hvd_relay_destroy(struct hvd_relay *r);

/*
 * A party asks by name; the positions are within hvd_node_party_span. now_ns is only compared with
 * later ones. HVD_ERR_INVALID when the request is illegal or one of them has asked for the name
 * already, HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE: the peer or the job is broken then.
 */
hvd_status_t hvd_relay_request(struct hvd_relay *r, const struct hvd_ask *ask, int64_t now_ns,
                               struct hvd_err *err);

/* A party asks by bits, in a BITS message. Failures as above. */
hvd_status_t hvd_relay_bits(struct hvd_relay *r, int party, const struct hvd_reader *bits,
                            int64_t now_ns, struct hvd_err *err);

/* Ranks below leave; text is passed on with the first of them. Failures as above. */
hvd_status_t hvd_relay_leave(struct hvd_relay *r, struct hvd_span who, bool failed,
                             const char *text, struct hvd_err *err);

/* Whether the rank at a position below, or this one, has left. */
bool hvd_relay_has_left(const struct hvd_relay *r, int position);

/* Follows a plan, which is read. HVD_ERR_NOMEM, HVD_ERR_INVALID. */
hvd_status_t hvd_relay_plan(struct hvd_relay *r, struct hvd_reader plan, struct hvd_err *err);

/*
 * Passes on what is known of tensors that have waited for limit_ns: who has asked for them. What
 * was passed on once is not again, unless more ranks have asked since. Failures as above.
 */
hvd_status_t hvd_relay_stalled(struct hvd_relay *r, int64_t now_ns, int64_t limit_ns,
                               struct hvd_err *err);

/* The next message for the parent, to be sent in this order, into *message, borrowed until the
 * next call; NULL when there is none. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_relay_next(struct hvd_relay *r, const struct hvd_buf **message,
                            struct hvd_err *err);

/* Whether so much is to be sent that it should be sent before more is taken in. */
bool hvd_relay_is_full(const struct hvd_relay *r);

/* Tensors that some ranks of the subtree have asked for by name and others have not. */
size_t hvd_relay_waiting(const struct hvd_relay *r);

#endif
