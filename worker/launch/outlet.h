#ifndef HVD_WORKER_LAUNCH_OUTLET_H
#define HVD_WORKER_LAUNCH_OUTLET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "worker/launch/core/merge.h"
#include "worker/launch/pump.h"

/*
 * The output of horovodrun: its two streams. Standard output never blocks it. Where both streams
 * are the same file, pipe or terminal, the output has one order, and lines stay whole.
 */
struct hvd_outlet {
    struct hvd_pump pump;   /* to standard output */
    struct hvd_merge merge; /* text that waits for the pump */
    size_t n_passed;        /* of merge.text, already in the pump */
    bool is_joint;          /* standard error goes the same way */
    bool is_in_line;        /* standard error ends within a line */
    int64_t until_ms;       /* limit of waits for standard error; 0: none */
};

/* Prepares it, and checks whether the two streams are the same. */
void hvd_outlet_init(struct hvd_outlet *outlet);

/* Drops its contents, and closes nothing. */
void hvd_outlet_fini(struct hvd_outlet *outlet);

/* Shows bytes of a stream, in order. May block on the reader of standard error, unless that is the
 * same as standard output. */
void hvd_outlet_show(struct hvd_outlet *outlet, enum hvd_stream stream, struct hvd_strview data);

/* Shows a line of horovodrun's own on standard error. `line` includes its end, and stands alone. */
void hvd_outlet_say(struct hvd_outlet *outlet, struct hvd_strview line);

/* Whether more should be put into it. It accepts more even so, up to a limit. */
bool hvd_outlet_has_room(const struct hvd_outlet *outlet);

/* Whether standard error takes the way of standard output. */
bool hvd_outlet_is_joint(const struct hvd_outlet *outlet);

/* Whether it has output that waits for the reader. */
bool hvd_outlet_is_waiting(const struct hvd_outlet *outlet);

/* Whether hvd_outlet_step has to be called after a while, even without an event. */
bool hvd_outlet_is_holding(const struct hvd_outlet *outlet);

/* Writes the event that it waits for, as hvd_pump_poll. */
void hvd_outlet_poll(const struct hvd_outlet *outlet, struct pollfd *fd);

/* Moves all that can be moved after poll; fd may be NULL. `look` is the result of reading since the
 * last step. */
void hvd_outlet_step(struct hvd_outlet *outlet, const struct pollfd *fd, enum hvd_merge_look look);

/* Ends the waits for ends of lines: nothing more comes from the ranks. */
void hvd_outlet_end(struct hvd_outlet *outlet);

/* From here on, standard error is written at once, before anything that waits. Its reader has a
 * short time in all; bytes beyond that are lost. */
void hvd_outlet_part(struct hvd_outlet *outlet);

#endif
