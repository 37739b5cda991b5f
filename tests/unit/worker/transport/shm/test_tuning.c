#include "tests/unit/support.h"

#include <string.h>

#include "worker/transport/shm/tuning.h"

#define MOST 16
#define STAGE ((size_t)1 << 20)

/* Ranks on the processors of a host, one each, from `first` on in steps. */
struct scene {
    struct hvd_cpu_location cpu_locations[MOST];
    struct hvd_shm_tuning tuning;
    int order[MOST];
};

static void cpu_location_all(struct scene *s, const char *host, const int *processors, int n)
{
    for (int rank = 0; rank < n; rank++)
        hvd_cpu_location_read(host, processors[rank], &s->cpu_locations[rank]);
    hvd_shm_tune(s->cpu_locations, n, STAGE, &s->tuning, s->order);
}

static const int in_turn[MOST] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void a_cpu_location_says_where_a_processor_is(void **state)
{
    struct hvd_cpu_location cpu_location;

    (void)state;
    hvd_cpu_location_read("package:2 numa:1 l3:2(size=16777216) l2:2(size=1048576) core:1 pu:2", 6,
                          &cpu_location);
    assert_int_equal(cpu_location.package, 0);
    assert_int_equal(cpu_location.numa, 0);
    assert_int_equal(cpu_location.l3, 1);
    assert_int_equal(cpu_location.l2_bytes, 1 << 20);
    assert_int_equal(cpu_location.l3_bytes, 16 << 20);
    assert_int_equal(cpu_location.cores[0], 1 << 3);
    hvd_cpu_location_read("package:2 numa:1 l3:2(size=16777216) l2:2(size=1048576) core:1 pu:2", 15,
                          &cpu_location);
    assert_int_equal(cpu_location.package, 1);
    assert_int_equal(cpu_location.numa, 1);
    assert_int_equal(cpu_location.l3, 3);
    assert_int_equal(cpu_location.cores[0], 1 << 7);
}

static void a_processor_that_is_not_there_is_not_known(void **state)
{
    struct hvd_cpu_location unknown;
    struct hvd_cpu_location cpu_location;

    (void)state;
    hvd_cpu_location_init(&unknown);
    hvd_cpu_location_read("package:1 core:2 pu:1", 5, &cpu_location);
    assert_memory_equal(&cpu_location, &unknown, sizeof(cpu_location));
    hvd_cpu_location_read("no such words", 0, &cpu_location);
    assert_memory_equal(&cpu_location, &unknown, sizeof(cpu_location));
}

static void this_host_has_a_core_for_this_thread(void **state)
{
    struct hvd_cpu_location cpu_location;
    uint64_t any = 0;

    (void)state;
    hvd_cpu_location_read(NULL, -1, &cpu_location);
    for (int i = 0; i < HVD_CPU_LOCATION_CORES / 64; i++)
        any |= cpu_location.cores[i];
    assert_true(any != 0);
}

static void chunks_and_streams_follow_the_caches(void **state)
{
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:1 l3:1(size=33554432) l2:4(size=524288) core:1 pu:1", in_turn, 2);
    assert_int_equal(s.tuning.exchange_bytes, 64 << 10);
    assert_int_equal(s.tuning.slices_bytes, 128 << 10);
    assert_int_equal(s.tuning.stream_bytes, 8 << 20);
    cpu_location_all(&s, "package:1 l3:1(size=33554432) l2:4(size=2097152) core:1 pu:1", in_turn,
                     4);
    assert_int_equal(s.tuning.exchange_bytes, 256 << 10);
    assert_int_equal(s.tuning.stream_bytes, 4 << 20);
    cpu_location_all(&s, "package:1 l3:4(size=33554432) l2:1(size=1310720) core:1 pu:1", in_turn,
                     4);
    assert_int_equal(s.tuning.exchange_bytes, 128 << 10); /* a power of two */
    assert_int_equal(s.tuning.stream_bytes, 16 << 20);    /* each has a cache of its own */
    cpu_location_all(&s, "package:1 core:4 pu:1", in_turn, 4);
    assert_int_equal(s.tuning.exchange_bytes, 64 << 10); /* nothing is known */
    assert_int_equal(s.tuning.stream_bytes, 8 << 20);
}

static void chunks_are_no_larger_than_a_stage(void **state)
{
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:1 l2:4(size=8388608) core:1 pu:1", in_turn, 2);
    assert_int_equal(s.tuning.exchange_bytes, STAGE);
    hvd_shm_tune(s.cpu_locations, 2, 1024, &s.tuning, s.order);
    assert_int_equal(s.tuning.exchange_bytes, 1024);
    assert_int_equal(s.tuning.slices_bytes, 1024);
}

