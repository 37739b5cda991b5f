#ifndef HVD_WORKER_LAUNCH_CORE_TAIL_H
#define HVD_WORKER_LAUNCH_CORE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define HVD_TAIL_MAX 4096

/* The last bytes of one stream, however long it is. A zeroed struct is an empty one. */
struct hvd_tail {
    char _data[2 * HVD_TAIL_MAX]; /* the last HVD_TAIL_MAX bytes of it count */
    size_t _len;
    size_t _line;         /* where the current line begins */
    bool _is_overwritten; /* a carriage return came last, and what follows replaces the line */
    size_t _n_frames;     /* lines that are frames of a stack, one behind the other */
};

/* Appends bytes; the oldest go. A line that a carriage return overwrites (a progress bar) leaves
 * its last text only, a line of more than 1,000 bytes its beginning: that names an exception. Of a
 * stack in C or C++ the first frames stay. */
void hvd_tail_add(struct hvd_tail *tail, struct hvd_strview data);

/*
 * Writes the last lines that fit as clean text: whole lines where one is not longer than out,
 * without colours, control characters (a tab is kept) and what is no UTF-8, without blank lines at
 * the ends and without a newline at the end. size is at least 1; returns the length.
 */
size_t hvd_tail_clean(const struct hvd_tail *tail, char *out, size_t size);

#endif
