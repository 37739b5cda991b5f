/*
 * The search for settings; see tuner.h. Pure: no clock, no thread. Settings are points of the unit
 * square, on logarithmic scales. A fixed setting always has the same coordinate.
 */
#include "worker/autotune/core/tuner.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "worker/autotune/core/gaussian.h"

#define N_NAMES 4096 /* tensors that are counted by name */
#define GRID 33      /* grid points per side at which the improvement is computed */
#define MARGIN 0.01

enum { FUSION, CYCLE };

struct seen {
    uint64_t id; /* 0: free */
    uint32_t n;
};

struct hvd_tuner {
    struct hvd_tuner_options options;
    struct hvd_gaussian *model;
    double at[HVD_GAUSSIAN_DIMS];
    struct hvd_tuning now;
    double points[HVD_GAUSSIAN_MAX][HVD_GAUSSIAN_DIMS];
    uint32_t n_points; /* measured */
    double scores[HVD_TUNER_SAMPLES_PER_POINT];
    uint32_t n_scores;
    uint32_t n_warm; /* samples discarded */
    bool is_done;

    /* the sample */
    bool is_started;
    int64_t since_ns;
    int64_t bytes;
    struct seen seen[N_NAMES];
};

static double to_unit(int64_t value, double min, double max)
{
    const double x = log(fmax((double)value, 1) / min) / log(max / min);

    return fmin(fmax(x, 0), 1);
}

static double from_unit(double x, double min, double max)
{
    return min * exp(x * log(max / min));
}

/* Sets the point of the initial settings. */
static void choose_start(struct hvd_tuner *t)
{
    t->now = t->options.start;
    t->at[FUSION] = to_unit(t->now.fusion_bytes, HVD_TUNER_FUSION_MIN, HVD_TUNER_FUSION_MAX);
    t->at[CYCLE] = to_unit(t->now.cycle_us, HVD_TUNER_CYCLE_MIN_US, HVD_TUNER_CYCLE_MAX_US);
}

/* Uses the settings of a point from now on. */
static void go_to(struct hvd_tuner *t, const double at[HVD_GAUSSIAN_DIMS])
{
    t->now = t->options.start;
    if (!t->options.is_fusion_fixed) {
        t->at[FUSION] = at[FUSION];
        t->now.fusion_bytes =
            (int64_t)from_unit(at[FUSION], HVD_TUNER_FUSION_MIN, HVD_TUNER_FUSION_MAX) / 4096 *
            4096;
    }
    if (!t->options.is_cycle_fixed) {
        t->at[CYCLE] = at[CYCLE];
        t->now.cycle_us =
            (int64_t)from_unit(at[CYCLE], HVD_TUNER_CYCLE_MIN_US, HVD_TUNER_CYCLE_MAX_US);
    }
}

hvd_status_t hvd_tuner_create(const struct hvd_tuner_options *options, struct hvd_tuner **out)
{
    struct hvd_tuner *t = hvd_calloc(1, sizeof(*t));

    if (!t)
        return HVD_ERR_NOMEM;
    hvd_status_t st = hvd_gaussian_create(options->noise, &t->model);
    if (st != HVD_OK) {
        hvd_free(t);
        return st;
    }
    t->options = *options;
    if (t->options.steps_per_sample == 0)
        t->options.steps_per_sample = 1;
    if (t->options.points == 0)
        t->options.points = 1;
    if (t->options.points > HVD_GAUSSIAN_MAX)
        t->options.points = HVD_GAUSSIAN_MAX;
    choose_start(t);
    t->is_done = options->is_fusion_fixed && options->is_cycle_fixed;
    *out = t;
    return HVD_OK;
}

void hvd_tuner_destroy(struct hvd_tuner *t)
{
    if (!t)
        return;
    hvd_gaussian_destroy(t->model);
    hvd_free(t);
}

bool hvd_tuner_count(struct hvd_tuner *t, uint64_t id, int64_t bytes)
{
    struct seen *seen = &t->seen[id % N_NAMES];

    if (t->is_done)
        return false;
    if (!t->is_started)
        return true;
    t->bytes += bytes;
    if (seen->id == 0)
        seen->id = id ? id : 1;
    if (seen->id != (id ? id : 1))
        return false; /* another tensor has the slot: count only that one */
    return ++seen->n >= t->options.steps_per_sample;
}

static int median_order(const double *scores, uint32_t n, double value)
{
    int below = 0;

    for (uint32_t i = 0; i < n; i++)
        below += scores[i] < value;
    return below;
}

