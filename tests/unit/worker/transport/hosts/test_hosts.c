#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/transport/conformance.h"
#include "tests/unit/worker/transport/every_kind.h"
#include "worker/transport/hybrid/hybrid.h"

#define MAX_RANKS 8
#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Which host each rank is on. */
struct layout {
    int size;
    int hosts[MAX_RANKS];
};

static const struct layout layouts[] = {
    {2, {0, 0}},                   /* one host */
    {2, {0, 1}},                   /* nobody shares memory */
    {3, {0, 0, 1}},                /* one rank is alone */
    {4, {0, 0, 1, 1}},             /* as launchers fill hosts */
    {4, {0, 1, 0, 1}},             /* dealt out in turn */
    {5, {0, 0, 0, 1, 1}},          /* uneven */
    {8, {0, 0, 0, 0, 1, 1, 1, 1}}, /* four leaders */
    {5, {1, 0, 0, 1, 2}},          /* uneven, three hosts, no order */
    {6, {0, 1, 2, 0, 1, 2}},
};

/* Ranks of a job, a thread each, over a simulated network. */
struct world {
    struct hvd_sim *sim;
    struct hvd_transport *ranks[MAX_RANKS];
    int size;
};

typedef const char *(*trial_fn)(struct hvd_transport *t);

struct trial {
    struct hvd_transport *transport;
    struct hvd_hybrid_options options;
    trial_fn run;
    const char *problem;
    hvd_status_t status;
};

static void *run_trial(void *arg)
{
    struct trial *trial = arg;

    trial->problem = trial->run(trial->transport);
    return NULL;
}

static void *run_create(void *arg)
{
    struct trial *trial = arg;
    struct hvd_transport *far = trial->transport;

    trial->status = hvd_hybrid_create(far, &trial->options, &trial->transport, NULL);
    return NULL;
}

static void in_threads(struct trial *trials, int n, void *(*run)(void *))
{
    pthread_t threads[MAX_RANKS];

    for (int rank = 0; rank < n; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, run, &trials[rank]), 0);
    for (int rank = 0; rank < n; rank++)
        pthread_join(threads[rank], NULL);
}

static void open_world(struct world *w, const struct layout *layout, size_t stage_bytes)
{
    const struct hvd_sim_options options = {.size = layout->size, .seed = 7, .max_delay = 3};
    struct trial trials[MAX_RANKS] = {0};

    *w = (struct world){.size = layout->size};
    assert_int_equal(hvd_sim_create(&options, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < w->size; rank++) {
        trials[rank].options = (struct hvd_hybrid_options){
            .wants_shm = true,
            .host = (uint64_t)layout->hosts[rank],
            .hosts = {.stage_bytes = stage_bytes, .n_buffers = stage_bytes ? 2 : 0}};
        assert_int_equal(hvd_sim_join(w->sim, rank, &trials[rank].transport, NULL), HVD_OK);
    }
    in_threads(trials, w->size, run_create);
    for (int rank = 0; rank < w->size; rank++) {
        assert_int_equal(trials[rank].status, HVD_OK);
        w->ranks[rank] = trials[rank].transport;
    }
}

static void try_on_all(const struct world *w, trial_fn run)
{
    struct trial trials[MAX_RANKS] = {0};

    for (int rank = 0; rank < w->size; rank++)
        trials[rank] = (struct trial){.transport = w->ranks[rank], .run = run};
    in_threads(trials, w->size, run_trial);
    for (int rank = 0; rank < w->size; rank++)
        if (trials[rank].problem)
            fail_msg("rank %d of %d: %s", rank, w->size, trials[rank].problem);
}

static void close_world(struct world *w)
{
    for (int rank = 0; rank < w->size; rank++)
        assert_true(w->ranks[rank]->ops->destroy(w->ranks[rank], true));
    hvd_sim_destroy(w->sim);
    assert_int_equal(hvd_mem_live(), 0);
}

/* Every layout, or every second one. */
static void try_layouts(trial_fn run, size_t stage_bytes, size_t step)
{
    struct world w;

    for (size_t i = 0; i < N(layouts); i += step) {
        open_world(&w, &layouts[i], stage_bytes);
        try_on_all(&w, run);
        close_world(&w);
    }
}

static void ranks_on_any_hosts_keep_what_the_port_promises(void **state)
{
    (void)state;
    try_layouts(hvd_transport_conformance, 0, 2);
    try_layouts(hvd_transport_conformance, 2048, 1);
}

static const char *try_every_set(struct hvd_transport *t)
{
    return hvd_transport_every_set(t, 1);
}

static const char *try_every_large_set(struct hvd_transport *t)
{
    return hvd_transport_every_set(t, 10);
}

static void every_kind_of_collective_is_right_on_any_hosts(void **state)
{
    (void)state;
    try_layouts(try_every_set, 0, 3);
    try_layouts(try_every_set, 2048, 1);
}

static void payloads_of_many_chunks_are_right_on_any_hosts(void **state)
{
    (void)state;
    try_layouts(try_every_large_set, 4096, 3);
}

static void a_job_shares_memory_unless_every_rank_is_alone(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 0; i < N(layouts); i++) {
        open_world(&w, &layouts[i], 0);
        for (int rank = 0; rank < w.size; rank++)
            assert_string_equal(w.ranks[rank]->ops->name, i == 1 ? "sim" : "shm+mpi");
        close_world(&w);
    }
}

