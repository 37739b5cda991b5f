/*
 * Groups of one name that have different numbers of tensors on different ranks, none among them:
 * they fail on all ranks at once, in stars and in deep trees, known by bits or by name, whoever is
 * early, refused or not; and the calls behind them run.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define N_CALLS 10
#define N_MAX 4
#define REASON "no reason"
#define LOOKS_MAX 200000

static const int sizes[] = {1, 2, 3, 5, 8};
static const int fanouts[] = {0, 1, 2};

/* What one rank does in a call: a group of so many tensors, which it submits or refuses. */
struct call {
    int n;
    bool is_refused;
};

struct rank {
    int at; /* the call that comes next, or is pending */
    bool is_pending;
    int64_t handles[N_MAX];
    int64_t data[N_MAX];
};

static struct call calls[MAX_RANKS][N_CALLS];
static struct rank ranks[MAX_RANKS];
static uint64_t random_state;

static int random_below(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

/* Of each kind some: all alike, one other rank, anything. */
static void draw(int size)
{
    for (int c = 0; c < N_CALLS; c++) {
        const int kind = random_below(4);
        const int n = 1 + random_below(N_MAX);
        for (int rank = 0; rank < size; rank++)
            calls[rank][c] = (struct call){.n = n};
        if (kind == 1)
            calls[random_below(size)][c].n = random_below(N_MAX + 1);
        for (int rank = 0; kind >= 2 && rank < size; rank++)
            calls[rank][c] =
                (struct call){.n = random_below(N_MAX + 1), .is_refused = random_below(3) == 0};
        for (int rank = 0; rank < size; rank++)
            calls[rank][c].is_refused |= calls[rank][c].n == 0;
    }
}

static const char *name_of(int i, int n)
{
    static char names[N_MAX][64];

    snprintf(names[i], sizeof(names[i]), "grouped_allreduce.x_%dof%d", i + 1, n);
    return names[i];
}

static void refuse(struct world *w, int rank, int n)
{
    for (int i = 0; i < (n > 0 ? n : 1); i++)
        hvd_engine_refuse(
            w->engines[rank],
            &(struct hvd_refused){.name = hvd_strview_of(name_of(i, n)), .reason = REASON});
}

static void submit(struct world *w, int rank, int n)
{
    struct hvd_submission s[N_MAX];
    struct rank *r = &ranks[rank];
    struct hvd_err err = {0};

    for (int i = 0; i < n; i++) {
        r->data[i] = rank + i;
        s[i] = (struct hvd_submission){.request = world_request(HVD_ALLREDUCE, name_of(i, n), 1),
                                       .input = &r->data[i],
                                       .output = &r->data[i]};
    }
    if (hvd_engine_submit_group(w->engines[rank], s, (uint32_t)n, r->handles, &err) != HVD_OK)
        fail_msg("rank %d, call %d: %s", rank, r->at, err.msg);
    r->is_pending = true;
}

static bool is_alike(int size, int c, bool *is_refused)
{
    bool is_same = true;

    *is_refused = false;
    for (int rank = 0; rank < size; rank++) {
        is_same = is_same && calls[rank][c].n == calls[0][c].n;
        *is_refused = *is_refused || calls[rank][c].is_refused;
    }
    return is_same;
}

/* How a group that a rank has submitted has to end. */
static void expect(struct world *w, int rank, int i)
{
    struct rank *r = &ranks[rank];
    struct hvd_err err = {0};
    bool is_refused = false;
    const bool is_same = is_alike(w->size, r->at, &is_refused);
    const hvd_status_t st = hvd_engine_wait(w->engines[rank], r->handles[i], NULL, &err);

    if (is_same && !is_refused) {
        if (st != HVD_OK)
            fail_msg("rank %d of %d, call %d: %s", rank, w->size, r->at, err.msg);
        assert_int_equal(r->data[i], w->size * (w->size - 1) / 2 + w->size * i);
        return;
    }
    assert_int_equal(st, HVD_ERR_MISMATCH);
    const char *mismatched = strstr(err.msg, "Mismatched number of tensors in group "
                                             "grouped_allreduce.x: ");
    if (!is_refused && !mismatched)
        fail_msg("rank %d, call %d: %s", rank, r->at, err.msg);
    if (is_refused)
        assert_non_null(strstr(err.msg, REASON));
}

/* The next thing that a rank's program does, if it can. */
static void play(struct world *w, int rank)
{
    struct rank *r = &ranks[rank];
    const struct call *call = &calls[rank][r->at];

    if (!r->is_pending && call->is_refused) {
        refuse(w, rank, call->n);
        r->at++;
    } else if (!r->is_pending) {
        submit(w, rank, call->n);
    } else {
        for (int i = 0; i < call->n; i++)
            if (hvd_engine_poll(w->engines[rank], r->handles[i]) == 0)
                return;
        for (int i = 0; i < call->n; i++)
            expect(w, rank, i);
        r->is_pending = false;
        r->at++;
    }
}

static void run(struct world *w)
{
    int n_left = w->size;

    for (int look = 0; look < LOOKS_MAX && n_left > 0; look++) {
        const int rank = random_below(w->size);
        if (ranks[rank].at == N_CALLS) {
            (void)hvd_engine_step(w->engines[rank]);
            continue;
        }
        play(w, rank);
        n_left -= ranks[rank].at == N_CALLS;
        for (int i = random_below(3); i > 0; i--)
            (void)hvd_engine_step(w->engines[random_below(w->size)]);
    }
    for (int rank = 0; rank < w->size; rank++)
        if (ranks[rank].at < N_CALLS)
            fail_msg("rank %d waits in call %d", rank, ranks[rank].at);
}

static void groups_of_different_numbers_fail_and_what_follows_runs(void **state)
{
    struct hvd_engine_options options = world_manual;
    struct world w;

    (void)state;
    options.cycle_ns = 0;
    for (int seed = 0; seed < 1500; seed++) {
        const int size = sizes[seed % 5];
        random_state = (uint64_t)seed * 7919 + 1;
        options.tree_fanout = fanouts[seed / 5 % 3];
        options.cache_capacity = seed / 15 % 4 == 0 ? 0 : 64;
        world_open(&w, size, (uint64_t)seed + 1, &options);
        memset(ranks, 0, sizeof(ranks));
        draw(size);
        run(&w);
        world_settle(&w);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_different_numbers_fail_and_what_follows_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
