#include "tests/unit/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/transport/every_kind.h"
#include "worker/transport/hosts/hosts.h"

#define MAX_RANKS 8
#define PEERS_SET 1000
#define N(array) (sizeof(array) / sizeof((array)[0]))

struct layout {
    int size;
    int hosts[MAX_RANKS];
};

/* --- Teams ------------------------------------------------------------------------------------ */

static void init_team(struct hvd_team *team, const struct layout *layout, int rank)
{
    static const int ranks[MAX_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

    assert_int_equal(hvd_team_init(team, 0, ranks, layout->size, rank, NULL), HVD_OK);
    hvd_team_divide(team, layout->hosts);
}

static void domains_and_local_ranks_are_in_the_order_of_ranks(void **state)
{
    static const struct layout layout = {6, {7, 3, 7, 3, 3, 9}};
    struct hvd_team team;

    (void)state;
    init_team(&team, &layout, 3);
    assert_int_equal(team.n_domains, 3);
    assert_memory_equal(team.domain_of, ((int[]){0, 1, 0, 1, 1, 2}), 6 * sizeof(int));
    assert_memory_equal(team.local_rank_of, ((int[]){0, 0, 1, 1, 2, 0}), 6 * sizeof(int));
    assert_memory_equal(team.by_domain, ((int[]){0, 2, 1, 3, 4, 5}), 6 * sizeof(int));
    assert_int_equal(team.n_local, 3);
    assert_memory_equal(team.local_peers, ((int[]){1, 3, 4}), 3 * sizeof(int));
    assert_int_equal(team.domain, 1);
    assert_int_equal(team.local_rank, 1);
    assert_int_equal(team.n_leaders, 1); /* one rank is alone */
    assert_memory_equal(team.leader_of, ((int[]){0, 1, 0, 1, 1, 5}), 6 * sizeof(int));
    hvd_team_fini(&team);
}

static void the_smallest_domain_limits_the_leaders(void **state)
{
    static const struct layout layout = {8, {0, 0, 0, 0, 0, 1, 1, 1}};
    int peers[2];
    struct hvd_team team;

    (void)state;
    init_team(&team, &layout, 4);
    assert_int_equal(team.n_leaders, 3);
    assert_memory_equal(team.leader_of, ((int[]){0, 1, 2, 0, 1, 5, 6, 7}), 8 * sizeof(int));
    assert_memory_equal(team.by_leader, ((int[]){0, 3, 5, 1, 4, 6, 2, 7}), 8 * sizeof(int));
    hvd_team_peers(&team, 2, peers);
    assert_memory_equal(peers, ((int[]){2, 7}), sizeof(peers));
    hvd_team_fini(&team);
}

static void peers_add_up_the_domains_in_one_order(void **state)
{
    static const struct layout mirrored = {6, {0, 1, 2, 2, 1, 0}};
    static const struct layout dealt = {6, {0, 1, 2, 0, 1, 2}};
    struct hvd_team team;

    (void)state;
    init_team(&team, &mirrored, 0);
    assert_int_equal(team.n_leaders, 1); /* the second places would begin with the last domain */
    hvd_team_fini(&team);
    init_team(&team, &dealt, 0);
    assert_int_equal(team.n_leaders, 2);
    hvd_team_fini(&team);
}

static void a_team_without_memory_leaves_nothing(void **state)
{
    static const int ranks[] = {0, 1, 2};

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_team team = {0};
        hvd_status_t st = hvd_team_init(&team, 0, ranks, 3, 1, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_team_fini(&team);
    });
}

/* --- Hosts ------------------------------------------------------------------------------------ */

/* A rank: a transport that is `hosts` where that moves a collective, and `far` otherwise. */
struct rank {
    struct hvd_transport base; /* first */
    struct hvd_transport *far;
    struct hvd_team team;
    struct hvd_hosts *hosts;
    struct hvd_hosts_options options;
    const char *problem;
};

struct world {
    struct hvd_sim *sim;
    struct rank ranks[MAX_RANKS];
    void *segments[MAX_RANKS]; /* by domain; mapped once, so that the sanitizer sees all of it */
    int size;
};

static hvd_status_t rank_start(struct hvd_transport *t, struct hvd_collective *c,
                               struct hvd_err *err)
{
    struct rank *r = (struct rank *)t;

