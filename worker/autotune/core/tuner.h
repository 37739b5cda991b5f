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
 * A sample ends when a tensor has been reduced `steps_per_sample` times. The tuner discards the
 * first samples, because programs start slowly. Points are the initial settings, three points that
 * lie far apart, and then those with the largest expected improvement (gaussian.h).
 */
struct hvd_tuner;

/* The settings that the tuner changes. */
struct hvd_tuning {
    int64_t fusion_bytes;
    int64_t cycle_us;
};

/* The ranges of the search, on logarithmic scales. */
#define HVD_TUNER_FUSION_MIN ((int64_t)64 << 10)
#define HVD_TUNER_FUSION_MAX ((int64_t)256 << 20)
#define HVD_TUNER_CYCLE_MIN_US 50
#define HVD_TUNER_CYCLE_MAX_US 20000

#define HVD_TUNER_SAMPLES_PER_POINT 5

struct hvd_tuner_options {
    struct hvd_tuning start;
    bool is_fusion_fixed; /* the tuner does not change it */
    bool is_cycle_fixed;
    uint32_t warmup_samples;
    uint32_t steps_per_sample; /* 0 counts as 1 */
    uint32_t points;           /* 0 counts as 1; at most HVD_GAUSSIAN_MAX */
    double noise;              /* see hvd_gaussian_create */
};

enum hvd_tuner_phase { HVD_TUNER_WARMUP, HVD_TUNER_SAMPLE, HVD_TUNER_POINT, HVD_TUNER_BEST };

/* A measurement or a conclusion. */
struct hvd_tuner_report {
    enum hvd_tuner_phase phase;
    uint32_t point; /* from 1 on; 0 while warming up */
    struct hvd_tuning tuning;
    int64_t bytes; /* of a sample; 0 otherwise */
    int64_t ns;
    double score; /* bytes a second: of the sample; the median of the point; the estimate of the
                     best point */
};

/* The largest number of reports from one sample. */
#define HVD_TUNER_REPORTS 3

/* Creates a tuner with the initial settings. HVD_ERR_NOMEM. */
hvd_status_t hvd_tuner_create(const struct hvd_tuner_options *options, struct hvd_tuner **out);

/* Frees the tuner. NULL is fine. */
void hvd_tuner_destroy(struct hvd_tuner *t);

/* Counts a reduced tensor; id stands for its name. Returns whether the sample is complete: call
 * hvd_tuner_end_sample then. */
bool hvd_tuner_count(struct hvd_tuner *t, uint64_t id, int64_t bytes);

/* Ends the sample and starts the next one. The first call only starts the first one, without
 * reports. Returns the number of reports. May change the settings. */
int hvd_tuner_end_sample(struct hvd_tuner *t, int64_t now_ns,
                         struct hvd_tuner_report reports[HVD_TUNER_REPORTS]);

/* Returns the settings to use now. */
struct hvd_tuning hvd_tuner_now(const struct hvd_tuner *t);

/* Returns whether the search is over: the settings stay, and callers need not count tensors. */
bool hvd_tuner_is_done(const struct hvd_tuner *t);

#endif
