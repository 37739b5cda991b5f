/*
 * The log of the search: a CSV line for each sample, each point and the best point, and at the end
 * a sentence in the program's log. It writes some lines in a second at most, each at once, so that
 * the file is always complete.
 */
#include "worker/autotune/autotune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct hvd_autotune {
    struct hvd_tuner *tuner;
    FILE *file; /* NULL: none */
    const struct hvd_log *log;
};

static void give_up_file(struct hvd_autotune *a)
{
    hvd_log(a->log, HVD_LOG_WARN, "autotune", "HOROVOD_AUTOTUNE_LOG is not written: %s",
            strerror(errno));
    if (a->file)
        fclose(a->file);
    a->file = NULL;
}

static void open_file(struct hvd_autotune *a, const char *path)
{
    if (!path || !*path)
        return;
    a->file = fopen(path, "we");
    if (!a->file ||
        fputs("phase,point,fusion_threshold_bytes,cycle_time_ms,bytes,seconds,score_mb_per_s\n",
              a->file) < 0 ||
        fflush(a->file) != 0)
        give_up_file(a);
}

hvd_status_t hvd_autotune_create(const struct hvd_autotune_options *options,
                                 struct hvd_autotune **out, struct hvd_err *err)
{
    struct hvd_autotune *a = hvd_calloc(1, sizeof(*a));

    if (!a || hvd_tuner_create(&options->tuner, &a->tuner) != HVD_OK) {
        hvd_free(a);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the autotuning");
    }
    a->log = options->log;
    open_file(a, options->log_file);
    if (hvd_tuner_is_done(a->tuner))
        hvd_log(a->log, HVD_LOG_WARN, "autotune",
                "HOROVOD_AUTOTUNE has nothing to tune: HOROVOD_FUSION_THRESHOLD and "
                "HOROVOD_CYCLE_TIME are both set");
    *out = a;
    return HVD_OK;
}

void hvd_autotune_destroy(struct hvd_autotune *a)
{
    if (!a)
        return;
    if (a->file)
        fclose(a->file);
    hvd_tuner_destroy(a->tuner);
    hvd_free(a);
}

/* Returns the FNV-1a hash that stands for a name. */
static uint64_t id_of(struct hvd_strview name)
{
    uint64_t id = 14695981039346656037ULL;

    for (size_t i = 0; i < name.len; i++)
        id = (id ^ (unsigned char)name.data[i]) * 1099511628211ULL;
    return id;
}

bool hvd_autotune_count(struct hvd_autotune *a, struct hvd_strview name, int64_t bytes)
{
    return !hvd_tuner_is_done(a->tuner) && hvd_tuner_count(a->tuner, id_of(name), bytes);
}

/* Writes a line. Only lines of samples have bytes and seconds. */
static void write_line(struct hvd_autotune *a, const struct hvd_tuner_report *r)
{
    static const char *const phases[] = {[HVD_TUNER_WARMUP] = "warmup",
                                         [HVD_TUNER_SAMPLE] = "sample",
                                         [HVD_TUNER_POINT] = "point",
                                         [HVD_TUNER_BEST] = "best"};
    char measured[64] = ",";

    if (!a->file)
        return;
    if (r->ns > 0)
        snprintf(measured, sizeof(measured), "%" PRId64 ",%.6f", r->bytes, (double)r->ns / 1e9);
    if (fprintf(a->file, "%s,%" PRIu32 ",%" PRId64 ",%.3f,%s,%.3f\n", phases[r->phase], r->point,
                r->tuning.fusion_bytes, (double)r->tuning.cycle_us / 1000, measured,
                r->score / 1e6) < 0 ||
        fflush(a->file) != 0)
        give_up_file(a);
}

struct hvd_tuning hvd_autotune_next(struct hvd_autotune *a, int64_t now_ns)
{
    struct hvd_tuner_report reports[HVD_TUNER_REPORTS];
    const int n = hvd_tuner_end_sample(a->tuner, now_ns, reports);

    for (int i = 0; i < n; i++) {
        write_line(a, &reports[i]);
        if (reports[i].phase == HVD_TUNER_BEST)
            hvd_log(a->log, HVD_LOG_INFO, "autotune",
                    "settled on HOROVOD_FUSION_THRESHOLD=%" PRId64 " HOROVOD_CYCLE_TIME=%.3f, "
                    "which moved about %.1f MB/s",
                    reports[i].tuning.fusion_bytes, (double)reports[i].tuning.cycle_us / 1000,
                    reports[i].score / 1e6);
    }
    return hvd_tuner_now(a->tuner);
}
