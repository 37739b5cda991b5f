/*
 * Tries the two ways in turn, a few chunks each, and chooses the one whose fastest chunk was
 * faster. A disturbance only makes a chunk slower, so the fastest one shows the speed of a way. The
 * way past the caches has to be faster by a fifth; where it pays, it is. Pure.
 */
#include "worker/transport/shm/pace.h"

#define SKIPPED 3  /* chunks until the other rank follows */
#define TRIED 12   /* chunks per trial, with the skipped ones */
#define WARMING 20 /* chunks before the first trial, which touch memory for the first time */
#define KEPT 1000  /* chunks until the next trial: 64 MiB by default */
#define PER 1024   /* bytes for which a time is kept */

bool hvd_shm_pace_asks(const struct hvd_shm_pace *pace)
{
    return !pace->is_settled;
}

static void take(struct hvd_shm_pace *pace, bool is_past, bool is_settled)
{
    pace->is_past = is_past;
    pace->is_settled = is_settled;
    pace->n_samples = 0;
    pace->n_others = 0;
}

static void begin(struct hvd_shm_pace *pace, uint64_t key)
{
    take(pace, false, false);
    pace->key = key;
    pace->best[false] = INT64_MAX;
    pace->best[true] = INT64_MAX;
}

static void try_one(struct hvd_shm_pace *pace, int64_t time_per)
{
    if (pace->n_samples > SKIPPED && time_per < pace->best[pace->is_past])
        pace->best[pace->is_past] = time_per;
    if (pace->n_samples < TRIED)
        return;
    if (!pace->is_past)
        take(pace, true, false);
    else
        take(pace, pace->best[true] < pace->best[false] / 5 * 4, true);
}

void hvd_shm_pace_sample(struct hvd_shm_pace *pace, uint64_t key, int64_t bytes, int64_t spent_ns)
{
    const bool is_other = !pace->is_settled && key != pace->key;

    if (is_other && pace->key == 0 && pace->n_samples < WARMING) {
        pace->n_samples++;
        return;
    }
    if (is_other && (pace->key == 0 || ++pace->n_others >= KEPT))
        begin(pace, key);
    else if (is_other)
        return;
    pace->n_samples++;
    if (!pace->is_settled)
        try_one(pace, spent_ns * PER / bytes);
    else if (pace->n_samples >= KEPT)
        begin(pace, key);
}
