#ifndef HVD_WORKER_LAUNCH_CORE_TAIL_H
#define HVD_WORKER_LAUNCH_CORE_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define HVD_TAIL_MAX 4096

/* The last bytes of one stream, however long it is. A zeroed struct is an empty one. */
struct hvd_tail {
    char _data[2 * HVD_TAIL_MAX]; /* only the last HVD_TAIL_MAX bytes count */
    size_t _len;
    size_t _line;         /* the beginning of the current line */
    bool _is_overwritten; /* the last byte was a carriage return, and what follows replaces the
                             line */
    uint64_t order;       /* of the next addition among those to all streams of the program, which
                             the owner counts; 0: unknown */
    uint64_t newest;      /* the order of the newest line that may be the program's own word */
    size_t _n_frames;     /* the number of consecutive lines that are frames of a stack */
};

/* Appends bytes, and drops the oldest. A line that a carriage return overwrites (a progress bar)
 * keeps only its last text. A line of more than 1,000 bytes keeps its beginning, which names an
 * exception. A stack in C or C++ keeps its first frames. */
void hvd_tail_add(struct hvd_tail *tail, struct hvd_strview data);

/*
 * Writes the last lines that fit as clean text: whole lines unless one is longer than out. Removes
 * colours, control characters (except tabs), invalid UTF-8, blank lines at both ends, and the last
 * newline. size is at least 1; returns the length.
 */
size_t hvd_tail_clean(const struct hvd_tail *tail, char *out, size_t size);

#endif
