#ifndef HVD_WORKER_LAUNCH_CORE_MISSING_H
#define HVD_WORKER_LAUNCH_CORE_MISSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/launch/core/hosts.h"
#include "worker/launch/core/report.h"

/*
 * Finds the ranks that have not come to horovod_init while others wait there for every process. It
 * is needed where the library can name no rank: in MPI_Init, and before the job has a communicator.
 * The wrappers of waiting ranks send notices, and so do those of stopped ranks. A rank without such
 * a notice has not come.
 */
struct hvd_missing;

/* The notice of a rank that has just come arrives within this time. */
#define HVD_MISSING_SLACK_MS 8000
/* A waiting rank without a notice for this time, or for a longer warning time, counts as cut
 * off. */
#define HVD_MISSING_SILENT_MS 16000
/* A longer time between two notices counts as this: the launcher did not run. */
#define HVD_MISSING_STEP_MS 8000

enum hvd_missing_step {
    HVD_MISSING_NOTHING,
    HVD_MISSING_WARN, /* show the text as a warning */
    HVD_MISSING_END,  /* the shutdown time is over: end the job because of that rank */
};

/* Makes a record of all ranks of the hosts, which are borrowed. NULL when out of memory. */
struct hvd_missing *hvd_missing_create(const struct hvd_hosts *hosts);

/* Accepts NULL. */
void hvd_missing_destroy(struct hvd_missing *missing);

/* Takes a notice of a wrapper at now_ms (>= 0, any clock that goes forward). Returns what to do,
 * once: then hvd_missing_text has the message. missing may be NULL. */
enum hvd_missing_step hvd_missing_notice(struct hvd_missing *missing,
                                         const struct hvd_report *notice, int64_t now_ms);

/* Takes the report of a rank's end. missing may be NULL. */
void hvd_missing_end(struct hvd_missing *missing, const struct hvd_report *end);

/* Whether a rank has reported a good end without having been stopped; false where missing is
 * NULL. */
bool hvd_missing_has_succeeded(const struct hvd_missing *missing, int64_t rank);

/* The number of ranks that have not reported their end, and the first of them; 0 where missing is
 * NULL. */
int64_t hvd_missing_unheard(const struct hvd_missing *missing, int64_t *first);

/*
 * For a job that ended because ranks waited for too long without knowing for which rank. Writes the
 * rank that had not come to *report, with the message in its line. False when there is none.
 */
bool hvd_missing_blame(struct hvd_missing *missing, struct hvd_report *report);

/* The message of the last step, one line, and the first rank that it names. */
const char *hvd_missing_text(const struct hvd_missing *missing);
int64_t hvd_missing_rank(const struct hvd_missing *missing);

#endif
