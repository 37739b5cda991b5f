#ifndef HVD_WORKER_ENGINE_NEGOTIATE_BEATS_H
#define HVD_WORKER_ENGINE_NEGOTIATE_BEATS_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Creates the set's heartbeat if stalls are checked. HVD_ERR_NOMEM. */
hvd_status_t hvd_beats_create(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* Records that the rank at this position of the set has sent something. */
void hvd_beats_received(struct hvd_set *set, int position, int64_t now_ns);

/* Records that a branch of set 0 has announced its end, so it answers no more. */
void hvd_beats_left(struct hvd_engine *e, int branch);

/* Reads a PING, and answers it, or reads a PONG. HVD_ERR_INVALID; else fails as hvd_control_send
 * does. */
hvd_status_t hvd_beats_read(struct hvd_engine *e, struct hvd_set *set, int position,
                            struct hvd_reader *reader, struct hvd_err *err);

/* Whether a wait has lasted so long that neighbours are probed. Then the progress owner checks
 * more often. */
bool hvd_beats_are_active(const struct hvd_engine *e);

/*
 * Whether some rank of the set, which this rank coordinates, cannot be expected to leave the job.
 * The job is about to end because of a tensor that has waited since before_ns. The rank has been
 * silent for the warning time, or for half of it if the tensor waits for the rank. Other silent
 * ranks may only be busy.
 */
bool hvd_beats_are_missed(const struct hvd_engine *e, const struct hvd_set *set, int64_t before_ns);

/* Appends the ranks that have not answered for half of the warning time, except those already
 * named, since they may be behind the same link. Appends nothing when there are none. */
void hvd_beats_add_silent(const struct hvd_engine *e, const struct hvd_set *set, const int *named,
                          int n_named, struct hvd_text *text);

/* Probes the ranks that are waited for, warns of silent ones and gives them up. On failure the
 * job ends. */
hvd_status_t hvd_beats_check(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

#endif
