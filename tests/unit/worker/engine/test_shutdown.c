/*
 * A rank is lost while the job shuts down in order. Every event of the shutdown has its turn, with
 * every rank as the one that dies just before it: whoever is left comes to its end, and what it
 * waited for has a cause.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/engine/turns.h"
#include "tests/unit/worker/engine/world.h"

#define RANKS_MAX 7

enum witness { ALL, PARENT };

/* A run: the world, and who dies in it. */
struct run {
    int size;
    int fanout;
    const int *parents; /* in the tree of the job, by rank; the root's: itself */
    enum witness witness;
    int victim; /* -1: nobody */
    uint64_t die_at;

    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    uint64_t began_at; /* the events before the first rank shuts down, and in all */
    uint64_t ended_at;
    int next; /* rank to be given to the next thread */
    int n_ready;
    char problem[512];
};

static void blame(struct run *r, int rank, const char *what, hvd_status_t st, const char *text)
{
    if (!r->problem[0])
        snprintf(r->problem, sizeof(r->problem), "rank %d, %s: %s: %.400s", rank, what,
                 hvd_status_str(st), text);
}

static int64_t submit(struct run *r, int rank, uint32_t set, const char *name, int64_t *value)
{
    const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, 1),
                                     .set = set,
                                     .input = value,
                                     .output = value};
    int64_t handle = 0;

    (void)hvd_engine_submit(r->engines[rank], &s, &handle, NULL);
    return handle; /* 0: the job has ended before */
}

/* Whether a text says who is the cause. */
static bool names_cause(const struct run *r, const char *text)
{
    char name[32];

    snprintf(name, sizeof(name), "ank %d", r->victim);
    return strstr(text, "called horovod_shutdown") || (r->victim >= 0 && strstr(text, name));
}

/* What was pending when the job ended: done, where it may be, or not, with a cause. */
static void judge(struct run *r, int rank, int64_t handle, bool may_end_well)
{
    struct hvd_err err = {0};

    if (handle == 0 || rank == r->victim)
        return;
    const hvd_status_t st = hvd_engine_wait(r->engines[rank], handle, NULL, &err);
    if (st == HVD_OK ? !may_end_well : st != HVD_ERR_SHUTDOWN || !names_cause(r, err.msg))
        blame(r, rank, may_end_well ? "moving" : "pending", st, err.msg);
}

/* All ranks are here: what happens next is the shutdown. */
static void meet(struct run *r)
{
    r->n_ready++;
    while (r->n_ready < r->size)
        sched_yield();
    if (r->began_at == 0)
        r->began_at = hvd_sim_events(r->sim);
}

static void *live(void *arg)
{
    struct run *r = arg;
    const int rank = r->next++;
    struct hvd_engine *e = r->engines[rank];
    int others[RANKS_MAX];
    int64_t values[2] = {1, 1};
    int64_t moving = 0;
    int64_t pending = 0;
    uint32_t set = 0;
    struct hvd_err err = {0};

    for (int i = 1; i < r->size; i++)
        others[i - 1] = i;
    hvd_status_t st = hvd_engine_add_set(e, others, r->size - 1, &set, &err);
    if (st != HVD_OK)
        blame(r, rank, "a set", st, err.msg);
    meet(r);
    if (rank > 0) /* in a set without rank 0, which has nothing to do sooner than the others */
        moving = submit(r, rank, set, "moving", &values[0]);
    if (rank < r->size - 1) /* never whole */
        pending = submit(r, rank, 0, "pending", &values[1]);
    st = hvd_engine_shutdown(e, &err);
    if (st != HVD_OK)
        blame(r, rank, "shutdown", st, err.msg);
    judge(r, rank, moving, true);
    judge(r, rank, pending, false);
    return NULL;
}

static void run_world(void *arg)
{
    struct run *r = arg;
    const int witness = r->victim < 0 ? 0 : r->parents[r->victim] + 1;
    const struct hvd_sim_options sim = {
        .size = r->size,
        .seed = 3,
        .max_delay = 3,
        .ranks_per_host = 1,
        .faults = {.die_at = r->die_at,
                   .die_rank = r->victim,
                   .only_witness = r->witness == PARENT ? witness : 0}};
    const struct hvd_engine_options options = {.cycle_ns = 200000,
                                               .idle_poll_ns = 1000000,
                                               .tree_fanout = r->fanout,
                                               .no_background = true,
                                               .cache_capacity = 64};
    struct hvd_transport *transports[RANKS_MAX];
    pthread_t threads[RANKS_MAX];

    bool is_good = hvd_sim_create(&sim, &r->sim, NULL) == HVD_OK;
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = hvd_sim_join(r->sim, rank, &transports[rank], NULL) == HVD_OK;
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = hvd_engine_create(transports[rank], &options, &r->engines[rank], NULL) == HVD_OK;
    for (int rank = 0; is_good && rank < r->size; rank++)
        is_good = pthread_create(&threads[rank], NULL, live, r) == 0;
    if (!is_good)
        abort(); /* no assertion: this is not the stack of the test */
    for (int rank = 0; rank < r->size; rank++)
        pthread_join(threads[rank], NULL);
    r->ended_at = hvd_sim_events(r->sim);
    for (int rank = 0; rank < r->size; rank++)
        hvd_engine_destroy(r->engines[rank]);
    hvd_sim_destroy(r->sim);
}

static struct run run(struct run like)
{
    struct run r = like;
    const char *stopped = turns_run(1, run_world, &r);

    if (stopped || r.problem[0])
        fail_msg("rank %d of %d dies at event %llu, known to %s: %s", r.victim, r.size,
                 (unsigned long long)r.die_at, r.witness == ALL ? "all" : "its parent",
                 stopped ? stopped : r.problem);
    return r;
}

/* Up to the last event there is a rank that has not left. */
static void lose_each(struct run like, int first_victim)
{
    like.victim = -1;
    const struct run whole = run(like);

    assert_true(whole.ended_at > whole.began_at);
    for (like.victim = first_victim; like.victim < like.size; like.victim++)
        for (like.die_at = whole.began_at + 1; like.die_at <= whole.ended_at; like.die_at++)
            (void)run(like);
}

/*
 *        0
 *      /   \
 *     1     4
 *    / \   / \
 *   2   3 5   6
 */
static const int binary[] = {0, 0, 1, 1, 0, 4, 4};
static const int chain[] = {0, 0, 1, 2, 3};

static void whoever_is_lost_while_a_tree_shuts_down_the_others_end_with_a_cause(void **state)
{
    (void)state;
    lose_each((struct run){.size = 7, .fanout = 2, .parents = binary}, 0);
}

static void whoever_is_lost_while_a_chain_shuts_down_the_others_end_with_a_cause(void **state)
{
    (void)state;
    lose_each((struct run){.size = 5, .fanout = 1, .parents = chain}, 0);
}

/* It is there as long as a child of it is. */
static void it_is_enough_that_the_parent_of_the_lost_rank_knows(void **state)
{
    (void)state;
    lose_each((struct run){.size = 7, .fanout = 2, .parents = binary, .witness = PARENT}, 1);
    lose_each((struct run){.size = 5, .fanout = 1, .parents = chain, .witness = PARENT}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_lost_while_a_tree_shuts_down_the_others_end_with_a_cause),
        cmocka_unit_test(whoever_is_lost_while_a_chain_shuts_down_the_others_end_with_a_cause),
        cmocka_unit_test(it_is_enough_that_the_parent_of_the_lost_rank_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
