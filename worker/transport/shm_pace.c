/*
 * Tries the two ways in turn, a few chunks each, and takes the one whose fastest chunk was faster:
 * whatever disturbs a chunk makes it slower, so the fastest says what the way can do. Pure.
 */
#include "worker/transport/shm_pace.h"

#define SKIPPED 3 /* the other rank has not changed its way yet */
#define TRIED 7   /* those among them */
#define KEPT 1000 /* chunks until it is tried again: 64 MiB by default */

bool hvd_shm_pace_asks(const struct hvd_shm_pace *pace)
{
    return !pace->is_settled;
}

static void take(struct hvd_shm_pace *pace, bool is_past, bool is_settled)
{
    pace->is_past = is_past;
    pace->is_settled = is_settled;
    pace->n_chunks = 0;
    if (!is_settled)
        pace->best_ns[is_past] = INT64_MAX;
}

void hvd_shm_pace_begin(struct hvd_shm_pace *pace)
{
    pace->last_ns = 0;
    if (!pace->is_settled)
        take(pace, false, false);
}

static void measure(struct hvd_shm_pace *pace, int64_t now_ns)
{
    const int64_t spent_ns = now_ns - pace->last_ns;

    if (pace->n_chunks > SKIPPED && pace->last_ns > 0 && spent_ns < pace->best_ns[pace->is_past])
        pace->best_ns[pace->is_past] = spent_ns;
    pace->last_ns = now_ns;
}

bool hvd_shm_pace_step(struct hvd_shm_pace *pace, int64_t now_ns)
{
    pace->n_chunks++;
    if (!pace->is_settled)
        measure(pace, now_ns);
    if (pace->is_settled && pace->n_chunks >= KEPT)
        take(pace, false, false);
    else if (!pace->is_settled && pace->n_chunks >= TRIED && !pace->is_past)
        take(pace, true, false);
    else if (!pace->is_settled && pace->n_chunks >= TRIED)
        take(pace, pace->best_ns[true] < pace->best_ns[false], true);
    return pace->is_past;
}
