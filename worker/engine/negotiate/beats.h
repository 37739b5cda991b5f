#ifndef HVD_WORKER_ENGINE_NEGOTIATE_BEATS_H
#define HVD_WORKER_ENGINE_NEGOTIATE_BEATS_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* The set's heartbeat, if there is to be one. HVD_ERR_NOMEM. */
hvd_status_t hvd_beats_create(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* A rank of the set, by its position, has sent something. */
void hvd_beats_received(struct hvd_set *set, int position, int64_t now_ns);

/* A branch of all ranks has told that it is done: it answers no more. */
void hvd_beats_left(struct hvd_engine *e, int branch);

/* Reads a PING, which is answered, or a PONG. HVD_ERR_INVALID; else as hvd_control_send. */
hvd_status_t hvd_beats_read(struct hvd_engine *e, struct hvd_set *set, int position,
                            struct hvd_reader *reader, struct hvd_err *err);

/* Whether somebody waits so long that neighbours are watched: the progress owner looks more often.
 */
bool hvd_beats_are_active(const struct hvd_engine *e);

/*
 * Whether a rank of the set, of which this one is the coordinator, cannot be expected to leave the
 * job that is about to end for a tensor that has waited since before_ns: nothing has come from it
 * for the warning time, or, where the tensor waits for it, for half of that. Others may be busy.
 */
bool hvd_beats_are_missed(const struct hvd_engine *e, const struct hvd_set *set, int64_t before_ns);

/* Appends who has not answered for half of the warning time besides those that are named already,
 * as behind the same link; nothing where there are none. */
void hvd_beats_add_silent(const struct hvd_engine *e, const struct hvd_set *set, const int *named,
                          int n_named, struct hvd_text *text);

/* Probes those who are waited for, warns of those who do not answer, gives them up. Failure: the
 * job ends. */
hvd_status_t hvd_beats_check(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

#endif
