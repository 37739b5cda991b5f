#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/worker/engine/programs.h"

static const int sizes[] = {1, 2, 3, 5, 8, 64};
#define N_SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

/* Under a sanitizer each takes many times longer; and one real thread runs all of a program, so
 * that the thread sanitizer has little to find. */
#if defined(__SANITIZE_THREAD__)
#define N_PROGRAMS 18
#elif defined(__SANITIZE_ADDRESS__)
#define N_PROGRAMS 90
#else
#define N_PROGRAMS 300
#endif

/* HOROVOD_TEST_PROGRAMS and HOROVOD_TEST_SEED: a longer run, or one that failed. */
static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : fallback;
}

static void run_program(struct program_options options, uint64_t seed)
{
    options.seed = seed;
    options.n_ranks = sizes[seed % N_SIZES];
    /* Who waits for a device looks again and again: with many threads in turns that takes long. */
    if (options.has_devices && options.has_threads && options.n_ranks > 8)
        options.n_ranks = 8;
    const char *problem = program_run(&options);
    if (problem)
        fail_msg("HOROVOD_TEST_SEED=%llu HOROVOD_TEST_PROGRAMS=1: %d ranks: %s",
                 (unsigned long long)seed, options.n_ranks, problem);
}

static void run_programs(struct program_options options)
{
    const uint64_t usual = options.has_devices ? N_PROGRAMS / 5 : N_PROGRAMS;
    const uint64_t n = number("HOROVOD_TEST_PROGRAMS", usual);
    const uint64_t first = number("HOROVOD_TEST_SEED", 1);

    for (uint64_t i = 0; i < n; i++)
        run_program(options, first + i);
}

static void random_programs_end_as_the_oracle_says(void **state)
{
    (void)state;
    run_programs((struct program_options){0});
}

static void with_a_rank_that_dies_nothing_hangs_and_its_name_is_known(void **state)
{
    (void)state;
    run_programs((struct program_options){.may_lose = true});
}

static void with_threads_and_process_sets_they_end_as_the_oracle_says(void **state)
{
    (void)state;
    run_programs((struct program_options){.has_threads = true});
}

static void with_threads_and_a_rank_that_dies_or_leaves_nothing_hangs(void **state)
{
    (void)state;
    run_programs((struct program_options){.has_threads = true, .may_lose = true});
}

static void with_tensors_on_devices_they_end_as_the_oracle_says(void **state)
{
    (void)state;
    run_programs((struct program_options){.has_devices = true});
    run_programs((struct program_options){.has_devices = true, .has_threads = true});
}

static void with_devices_and_a_rank_that_dies_nothing_hangs(void **state)
{
    (void)state;
    run_programs((struct program_options){.has_devices = true, .may_lose = true});
}

static void with_devices_and_threads_and_a_rank_that_dies_or_leaves_nothing_hangs(void **state)
{
    (void)state;
    run_programs(
        (struct program_options){.has_devices = true, .has_threads = true, .may_lose = true});
}

static void seeds_that_found_something_find_nothing_more(void **state)
{
    const struct program_options lossy = {.has_threads = true, .may_lose = true};
    const struct program_options on_devices = {
        .has_threads = true, .may_lose = true, .has_devices = true};

    (void)state;
    run_program(lossy, 1005961);      /* a set was agreed about when the job was shut down */
    run_program(on_devices, 2000500); /* nobody listened, once a long wait had ended */
    run_program(on_devices, 802);     /* all slept while the device waited for a dead rank */
#if !defined(__SANITIZE_THREAD__)     /* 64 ranks take minutes there */
    run_program(lossy, 1002653);      /* the same */
    run_program(lossy, 9521);         /* deadlines that never came, in turns.c */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_end_as_the_oracle_says),
        cmocka_unit_test(with_a_rank_that_dies_nothing_hangs_and_its_name_is_known),
        cmocka_unit_test(with_threads_and_process_sets_they_end_as_the_oracle_says),
        cmocka_unit_test(with_threads_and_a_rank_that_dies_or_leaves_nothing_hangs),
        cmocka_unit_test(with_tensors_on_devices_they_end_as_the_oracle_says),
        cmocka_unit_test(with_devices_and_a_rank_that_dies_nothing_hangs),
        cmocka_unit_test(with_devices_and_threads_and_a_rank_that_dies_or_leaves_nothing_hangs),
        cmocka_unit_test(seeds_that_found_something_find_nothing_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
