#ifndef HVD_WORKER_AUTOTUNE_CORE_TUNER_H
#define HVD_WORKER_AUTOTUNE_CORE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Searches for the settings at which allreduces move the most bytes in a second. Pure: tensors and
 * times go in, settings come out.
 *
 *     tensors ──> steps ──> samples ──5, the median──> a point ──all points──> the best one
 *
 * A sample ends when some tensor has come `steps_per_sample` times. The first samples are thrown
 * away: programs start slowly. Points are the settings at the start, three that lie far apart, and
 * then where the expected improvement (gaussian.h) is largest.
 */
struct hvd_tuner;

/* What is tuned. */
struct hvd_tuning {
    int64_t fusion_bytes;
    int64_t cycle_us;
};

/* Where is searched, on a logarithmic scale. */
#define HVD_TUNER_FUSION_MIN ((int64_t)64 << 10)
#define HVD_TUNER_FUSION_MAX ((int64_t)256 << 20)
#define HVD_TUNER_CYCLE_MIN_US 50
#define HVD_TUNER_CYCLE_MAX_US 20000

#define HVD_TUNER_SAMPLES_PER_POINT 5

struct hvd_tuner_options {
    struct hvd_tuning start;
    bool is_fusion_fixed; /* stays as it is */
    bool is_cycle_fixed;
    uint32_t warmup_samples;
    uint32_t steps_per_sample; /* 0 counts as 1 */
    uint32_t points;           /* 0 counts as 1; at most HVD_GAUSSIAN_MAX */
    double noise;              /* see hvd_gaussian_create */
};

enum hvd_tuner_phase { HVD_TUNER_WARMUP, HVD_TUNER_SAMPLE, HVD_TUNER_POINT, HVD_TUNER_BEST };

/* Something that was measured or concluded. */
struct hvd_tuner_report {
    enum hvd_tuner_phase phase;
    uint32_t point; /* from 1 on; 0 while warming up */
    struct hvd_tuning tuning;
    int64_t bytes; /* of a sample; 0 otherwise */
    int64_t ns;
    double score; /* bytes a second: of the sample; the median of the point; what the best point is
                     believed to have */
};

/* At most so many reports come of one sample. */
#define HVD_TUNER_REPORTS 3

/* HVD_ERR_NOMEM. */
hvd_status_t hvd_tuner_create(const struct hvd_tuner_options *options, struct hvd_tuner **out);

/* NULL is fine. */
void hvd_tuner_destroy(struct hvd_tuner *t);

/* Counts a tensor that was reduced; id stands for its name. Whether the sample is full: then
 * hvd_tuner_end_sample comes next. */
bool hvd_tuner_count(struct hvd_tuner *t, uint64_t id, int64_t bytes);

/* Ends the sample and starts the next one. The first call starts the first one, and reports
 * nothing. Returns how many reports there are. The settings may be others afterwards. */
int hvd_tuner_end_sample(struct hvd_tuner *t, int64_t now_ns,
                         struct hvd_tuner_report reports[HVD_TUNER_REPORTS]);

/* The settings to run with now. */
struct hvd_tuning hvd_tuner_now(const struct hvd_tuner *t);

/* Whether the search is over: nothing changes any more, and nothing is to be counted. */
bool hvd_tuner_is_done(const struct hvd_tuner *t);

#endif
