#include "tests/unit/support.h"

#include <pthread.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/transport/conformance.h"

#define MAX_RANKS 8

static const int sizes[] = {1, 2, 3, 5, 8};

struct world {
    struct hvd_sim *sim;
    struct hvd_transport *ranks[MAX_RANKS];
    int size;
};

static void open_with(struct world *w, const struct hvd_sim_options *options)
{
    w->size = options->size;
    assert_int_equal(hvd_sim_create(options, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < w->size; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &w->ranks[rank], NULL), HVD_OK);
}

static void open_world(struct world *w, int size, uint64_t seed)
{
    const struct hvd_sim_options options = {
        .size = size, .seed = seed, .max_delay = 4, .ranks_per_host = 3};

    open_with(w, &options);
}

static void say(struct world *w, int from, int to, const char *text)
{
    assert_int_equal(w->ranks[from]->ops->send(w->ranks[from], to, text, strlen(text), NULL),
                     HVD_OK);
}

/* Looks until the rank gets a message; how many looks that took, -1 when there is none. */
static int hear(struct world *w, int rank, const char *text)
{
    struct hvd_inbound in = {0};

    for (int looks = 1; looks <= 100; looks++) {
        if (w->ranks[rank]->ops->receive(w->ranks[rank], &in, NULL) != HVD_OK)
            continue;
        assert_int_equal(in.len, strlen(text));
        assert_memory_equal(in.data, text, in.len);
        hvd_free(in.data);
        return looks;
    }
    return -1;
}

static void close_world(struct world *w)
{
    for (int rank = 0; rank < w->size; rank++)
        w->ranks[rank]->ops->destroy(w->ranks[rank], true);
    hvd_sim_destroy(w->sim);
}

struct trial {
    struct hvd_transport *transport;
    const char *problem;
};

static void *run_conformance(void *arg)
{
    struct trial *trial = arg;

    trial->problem = hvd_transport_conformance(trial->transport);
    return NULL;
}

static void the_simulated_transport_keeps_what_the_port_promises(void **state)
{
    pthread_t threads[MAX_RANKS];
    struct trial trials[MAX_RANKS] = {0};
    struct world w;

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        open_world(&w, sizes[s], s + 1);
        for (int rank = 0; rank < w.size; rank++) {
            trials[rank] = (struct trial){.transport = w.ranks[rank]};
            assert_int_equal(pthread_create(&threads[rank], NULL, run_conformance, &trials[rank]),
                             0);
        }
        for (int rank = 0; rank < w.size; rank++) {
            pthread_join(threads[rank], NULL);
            if (trials[rank].problem)
                fail_msg("rank %d of %d: %s", rank, w.size, trials[rank].problem);
        }
        close_world(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static void places_follow_the_hosts(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 8, 1); /* hosts of 3, 3 and 2 */
    const struct hvd_topology *top = &w.ranks[7]->topology;
    assert_int_equal(top->local_rank, 1);
    assert_int_equal(top->local_size, 2);
    assert_int_equal(top->cross_rank, 2);
    assert_int_equal(top->cross_size, 3);
    assert_false(top->is_homogeneous);
    assert_int_equal(w.ranks[2]->topology.cross_size, 2);
    assert_string_equal(w.ranks[0]->ops->host(w.ranks[0], 7), "sim-2");
    assert_null(w.ranks[0]->ops->host(w.ranks[0], 8));
    close_world(&w);
}

static void a_killed_rank_is_told_once_after_its_last_message(void **state)
{
    struct hvd_inbound in = {0};
    struct hvd_err err = {0};
    struct world w;
    hvd_status_t st;

    (void)state;
    open_world(&w, 3, 9);
    assert_int_equal(w.ranks[1]->ops->send(w.ranks[1], 0, "last", 4, NULL), HVD_OK);
    hvd_sim_kill(w.sim, 1);
    do
        st = w.ranks[0]->ops->receive(w.ranks[0], &in, &err);
    while (st == HVD_INPROGRESS);
    assert_int_equal(st, HVD_OK);
    assert_memory_equal(in.data, "last", 4);
    hvd_free(in.data);
    assert_int_equal(w.ranks[0]->ops->receive(w.ranks[0], &in, &err), HVD_ERR_GONE);
    assert_int_equal(in.from, 1);
    assert_non_null(strstr(err.msg, "rank 1"));
    assert_int_equal(w.ranks[0]->ops->receive(w.ranks[0], &in, NULL), HVD_INPROGRESS);
    assert_int_equal(w.ranks[0]->ops->send(w.ranks[0], 1, "x", 1, NULL), HVD_ERR_UNAVAILABLE);
    close_world(&w);
}

static void a_collective_fails_when_a_rank_that_has_not_come_dies(void **state)
{
    int64_t data = 1;
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_INT64,
                               .reduce = HVD_SUM,
                               .input = &data,
                               .output = &data,
                               .count = 1};
    struct hvd_err err = {0};
    struct world w;

    (void)state;
    open_world(&w, 2, 9);
    assert_int_equal(w.ranks[0]->ops->start(w.ranks[0], &c, NULL), HVD_OK);
    assert_int_equal(w.ranks[0]->ops->test(w.ranks[0], &c, NULL), HVD_INPROGRESS);
    hvd_sim_kill(w.sim, 1);
    assert_int_equal(w.ranks[0]->ops->test(w.ranks[0], &c, &err), HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "rank 1"));
    w.ranks[0]->ops->abandon(w.ranks[0], &c);
    close_world(&w);
}