static void more_ranks_than_cores_are_a_crowd(void **state)
{
    static const int same[MOST] = {0, 0, 1, 1};
    static const int siblings[MOST] = {0, 1};
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:1 core:4 pu:1", in_turn, 4);
    assert_false(s.tuning.is_crowded);
    cpu_location_all(&s, "package:1 core:4 pu:1", same, 4);
    assert_true(s.tuning.is_crowded);
    cpu_location_all(&s, "package:1 core:4 pu:2", siblings, 2); /* of one core */
    assert_true(s.tuning.is_crowded);
    for (int rank = 0; rank < 4; rank++)
        hvd_cpu_location_init(&s.cpu_locations[rank]);
    hvd_shm_tune(s.cpu_locations, 4, STAGE, &s.tuning, s.order);
    assert_false(s.tuning.is_crowded); /* nothing is known */
}

static void ranks_without_a_common_cache_are_apart(void **state)
{
    static const int ends[MOST] = {0, 7};
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:1 l3:2(size=33554432) core:4 pu:1", in_turn, 2);
    assert_false(s.tuning.is_apart);
    cpu_location_all(&s, "package:1 l3:2(size=33554432) core:4 pu:1", ends, 2);
    assert_true(s.tuning.is_apart);
    cpu_location_all(&s, "package:2 core:4 pu:1", ends, 2);
    assert_false(s.tuning.is_apart); /* not known */
}

static void ranks_on_two_packages_are_two_localities(void **state)
{
    static const int by_turns[MOST] = {0, 4, 1, 5, 2, 6, 3, 7};
    static const int expected[] = {0, 2, 4, 6, 1, 3, 5, 7};
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:2 numa:1 l3:1(size=33554432) core:4 pu:1", in_turn, 8);
    assert_int_equal(s.tuning.n_localities, 2);
    assert_memory_equal(s.order, in_turn, 8 * sizeof(int));
    cpu_location_all(&s, "package:2 numa:1 l3:1(size=33554432) core:4 pu:1", by_turns, 8);
    assert_int_equal(s.tuning.n_localities, 2);
    assert_memory_equal(s.order, expected, sizeof(expected));
    cpu_location_all(&s, "package:2 numa:1 l3:1(size=33554432) core:4 pu:1", in_turn, 4);
    assert_int_equal(s.tuning.n_localities, 1); /* all on the first */
}

static void nodes_of_one_package_are_localities_too(void **state)
{
    static const int caches[MOST] = {3, 0, 2, 1};
    static const int expected[] = {1, 3, 2, 0};
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:1 numa:4 l3:1(size=33554432) core:2 pu:1", in_turn, 8);
    assert_int_equal(s.tuning.n_localities, 4);
    cpu_location_all(&s, "package:1 numa:2 l3:2(size=33554432) core:1 pu:1", caches, 4);
    assert_int_equal(s.tuning.n_localities, 2);
    assert_memory_equal(s.order, expected, sizeof(expected)); /* neighbours together */
}

static void uneven_localities_are_none(void **state)
{
    static const int uneven[MOST] = {0, 1, 2, 4};
    static const int alone[MOST] = {0, 4};
    struct scene s;

    (void)state;
    cpu_location_all(&s, "package:2 core:4 pu:1", uneven, 4);
    assert_int_equal(s.tuning.n_localities, 1);
    assert_memory_equal(s.order, in_turn, 4 * sizeof(int));
    cpu_location_all(&s, "package:2 core:4 pu:1", alone,
                     2); /* one on each: nothing to be near to */
    assert_int_equal(s.tuning.n_localities, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_location_says_where_a_processor_is),
        cmocka_unit_test(a_processor_that_is_not_there_is_not_known),
        cmocka_unit_test(this_host_has_a_core_for_this_thread),
        cmocka_unit_test(chunks_and_streams_follow_the_caches),
        cmocka_unit_test(chunks_are_no_larger_than_a_stage),
        cmocka_unit_test(more_ranks_than_cores_are_a_crowd),
        cmocka_unit_test(ranks_without_a_common_cache_are_apart),
        cmocka_unit_test(ranks_on_two_packages_are_two_localities),
        cmocka_unit_test(nodes_of_one_package_are_localities_too),
        cmocka_unit_test(uneven_localities_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
