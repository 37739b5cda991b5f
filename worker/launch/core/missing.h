#ifndef HVD_WORKER_LAUNCH_CORE_MISSING_H
#define HVD_WORKER_LAUNCH_CORE_MISSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/launch/core/hosts.h"
#include "worker/launch/core/report.h"

/*
 * Who has not come, where ranks wait in horovod_init for every process and the library can name
 * nobody: in MPI_Init, and before the job has a communicator. The wrappers of ranks that wait send
 * notices, those of stopped ranks too. The rank of which there is no such notice has not come.
 */
struct hvd_missing;

/* A rank that has just come is heard of within this time. */
#define HVD_MISSING_SLACK_MS 8000
/* A rank that waits and is not heard for this time, or the warning time where that is longer, is
 * cut off. */
#define HVD_MISSING_SILENT_MS 16000
/* A longer time between two notices counts as this: the launcher did not run. */
#define HVD_MISSING_STEP_MS 8000

enum hvd_missing_step {
    HVD_MISSING_NOTHING,
    HVD_MISSING_WARN, /* a line is to be shown */
    HVD_MISSING_END,  /* the shutdown time is over: the job is to end because of that rank */
};

/* All ranks of the hosts, which are borrowed. NULL without memory. */
struct hvd_missing *hvd_missing_create(const struct hvd_hosts *hosts);

/* NULL is fine. */
void hvd_missing_destroy(struct hvd_missing *missing);

/* A notice of a wrapper has come at now_ms (>= 0, any clock that goes forward); what is to be done,
 * once: then hvd_missing_text has the words. missing may be NULL. */
enum hvd_missing_step hvd_missing_notice(struct hvd_missing *missing,
                                         const struct hvd_report *notice, int64_t now_ms);

/* A rank has ended, as reported. missing may be NULL. */
void hvd_missing_end(struct hvd_missing *missing, const struct hvd_report *end);

/* Whether a rank has reported that it ended well, and without having been stopped; false where
 * missing is NULL. */
bool hvd_missing_has_succeeded(const struct hvd_missing *missing, int64_t rank);

/* How many ranks have not reported their end, and the first of them; 0 where missing is NULL. */
int64_t hvd_missing_unheard(const struct hvd_missing *missing, int64_t *first);

/*
 * The job has ended because ranks waited for too long, and could not say for whom: *report becomes
 * the rank that had not come, with the words in its line. False where there is none.
 */
bool hvd_missing_blame(struct hvd_missing *missing, struct hvd_report *report);

/* The words of the last step, one line, and the rank that it is about, the first of them. */
const char *hvd_missing_text(const struct hvd_missing *missing);
int64_t hvd_missing_rank(const struct hvd_missing *missing);

#endif
