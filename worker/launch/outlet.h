#ifndef HVD_WORKER_LAUNCH_OUTLET_H
#define HVD_WORKER_LAUNCH_OUTLET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "worker/launch/core/merge.h"
#include "worker/launch/pump.h"

/*
 * What horovodrun shows: its two streams. Standard output never makes it wait. Where both are the
 * same file, pipe or terminal, all is written in one order, and lines stay whole.
 */
struct hvd_outlet {
    struct hvd_pump pump;   /* to standard output */
    struct hvd_merge merge; /* what waits for it */
    size_t n_passed;        /* of merge.text, into the pump */
    bool is_joint;          /* standard error goes the same way */
    bool is_in_line;        /* what was shown last on standard error has no end of its line */
    int64_t until_ms;       /* so long standard error is waited for; 0: for ever */
};

/* Prepares it: looks whether the two streams are the same. */
void hvd_outlet_init(struct hvd_outlet *outlet);

/* Drops what is in it, and closes nothing. */
void hvd_outlet_fini(struct hvd_outlet *outlet);

/* Shows bytes of a stream, in their turn. Waits for whoever reads standard error where that is not
 * the same as standard output. */
void hvd_outlet_show(struct hvd_outlet *outlet, enum hvd_stream stream, struct hvd_strview data);

/* Shows a line of horovodrun's own on standard error, which stands alone; `line` has its end. */
void hvd_outlet_say(struct hvd_outlet *outlet, struct hvd_strview line);

/* Whether more may be put into it; it takes more nevertheless, within a limit. */
bool hvd_outlet_has_room(const struct hvd_outlet *outlet);

/* Whether standard error takes the way of standard output. */
bool hvd_outlet_is_joint(const struct hvd_outlet *outlet);

/* Whether something in it waits for whoever reads ours. */
bool hvd_outlet_is_waiting(const struct hvd_outlet *outlet);

/* Whether it has to be asked again after a while (hvd_outlet_step), although nothing comes. */
bool hvd_outlet_is_holding(const struct hvd_outlet *outlet);

/* What it waits for, as hvd_pump_poll. */
void hvd_outlet_poll(const struct hvd_outlet *outlet, struct pollfd *fd);

/* Moves what can be moved after poll said so; fd may be NULL. `look` is what there was to read for
 * it until now, since the last step. */
void hvd_outlet_step(struct hvd_outlet *outlet, const struct pollfd *fd, enum hvd_merge_look look);

/* Nothing more comes from the ranks: no line is waited for. */
void hvd_outlet_end(struct hvd_outlet *outlet);

/* From here on standard error is written to at once, whatever is in it, and waits for whoever reads
 * that for a short time in all: what does not fit is lost. */
void hvd_outlet_part(struct hvd_outlet *outlet);

#endif
