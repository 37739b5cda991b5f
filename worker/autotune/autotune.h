#ifndef HVD_WORKER_AUTOTUNE_AUTOTUNE_H
#define HVD_WORKER_AUTOTUNE_AUTOTUNE_H

#include "base/log.h"
#include "base/str.h"
#include "worker/autotune/core/tuner.h"

/*
 * The search for settings with its log, on the rank that decides for all: docs/autotune.md. Only
 * the progress owner of the engine uses it.
 */
struct hvd_autotune;

struct hvd_autotune_options {
    struct hvd_tuner_options tuner;
    const char *log_file;      /* CSV; NULL or empty: none. Borrowed for the call */
    const struct hvd_log *log; /* borrowed, for the life of the search */
};

/* Starts a search, and its file with a header. Warns if the file cannot be written, but does not
 * fail: the other ranks would wait for this one. HVD_ERR_NOMEM. */
hvd_status_t hvd_autotune_create(const struct hvd_autotune_options *options,
                                 struct hvd_autotune **out, struct hvd_err *err);

/* Frees the search. NULL is fine. */
void hvd_autotune_destroy(struct hvd_autotune *a);

/* Counts a reduced tensor of that name. Returns whether the sample is complete: call
 * hvd_autotune_next then. */
bool hvd_autotune_count(struct hvd_autotune *a, struct hvd_strview name, int64_t bytes);

/* Ends a sample, and logs it. Returns the settings to use from now on. */
struct hvd_tuning hvd_autotune_next(struct hvd_autotune *a, int64_t now_ns);

#endif