static void a_rank_dies_at_the_event_that_was_asked_for(void **state)
{
    const struct hvd_sim_options options = {.size = 2, .faults = {.die_at = 3, .die_rank = 0}};
    struct world w;

    (void)state;
    open_with(&w, &options);
    say(&w, 0, 1, "a");
    say(&w, 0, 1, "b");
    assert_int_equal(hvd_sim_events(w.sim), 2);
    assert_int_equal(w.ranks[0]->ops->send(w.ranks[0], 1, "c", 1, NULL), HVD_ERR_UNAVAILABLE);
    assert_int_equal(hear(&w, 1, "a"), 1);
    assert_int_equal(hear(&w, 1, "b"), 1);
    assert_int_equal(hear(&w, 1, "c"), -1);
    close_world(&w);
}

static void messages_are_late_lost_and_doubled_as_was_asked_for(void **state)
{
    const struct hvd_sim_options options = {.size = 3,
                                            .faults = {.spike_every = 3,
                                                       .spike_looks = 20,
                                                       .slow_rank = 2,
                                                       .slow_looks = 9,
                                                       .lose = 2,
                                                       .duplicate = 4}};
    struct world w;

    (void)state;
    open_with(&w, &options);
    say(&w, 0, 1, "1");
    say(&w, 0, 1, "lost");
    say(&w, 0, 1, "3");
    say(&w, 0, 1, "4");
    say(&w, 0, 2, "5");
    assert_int_equal(hear(&w, 1, "1"), 1);
    assert_int_equal(hear(&w, 1, "3"), 21);
    assert_int_equal(hear(&w, 1, "4"), 1);
    assert_int_equal(hear(&w, 1, "4"), 1);
    assert_int_equal(hear(&w, 1, ""), -1);
    assert_int_equal(hear(&w, 2, "5"), 10);
    close_world(&w);
}

static const struct hvd_network network = {
    .near = {.latency_ns = 100, .overhead_ns = 10, .gap_ns = 20, .byte_ns = 1},
    .far = {.latency_ns = 1000, .overhead_ns = 200, .gap_ns = 300, .byte_ns = 2}};

static void modelled_time_follows_the_messages(void **state)
{
    const struct hvd_sim_options options = {.size = 4, .ranks_per_host = 2, .network = &network};
    struct world w;

    (void)state;
    open_with(&w, &options);
    say(&w, 0, 1, "12345678"); /* leaves at 10, 8 on the wire, 100 under way */
    say(&w, 0, 2, "1234");     /* a processor is free at 210, 8 on the wire, 1000 under way */
    assert_int_equal(hear(&w, 1, ""), -1);
    assert_int_equal(hvd_sim_advance(w.sim), 1);
    assert_int_equal(hvd_sim_time(w.sim, -1), 10 + 8 + 100);
    assert_int_equal(hear(&w, 1, "12345678"), 1);
    assert_int_equal(hvd_sim_time(w.sim, 1), 10 + 8 + 100 + 10);
    assert_int_equal(hvd_sim_advance(w.sim), 2);
    assert_int_equal(hvd_sim_time(w.sim, -1), 210 + 8 + 1000);
    assert_int_equal(hear(&w, 2, "1234"), 1);
    assert_int_equal(hvd_sim_time(w.sim, 2), 210 + 8 + 1000 + 200);
    assert_int_equal(hvd_sim_advance(w.sim), -1);
    close_world(&w);
}

