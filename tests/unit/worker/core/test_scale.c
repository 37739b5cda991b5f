#include "tests/unit/support.h"

#include "tests/bench/simulation.h"

#define TENSORS 110
#define REQUEST_BYTES 200 /* of one request, with its name, at most */

/* A sanitizer sees the same code with fewer ranks; there are no threads to look at. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LARGE_SIZES
#define LARGEST 1026
#else
#define LARGE_SIZES , 1024, 4096
#define LARGEST 27360
#endif

static struct simulation_options options_of(int n_ranks)
{
    return (struct simulation_options){.n_ranks = n_ranks,
                                       .ranks_per_host = 6,
                                       .n_tensors = TENSORS,
                                       .network = &simulation_network,
                                       .item_ns = 200,
                                       .word_ns = 10};
}

static struct simulation simulate(const struct simulation_options *options)
{
    struct simulation s;
    const char *problem = simulation_run(options, &s);

    if (problem)
        fail_msg("%d ranks: %s", options->n_ranks, problem);
    return s;
}

/* What must be so whatever the shape of the tree. */
static void check(const struct simulation_step *step, int n_ranks)
{
    assert_int_equal(step->up_max, n_ranks > 1);
    assert_int_equal(step->down_max, 1);
    assert_int_equal(step->messages, 2 * (n_ranks - 1));
}

static void every_rank_sends_one_message_up_and_gets_one_plan(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 16, 64, 256 LARGE_SIZES};
    static const int fanouts[] = {0, 1, 2, 16};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t f = 0; f < sizeof(fanouts) / sizeof(fanouts[0]); f++) {
            struct simulation_options options = options_of(sizes[i]);
            options.fanout = fanouts[f];
            if (fanouts[f] == 1 && sizes[i] > 256)
                continue; /* a chain of hosts */
            const struct simulation s = simulate(&options);
            check(&s.first, sizes[i]);
            check(&s.cached, sizes[i]);
        }
}

static void what_the_coordinator_reads_grows_with_the_tensors_and_not_with_the_ranks(void **state)
{
    struct simulation_options options = options_of(LARGEST);

    (void)state;
    const struct simulation s = simulate(&options);
    check(&s.first, options.n_ranks);
    check(&s.cached, options.n_ranks);
    assert_true(s.children_max <= 32);
    assert_true(s.first.root_items <= (uint64_t)(s.children_max + 1) * TENSORS);
    assert_true(s.first.root_bytes_in <= (uint64_t)s.children_max * TENSORS * REQUEST_BYTES);
    assert_true(s.cached.root_bytes_in <= (uint64_t)s.children_max * 64);
    assert_true(s.first.root_messages_in <= (uint64_t)s.children_max);
    options.n_tensors *= 2;
    const struct simulation twice = simulate(&options);
    assert_true(twice.first.root_bytes_in < s.first.root_bytes_in * 11 / 5);
    /* Modelled, so the same on every machine: 15 hops of a recursive doubling are 45 us. */
    assert_true(s.cached.ns < 30000);
}

static void the_star_reads_what_every_rank_sends(void **state)
{
    struct simulation_options options = options_of(256);

    (void)state;
    options.is_star = true;
    const struct simulation s = simulate(&options);
    assert_int_equal(s.first.root_items, 256 * TENSORS);
    assert_int_equal(s.first.root_messages_in, 255);
    assert_int_equal(s.depth, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_sends_one_message_up_and_gets_one_plan),
        cmocka_unit_test(what_the_coordinator_reads_grows_with_the_tensors_and_not_with_the_ranks),
        cmocka_unit_test(the_star_reads_what_every_rank_sends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
