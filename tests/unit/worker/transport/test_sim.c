#include "tests/unit/support.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/worker/transport/conformance.h"
#include "worker/transport/sim.h"

#define MAX_RANKS 8

static const int sizes[] = {1, 2, 3, 5, 8};

struct world {
    struct hvd_sim *sim;
    struct hvd_transport *ranks[MAX_RANKS];
    int size;
};

static void open_world(struct world *w, int size, uint64_t seed)
{
    const struct hvd_sim_options options = {
        .size = size, .seed = seed, .max_delay = 4, .ranks_per_host = 3};

    w->size = size;
    assert_int_equal(hvd_sim_create(&options, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &w->ranks[rank], NULL), HVD_OK);
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

static void every_allocation_may_fail(void **state)
{
    const struct hvd_sim_options options = {.size = 2, .seed = 1};

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
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
