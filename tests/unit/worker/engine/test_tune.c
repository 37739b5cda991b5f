/* Autotuning within the engine: what rank 0 decides, every rank takes at the same plan. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"
#include "worker/autotune/autotune.h"

#define SIZE 3
#define MAX_LINES 64

/* What a rank has logged. */
struct lines {
    int n;
    char text[MAX_LINES][128];
};

static void sink(void *ctx, const struct hvd_log_record *record)
{
    struct lines *lines = ctx;

    if (strncmp(record->msg, "from plan ", 10) == 0 && lines->n < MAX_LINES)
        snprintf(lines->text[lines->n++], sizeof(lines->text[0]), "%s", record->msg);
}

/* A step of the program: one tensor on every rank. */
static void step(struct hvd_engine *const *engines, const char *name)
{
    static int64_t values[SIZE][8];
    int64_t handles[SIZE];

    for (int rank = 0; rank < SIZE; rank++) {
        const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, 8),
                                         .input = values[rank],
                                         .output = values[rank]};
        assert_int_equal(hvd_engine_submit(engines[rank], &s, &handles[rank], NULL), HVD_OK);
    }
    for (int rank = 0, n_done = 0; n_done < SIZE; rank = (rank + 1) % SIZE) {
        hvd_engine_step(engines[rank]);
        n_done = 0;
        for (int i = 0; i < SIZE; i++)
            n_done += hvd_engine_poll(engines[i], handles[i]) == 1;
    }
    for (int rank = 0; rank < SIZE; rank++)
        assert_int_equal(hvd_engine_wait(engines[rank], handles[rank], NULL, NULL), HVD_OK);
}

/* Ends without a word to anybody: nothing is pending. */
static void close_engines(struct hvd_engine **engines, struct hvd_sim *sim)
{
    for (int rank = 0; rank < SIZE; rank++)
        hvd_engine_destroy(engines[rank]);
    hvd_sim_destroy(sim);
}

static void every_rank_takes_the_same_settings_at_the_same_plans(void **state)
{
    static struct lines lines[SIZE];
    const struct hvd_sim_options sim_options = {.size = SIZE, .seed = 4, .max_delay = 3};
    struct hvd_log logs[SIZE];
    const struct hvd_autotune_options tune = {
        .tuner = {.start = {.fusion_bytes = 1 << 20, .cycle_us = 1000},
                  .warmup_samples = 1,
                  .steps_per_sample = 2,
                  .points = 6,
                  .noise = 0.8},
        .log = &logs[0]};
    struct hvd_autotune *autotune = NULL;
    struct hvd_engine *engines[SIZE];
    struct hvd_transport *t[SIZE];
    struct hvd_sim *sim = NULL;

    (void)state;
    assert_int_equal(hvd_autotune_create(&tune, &autotune, NULL), HVD_OK);
    assert_int_equal(hvd_sim_create(&sim_options, &sim, NULL), HVD_OK);
    for (int rank = 0; rank < SIZE; rank++)
        assert_int_equal(hvd_sim_join(sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < SIZE; rank++) {
        logs[rank] = (struct hvd_log){.level = HVD_LOG_INFO, .sink = sink, .ctx = &lines[rank]};
        const struct hvd_engine_options options = {.cycle_ns = 1000000,
                                                   .no_background = true,
                                                   .cache_capacity = 64,
                                                   .fusion_bytes = 1 << 20,
                                                   .autotune = rank == 0 ? autotune : NULL,
                                                   .log = &logs[rank]};
        assert_int_equal(hvd_engine_create(t[rank], &options, &engines[rank], NULL), HVD_OK);
    }
    for (int i = 0; i < 200; i++) /* 2 * (1 + 5 * 6) steps are enough */
        step(engines, i % 10 == 3 ? "rare" : "gradient");
    assert_true(lines[0].n >= 4 && lines[0].n < MAX_LINES);
    for (int rank = 1; rank < SIZE; rank++) {
        assert_int_equal(lines[rank].n, lines[0].n);
        for (int i = 0; i < lines[0].n; i++)
            assert_string_equal(lines[rank].text[i], lines[0].text[i]);
    }
    const int n_settled = lines[0].n;
    for (int i = 0; i < 50; i++)
        step(engines, "gradient");
    assert_int_equal(lines[0].n, n_settled);
    close_engines(engines, sim);
    hvd_autotune_destroy(autotune);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_takes_the_same_settings_at_the_same_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