    return hvd_hosts_moves(c->op) ? hvd_hosts_start(r->hosts, c, err)
                                  : r->far->ops->start(r->far, c, err);
}

static hvd_status_t rank_test(struct hvd_transport *t, struct hvd_collective *c,
                              struct hvd_err *err)
{
    struct rank *r = (struct rank *)t;

    return hvd_hosts_moves(c->op) ? hvd_hosts_test(r->hosts, c, err)
                                  : r->far->ops->test(r->far, c, err);
}

static const struct hvd_transport_ops rank_ops = {
    .name = "hosts", .start = rank_start, .test = rank_test};

static void open_rank(struct world *w, const struct layout *layout, int rank,
                      const struct hvd_hosts_shape *shape)
{
    struct rank *r = &w->ranks[rank];

    assert_int_equal(hvd_sim_join(w->sim, rank, &r->far, NULL), HVD_OK);
    r->base = (struct hvd_transport){.ops = &rank_ops, .topology = r->far->topology};
    init_team(&r->team, layout, rank);
    if (!w->segments[r->team.domain]) {
        const size_t bytes = hvd_hosts_size(shape, r->team.n_local, layout->size);
        assert_true(bytes > 0);
        w->segments[r->team.domain] = aligned_alloc(128, bytes);
        memset(w->segments[r->team.domain], 0, bytes);
    }
    r->options = (struct hvd_hosts_options){.shape = *shape,
                                            .team = &r->team,
                                            .far = r->far,
                                            .peers_set = PEERS_SET + (uint32_t)r->team.local_rank,
                                            .segment = w->segments[r->team.domain]};
    if (r->team.local_rank >= r->team.n_leaders)
        return;
    int peers[MAX_RANKS];
    hvd_team_peers(&r->team, r->team.local_rank, peers);
    assert_int_equal(
        r->far->ops->add_set(r->far, r->options.peers_set, peers, r->team.n_domains, NULL), HVD_OK);
}

static void open_world(struct world *w, const struct layout *layout, size_t stage_bytes)
{
    const struct hvd_hosts_shape shape = {.stage_bytes = stage_bytes, .n_buffers = 2};
    const struct hvd_sim_options options = {.size = layout->size, .seed = 3, .max_delay = 2};

    *w = (struct world){.size = layout->size};
    assert_int_equal(hvd_sim_create(&options, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < w->size; rank++)
        open_rank(w, layout, rank, &shape);
    for (int rank = 0; rank < w->size; rank++)
        assert_int_equal(hvd_hosts_create(&w->ranks[rank].options, &w->ranks[rank].hosts, NULL),
                         HVD_OK);
}

static void close_world(struct world *w)
{
    for (int rank = 0; rank < w->size; rank++) {
        hvd_hosts_destroy(w->ranks[rank].hosts);
        hvd_team_fini(&w->ranks[rank].team);
        w->ranks[rank].far->ops->destroy(w->ranks[rank].far, true);
        free(w->segments[rank]);
    }
    hvd_sim_destroy(w->sim);
    assert_int_equal(hvd_mem_live(), 0);
}

static void *run_rank(void *arg)
{
    static const int ranks[MAX_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct rank *r = arg;

    r->problem = hvd_transport_every_kind(&r->base, 0, ranks, r->base.topology.size, 2);
    return NULL;
}

static void every_kind_passes_between_threads_without_a_race(void **state)
{
    static const struct layout layouts[] = {
        {4, {0, 0, 1, 1}}, {5, {0, 0, 0, 1, 1}}, {6, {0, 1, 2, 2, 1, 0}}, {3, {0, 1, 2}}};
    pthread_t threads[MAX_RANKS];
    struct world w;

    (void)state;
    for (size_t i = 0; i < N(layouts); i++) {
        open_world(&w, &layouts[i], 2048);
        for (int rank = 0; rank < w.size; rank++)
            assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &w.ranks[rank]), 0);
        for (int rank = 0; rank < w.size; rank++) {
            pthread_join(threads[rank], NULL);
            if (w.ranks[rank].problem)
                fail_msg("rank %d of %d: %s", rank, w.size, w.ranks[rank].problem);
        }
        close_world(&w);
    }
}