static void a_rank_with_local_peers_can_sleep_but_not_for_other_hosts(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, &layouts[0], 0);
    assert_true(w.ranks[0]->ops->wakes(w.ranks[0]));
    close_world(&w);
    open_world(&w, &layouts[2], 0);
    assert_non_null(w.ranks[0]->ops->listen);
    assert_false(w.ranks[0]->ops->wakes(w.ranks[0]));
    assert_null(w.ranks[2]->ops->listen);
    close_world(&w);
}

/* Only what crosses between hosts may cost messages of the far transport. */
static const char *talk_to_the_local_peer(struct hvd_transport *t)
{
    const int local_peer = t->topology.rank ^ 1;
    struct hvd_inbound in = {0};
    hvd_status_t st;

    if (t->ops->send(t, local_peer, "hello", 5, NULL) != HVD_OK)
        return "send failed";
    while ((st = t->ops->receive(t, &in, NULL)) == HVD_INPROGRESS)
        sched_yield();
    if (st != HVD_OK || in.from != local_peer || in.len != 5 || memcmp(in.data, "hello", 5) != 0)
        return "another message came";
    t->ops->recycle(t, &in);
    return NULL;
}

static void messages_within_a_host_do_not_leave_it(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, &layouts[3], 0);
    const uint64_t before = hvd_sim_messages(w.sim);
    try_on_all(&w, talk_to_the_local_peer);
    assert_int_equal(hvd_sim_messages(w.sim), before);
    close_world(&w);
}

/* Sleeps until the collective is finished: nothing but the local peers' part in it ends that. */
static hvd_status_t sleep_until_finished(struct hvd_transport *t, struct hvd_collective *c)
{
    for (;;) {
        const uint32_t ticket = t->ops->listen(t);
        hvd_status_t st = t->ops->test(t, c, NULL);
        t->ops->sleep(t, ticket, st == HVD_INPROGRESS ? -1 : 0);
        if (st != HVD_INPROGRESS)
            return st;
    }
}

static const char *sleep_through_a_set(struct hvd_transport *t)
{
    const int ranks[] = {0, 1};
    int64_t value = 1;
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_INT64,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .set = 5,
                               .input = &value,
                               .output = &value,
                               .count = 1};

    if (t->ops->add_set(t, 5, ranks, 2, NULL) != HVD_OK)
        return "no set";
    for (int i = 0; i < 60; i++)
        if (t->ops->start(t, &c, NULL) != HVD_OK || sleep_until_finished(t, &c) != HVD_OK)
            return "a collective failed";
    t->ops->remove_set(t, 5);
    return value == INT64_C(1) << 60 ? NULL : "a sum is wrong";
}

static void a_sleep_ends_when_a_process_set_moves(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, &layouts[0], 0);
    assert_true(w.ranks[0]->ops->wakes(w.ranks[0]));
    try_on_all(&w, sleep_through_a_set);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_any_hosts_keep_what_the_port_promises),
        cmocka_unit_test(every_kind_of_collective_is_right_on_any_hosts),
        cmocka_unit_test(payloads_of_many_chunks_are_right_on_any_hosts),
        cmocka_unit_test(a_job_shares_memory_unless_every_rank_is_alone),
        cmocka_unit_test(a_rank_with_local_peers_can_sleep_but_not_for_other_hosts),
        cmocka_unit_test(messages_within_a_host_do_not_leave_it),
        cmocka_unit_test(a_sleep_ends_when_a_process_set_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