/* Returns the median of n values; n is odd. */
static double median(const double *scores, uint32_t n)
{
    double best = scores[0];
    int best_distance = (int)n;

    for (uint32_t i = 0; i < n; i++) {
        int distance = median_order(scores, n, scores[i]) - (int)(n / 2);
        distance = distance < 0 ? -distance : distance;
        if (distance < best_distance) {
            best_distance = distance;
            best = scores[i];
        }
    }
    return best;
}

/* Counts how often a point was measured. */
static int count_at(const struct hvd_tuner *t, const double at[HVD_GAUSSIAN_DIMS])
{
    int n = 0;

    for (uint32_t i = 0; i < t->n_points; i++)
        n += fabs(t->points[i][FUSION] - at[FUSION]) + fabs(t->points[i][CYCLE] - at[CYCLE]) < 1e-6;
    return n;
}

/* Chooses the point with the largest expected improvement; measures none more than twice. */
static void choose_next(struct hvd_tuner *t, double next[HVD_GAUSSIAN_DIMS])
{
    static const double first[][HVD_GAUSSIAN_DIMS] = {{0.5, 0.15}, {0.15, 0.5}, {0.9, 0.85}};
    const uint32_t n_first = sizeof(first) / sizeof(first[0]);
    const int n_fusion = t->options.is_fusion_fixed ? 1 : GRID;
    const int n_cycle = t->options.is_cycle_fixed ? 1 : GRID;
    double best = -1;

    memcpy(next, t->at, sizeof(t->at));
    if (t->n_points <= n_first) {
        memcpy(next, first[t->n_points - 1], sizeof(first[0]));
        return;
    }
    for (int i = 0; i < n_fusion; i++) {
        for (int j = 0; j < n_cycle; j++) {
            const double at[] = {n_fusion > 1 ? (double)i / (GRID - 1) : t->at[FUSION],
                                 n_cycle > 1 ? (double)j / (GRID - 1) : t->at[CYCLE]};
            const double gain = hvd_gaussian_improvement(t->model, at, MARGIN);
            if (gain > best && count_at(t, at) < 2) {
                best = gain;
                memcpy(next, at, sizeof(at));
            }
        }
    }
}

/* Ends a point that has all its samples. Returns the number of reports. */
static int end_point(struct hvd_tuner *t, struct hvd_tuner_report *reports)
{
    const double score = median(t->scores, t->n_scores);
    double next[HVD_GAUSSIAN_DIMS];

    memcpy(t->points[t->n_points++], t->at, sizeof(t->at));
    hvd_gaussian_add(t->model, t->at, score);
    t->n_scores = 0;
    reports[0] = (struct hvd_tuner_report){
        .phase = HVD_TUNER_POINT, .point = t->n_points, .tuning = t->now, .score = score};
    if (t->n_points < t->options.points) {
        choose_next(t, next);
        go_to(t, next);
        return 1;
    }
    const int best = hvd_gaussian_best(t->model);
    go_to(t, t->points[best]);
    if (best == 0)
        t->now = t->options.start; /* the original settings, not rounded ones */
    t->is_done = true;
    reports[1] =
        (struct hvd_tuner_report){.phase = HVD_TUNER_BEST,
                                  .point = (uint32_t)best + 1,
                                  .tuning = t->now,
                                  .score = hvd_gaussian_believe(t->model, t->points[best]).mean};
    return 2;
}

int hvd_tuner_end_sample(struct hvd_tuner *t, int64_t now_ns,
                         struct hvd_tuner_report reports[HVD_TUNER_REPORTS])
{
    const int64_t ns = now_ns > t->since_ns ? now_ns - t->since_ns : 1;
    const bool was_started = t->is_started;
    const double score = (double)t->bytes * 1e9 / (double)ns;
    const bool is_warmup = t->n_warm < t->options.warmup_samples;
    const struct hvd_tuner_report report = {.phase =
                                                is_warmup ? HVD_TUNER_WARMUP : HVD_TUNER_SAMPLE,
                                            .point = is_warmup ? 0 : t->n_points + 1,
                                            .tuning = t->now,
                                            .bytes = t->bytes,
                                            .ns = ns,
                                            .score = score};

    memset(t->seen, 0, sizeof(t->seen));
    t->bytes = 0;
    t->since_ns = now_ns;
    t->is_started = true;
    if (!was_started || t->is_done)
        return 0;
    reports[0] = report;
    if (is_warmup) {
        t->n_warm++;
        return 1;
    }
    t->scores[t->n_scores++] = score;
    if (t->n_scores < HVD_TUNER_SAMPLES_PER_POINT)
        return 1;
    return 1 + end_point(t, reports + 1);
}

struct hvd_tuning hvd_tuner_now(const struct hvd_tuner *t)
{
    return t->now;
}

bool hvd_tuner_is_done(const struct hvd_tuner *t)
{
    return t->is_done;
}