static void a_modelled_collective_ends_after_its_last_rank_has_come(void **state)
{
    const struct hvd_sim_options options = {.size = 2, .ranks_per_host = 2, .network = &network};
    int64_t data[2] = {1, 2};
    struct hvd_collective c[2];
    struct world w;

    (void)state;
    open_with(&w, &options);
    for (int rank = 0; rank < 2; rank++) {
        c[rank] = (struct hvd_collective){.op = HVD_ALLREDUCE,
                                          .dtype = HVD_INT64,
                                          .reduce = HVD_SUM,
                                          .scaling = {1, 1, 1},
                                          .input = &data[rank],
                                          .output = &data[rank],
                                          .count = 1};
        assert_int_equal(w.ranks[rank]->ops->start(w.ranks[rank], &c[rank], NULL), HVD_OK);
    }
    assert_int_equal(w.ranks[0]->ops->test(w.ranks[0], &c[0], NULL), HVD_INPROGRESS);
    for (int i = 0; i < 2; i++) {
        const int rank = hvd_sim_advance(w.sim);
        assert_true(rank == 0 || rank == 1);
        assert_int_equal(hvd_sim_time(w.sim, -1), 2 * (100 + 2 * 10) + 2 * 8);
        assert_int_equal(w.ranks[rank]->ops->test(w.ranks[rank], &c[rank], NULL), HVD_OK);
        assert_int_equal(data[rank], 3);
    }
    assert_int_equal(hvd_sim_advance(w.sim), -1);
    close_world(&w);
}

static void a_straggler_and_jitter_only_make_it_later_the_same_way_each_time(void **state)
{
    struct hvd_network slow = network;
    int64_t came[2];

    (void)state;
    slow.straggler = 1;
    slow.straggler_factor = 3;
    slow.jitter_ns = 50;
    for (int i = 0; i < 2; i++) {
        const struct hvd_sim_options options = {
            .size = 2, .ranks_per_host = 2, .network = &slow, .seed = 3};
        struct world w;
        open_with(&w, &options);
        say(&w, 1, 0, "x"); /* overhead is 30 */
        assert_int_equal(hvd_sim_advance(w.sim), 0);
        came[i] = hvd_sim_time(w.sim, -1);
        close_world(&w);
    }
    assert_int_equal(came[0], came[1]);
    assert_in_range(came[0], 30 + 1 + 100, 30 + 1 + 100 + 50);
}

static void every_allocation_may_fail(void **state)
{
    const struct hvd_sim_options options = {.size = 2, .seed = 1, .network = &network};

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_sim *sim = NULL;
        struct hvd_transport *t = NULL;
        hvd_status_t st = hvd_sim_create(&options, &sim, NULL);
        if (st == HVD_OK)
            st = hvd_sim_join(sim, 0, &t, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        if (t)
            t->ops->destroy(t, true);
        hvd_sim_destroy(sim);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulated_transport_keeps_what_the_port_promises),
        cmocka_unit_test(places_follow_the_hosts),
        cmocka_unit_test(a_killed_rank_is_told_once_after_its_last_message),
        cmocka_unit_test(a_collective_fails_when_a_rank_that_has_not_come_dies),
        cmocka_unit_test(a_rank_dies_at_the_event_that_was_asked_for),
        cmocka_unit_test(messages_are_late_lost_and_doubled_as_was_asked_for),
        cmocka_unit_test(modelled_time_follows_the_messages),
        cmocka_unit_test(a_modelled_collective_ends_after_its_last_rank_has_come),
        cmocka_unit_test(a_straggler_and_jitter_only_make_it_later_the_same_way_each_time),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