static struct hvd_collective sum_of(float *data, int64_t count)
{
    return (struct hvd_collective){.op = HVD_ALLREDUCE,
                                   .dtype = HVD_FLOAT32,
                                   .reduce = HVD_SUM,
                                   .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                   .input = data,
                                   .output = data,
                                   .count = count};
}

static void a_collective_that_is_given_up_ends_all_that_follow(void **state)
{
    static const struct layout layout = {4, {0, 0, 1, 1}};
    static float data[5000];
    struct hvd_collective first = sum_of(data, 5000);
    struct hvd_collective second = sum_of(data, 1);
    struct hvd_err err = {0};
    struct world w;

    (void)state;
    open_world(&w, &layout, 2048);
    struct hvd_hosts *h = w.ranks[0].hosts;
    assert_int_equal(hvd_hosts_start(h, &first, NULL), HVD_OK);
    assert_int_equal(hvd_hosts_start(h, &second, NULL), HVD_OK);
    assert_int_equal(hvd_hosts_test(h, &second, NULL), HVD_INPROGRESS);
    hvd_hosts_abandon(h, &first);
    assert_int_equal(hvd_hosts_test(h, &second, &err), HVD_ERR_CANCELED);
    assert_non_null(strstr(err.msg, "given up"));
    hvd_hosts_abandon(h, &second);
    assert_false(hvd_hosts_has_news(h));
    close_world(&w);
}

static void a_failure_between_hosts_is_that_of_the_collective(void **state)
{
    static const struct layout layout = {2, {0, 1}};
    static float data[10];
    struct hvd_collective c = sum_of(data, 10);
    struct hvd_err err = {0};
    struct world w;
    hvd_status_t st = HVD_INPROGRESS;

    (void)state;
    open_world(&w, &layout, 2048);
    assert_int_equal(hvd_hosts_start(w.ranks[0].hosts, &c, NULL), HVD_OK);
    hvd_sim_kill(w.sim, 1);
    for (int looks = 0; looks < 100 && st == HVD_INPROGRESS; looks++)
        st = hvd_hosts_test(w.ranks[0].hosts, &c, &err);
    assert_int_equal(st, HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "rank 1"));
    hvd_hosts_abandon(w.ranks[0].hosts, &c);
    close_world(&w);
}

static void shapes_that_hold_no_chunk_are_refused(void **state)
{
    const struct hvd_hosts_shape small = {.stage_bytes = 1024, .n_buffers = 2};
    const struct hvd_hosts_shape odd = {.stage_bytes = 100000, .n_buffers = 2};
    const struct hvd_hosts_shape normal = {0};

    (void)state;
    assert_int_equal(hvd_hosts_size(&small, 2, 8), 0);
    assert_int_equal(hvd_hosts_size(&odd, 2, 8), 0);
    assert_int_equal(hvd_hosts_size(&normal, 0, 8), 0);
    assert_true(hvd_hosts_size(&normal, 2, 8) > 4 * 2 * (512 << 10));
    assert_true(hvd_hosts_size(&normal, 2, 10000) > 0); /* grows with the ranks */
}

static void hosts_without_memory_leave_nothing(void **state)
{
    static const struct layout layout = {2, {0, 1}};
    struct world w;

    (void)state;
    open_world(&w, &layout, 2048);
    HVD_MEM_TORTURE({
        struct hvd_hosts *h = NULL;
        hvd_status_t st = hvd_hosts_create(&w.ranks[0].options, &h, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_hosts_destroy(h);
    });
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(domains_and_local_ranks_are_in_the_order_of_ranks),
        cmocka_unit_test(the_smallest_domain_limits_the_leaders),
        cmocka_unit_test(peers_add_up_the_domains_in_one_order),
        cmocka_unit_test(a_team_without_memory_leaves_nothing),
        cmocka_unit_test(every_kind_passes_between_threads_without_a_race),
        cmocka_unit_test(a_collective_that_is_given_up_ends_all_that_follow),
        cmocka_unit_test(a_failure_between_hosts_is_that_of_the_collective),
        cmocka_unit_test(shapes_that_hold_no_chunk_are_refused),
        cmocka_unit_test(hosts_without_memory_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
