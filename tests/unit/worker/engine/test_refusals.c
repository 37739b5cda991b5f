/*
 * Tensors that a rank does not take from its program: the others, who wait for it, hear why, and
 * the job goes on. Every call of a name stands for one call of every other rank, in whatever order
 * the ranks make them.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/turns.h"
#include "tests/unit/worker/engine/world.h"

#define CALLS 7
#define N_SEEDS 300
#define REASON "input and output overlap in part"

static const int sizes[] = {1, 2, 3, 5, 8};
static const int fanouts[] = {0, 1, 2};

static int64_t data[MAX_RANKS][CALLS];
static int64_t handles[MAX_RANKS][CALLS];

static void for_all_worlds(void (*body)(struct world *w))
{
    struct hvd_engine_options options = world_manual;
    struct world w;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 3; i++) {
        options.tree_fanout = fanouts[i % 3];
        world_open(&w, sizes[i / 3], i + 1, &options);
        body(&w);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static struct hvd_submission tensor(int rank, int call, const char *name)
{
    data[rank][call] = rank + call;
    return (struct hvd_submission){.request = world_request(HVD_ALLREDUCE, name, 1),
                                   .input = &data[rank][call],
                                   .output = &data[rank][call]};
}

static void take(struct world *w, int rank, int call, const char *name)
{
    const struct hvd_submission s = tensor(rank, call, name);
    struct hvd_err err = {0};

    if (hvd_engine_submit(w->engines[rank], &s, &handles[rank][call], &err) != HVD_OK)
        fail_msg("rank %d: %s", rank, err.msg);
}

static void refuse(struct world *w, int rank, const char *name)
{
    hvd_engine_refuse(w->engines[rank],
                      &(struct hvd_refused){.name = hvd_strview_of(name), .reason = REASON});
}

static void expect_sum(struct world *w, int rank, int call)
{
    struct hvd_err err = {0};

    assert_int_equal(hvd_engine_poll(w->engines[rank], handles[rank][call]), 1);
    if (hvd_engine_wait(w->engines[rank], handles[rank][call], NULL, &err) != HVD_OK)
        fail_msg("rank %d, call %d: %s", rank, call, err.msg);
    assert_int_equal(data[rank][call], w->size * (w->size - 1) / 2 + w->size * call);
}

/* The tensor has failed because that rank refused it. */
static void expect_refused(struct world *w, int rank, int call, int by, const char *name)
{
    char words[64];
    struct hvd_err err = {0};

    assert_int_equal(hvd_engine_poll(w->engines[rank], handles[rank][call]), 1);
    assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][call], NULL, &err),
                     HVD_ERR_MISMATCH);
    snprintf(words, sizeof(words), "Rank %d", by);
    assert_non_null(strstr(err.msg, words));
    snprintf(words, sizeof(words), "refused tensor %s: %s", name, REASON);
    assert_non_null(strstr(err.msg, words));
}

static void sum_of_all(struct world *w, const char *name)
{
    for (int rank = 0; rank < w->size; rank++)
        take(w, rank, 0, name);
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++)
        expect_sum(w, rank, 0);
}

/* `who` refuses, before the others submit or behind them. */
static void refuse_once(struct world *w, int who, bool first, const char *name)
{
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == first)
            refuse(w, who, name);
        for (int rank = 0; rank < w->size && (step == 0) != first; rank++)
            if (rank != who)
                take(w, rank, 0, name);
        world_settle(w);
    }
    for (int rank = 0; rank < w->size; rank++)
        if (rank != who)
            expect_refused(w, rank, 0, who, name);
}

static void each_rank_in_turn(struct world *w)
{
    for (int n = 0; n < 2 * w->size; n++) {
        refuse_once(w, n / 2, n % 2, "new");
        sum_of_all(w, "new");
        for (int i = 0; i < 3; i++)
            sum_of_all(w, "known");
        refuse_once(w, n / 2, n % 2, "known");
        sum_of_all(w, "known");
    }
}

static void the_others_hear_who_refused_what_and_why(void **state)
{
    (void)state;
    for_all_worlds(each_rank_in_turn);
}

/* The next call of a rank, unless the last one is still pending. */
static bool call_next(struct world *w, int rank, int *n_called, const bool *is_good)
{
    const int call = *n_called;

    if (call == CALLS || (call > 0 && is_good[call - 1] &&
                          hvd_engine_poll(w->engines[rank], handles[rank][call - 1]) == 0))
        return false;
    if (is_good[call])
        take(w, rank, call, "again");
    else
        refuse(w, rank, "again");
    ++*n_called;
    return true;
}

/* All ranks make the same calls, some of which are refused everywhere, each at its own pace. */
static void same_calls(struct world *w)
{
    static const bool is_good[CALLS] = {false, false, true, true, false, true, false};

    for (int seed = 0; seed < 20; seed++) {
        int n_called[MAX_RANKS] = {0};
        int n_done = 0;
        for (int i = 0; n_done < w->size * CALLS; i++) {
            const int rank = (i * 7 + i / 5 * seed) % w->size;
            for (int burst = 0; burst <= seed % 4; burst++)
                n_done += call_next(w, rank, &n_called[rank], is_good);
            for (int k = 0; k < i % 3; k++)
                (void)hvd_engine_step(w->engines[(rank + k) % w->size]);
            if (i % 1000 == 999) /* whoever was not chosen is now */
                seed++;
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            for (int call = 0; call < CALLS; call++)
                if (is_good[call])
                    expect_sum(w, rank, call);
    }
}

static void a_call_stands_for_one_call_of_every_other_rank(void **state)
{
    (void)state;
    for_all_worlds(same_calls);
}

/* Refused once by the one, submitted by the others; then all go on with the name at once. */
static void retry_at_once(struct world *w)
{
    for (int who = 0; who < w->size; who++) {
        refuse(w, who, "again");
        take(w, who, 1, "again"); /* behind it */
        for (int rank = 0; rank < w->size; rank++)
            if (rank != who)
                take(w, rank, 0, "again");
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            if (rank != who)
                expect_refused(w, rank, 0, who, "again");
        for (int rank = 0; rank < w->size; rank++)
            if (rank != who)
                take(w, rank, 1, "again");
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            expect_sum(w, rank, 1);
    }
}

static void the_name_may_be_used_again_at_once(void **state)
{
    (void)state;
    for_all_worlds(retry_at_once);
}

static void groups(struct world *w)
{
    for (int who = 0; who < w->size; who++) {
        refuse(w, who, "one");
        refuse(w, who, "two");
        for (int rank = 0; rank < w->size; rank++) {
            const struct hvd_submission s[] = {tensor(rank, 0, "one"), tensor(rank, 1, "two")};
            if (rank != who)
                assert_int_equal(
                    hvd_engine_submit_group(w->engines[rank], s, 2, handles[rank], NULL), HVD_OK);
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++) {
            if (rank == who)
                continue;
            expect_refused(w, rank, 0, who, "one");
            expect_refused(w, rank, 1, who, "two");
        }
        refuse(w, who, "one"); /* nobody asks for it any more but this rank */
        for (int rank = 0; rank < w->size; rank++) {
            if (rank != who)
                refuse(w, rank, "one");
            const struct hvd_submission s[] = {tensor(rank, 0, "one"), tensor(rank, 1, "two")};
            assert_int_equal(hvd_engine_submit_group(w->engines[rank], s, 2, handles[rank], NULL),
                             HVD_OK);
            (void)hvd_engine_step(w->engines[rank]);
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++) {
            expect_sum(w, rank, 0);
            expect_sum(w, rank, 1);
        }
    }
}

static void a_group_that_is_refused_fails_as_a_whole(void **state)
{
    (void)state;
    for_all_worlds(groups);
}

/* A group that cannot be submitted leaves nothing behind. */
static void half_a_group(struct world *w)
{
    const struct hvd_submission twice[] = {tensor(0, 0, "one"), tensor(0, 1, "one")};

    refuse(w, 0, "one");
    assert_int_equal(hvd_engine_submit_group(w->engines[0], twice, 2, handles[0], NULL),
                     HVD_ERR_EXISTS);
    take(w, 0, 1, "one");
    for (int rank = 1; rank < w->size; rank++) {
        refuse(w, rank, "one");
        take(w, rank, 1, "one");
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++)
        expect_sum(w, rank, 1);
}

static void a_group_refused_for_a_name_it_has_twice_leaves_nothing_behind(void **state)
{
    (void)state;
    for_all_worlds(half_a_group);
}

/* What is pending is what the others wait for. */
static void while_it_is_pending(struct world *w)
{
    for (int round = 0; round < 3; round++) { /* by name, then by bit */
        for (int rank = 0; rank < w->size; rank++) {
            take(w, rank, 0, "pending");
            if (w->size > 1)
                refuse(w, rank, "pending");
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            expect_sum(w, rank, 0);
        sum_of_all(w, "another");
    }
}

static void a_refusal_of_a_name_that_is_pending_is_nobodys_business(void **state)
{
    (void)state;
    for_all_worlds(while_it_is_pending);
}

/* One refuses what nobody else ever submits: nothing is held up, and nothing stays. */
static void unmatched(struct world *w)
{
    const int who = w->size - 1;

    for (int i = 0; i < 3; i++)
        refuse(w, who, "nobody follows");
    world_settle(w);
    sum_of_all(w, "goes on");
    take(w, who, 1, "nobody follows");
    world_settle(w);
    if (w->size == 1) {
        expect_sum(w, who, 1);
        return;
    }
    assert_int_equal(hvd_engine_poll(w->engines[who], handles[who][1]), 0);
    world_close(w); /* what waits behind it ends with the job */
}

static void unmatched_world(const struct hvd_engine_options *options, int size)
{
    struct world w;

    world_open(&w, size, 3, options);
    unmatched(&w);
    if (size == 1)
        world_close(&w);
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_refusal_that_nobody_follows_ends_with_the_job(void **state)
{
    struct hvd_engine_options options = world_manual;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 3; i++) {
        options.tree_fanout = fanouts[i % 3];
        unmatched_world(&options, sizes[i / 3]);
    }
}

/* Whoever refuses for want of memory may have none to say so: then the job ends, and nobody waits.
 */
static void without_memory(struct world *w)
{
    struct hvd_err err = {0};

    if (w->size == 1)
        return;
    for (int rank = 1; rank < w->size; rank++)
        take(w, rank, 0, "a name that is longer than all those which came before it in this job");
    hvd_mem_fail_nth(1);
    refuse(w, 0, "a name that is longer than all those which came before it in this job");
    hvd_mem_fail_nth(0);
    world_settle(w);
    for (int rank = 1; rank < w->size; rank++) {
        assert_int_equal(hvd_engine_poll(w->engines[rank], handles[rank][0]), 1);
        assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][0], NULL, &err),
                         HVD_ERR_SHUTDOWN);
        assert_non_null(strstr(err.msg, "announcing that a tensor was refused"));
    }
}

static void a_refusal_that_cannot_be_announced_ends_the_job(void **state)
{
    (void)state;
    for_all_worlds(without_memory);
}

static void sets_of_ranks(struct world *w, int rank)
{
    const int ranks[] = {0, w->size};
    const int all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct hvd_err err = {0};
    uint32_t id = 0;

    for (int who = 0; who < w->size; who++) {
        const hvd_status_t st =
            hvd_engine_add_set(w->engines[rank], rank == who ? ranks : all, 2, &id, &err);
        if (w->size == 1)
            continue;
        world_expect(st == (rank == who ? HVD_ERR_INVALID : HVD_ERR_MISMATCH), err.msg, rank);
        world_expect(rank == who || strstr(err.msg, "that does not exist"), err.msg, rank);
        world_expect(hvd_engine_agree(w->engines[rank], 5, &err) == HVD_OK, err.msg, rank);
    }
}

static void a_process_set_that_one_rank_refuses_fails_on_all(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_open(&w, sizes[i], i, &world_threaded);
        world_run(&w, sets_of_ranks);
        world_close(&w);
        assert_int_equal(world_problems(), 0);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

/* All ranks refuse the name some times, as fast as they can, and then submit it. */
static void refuse_and_submit(struct world *w, int rank)
{
    for (int call = 0; call < CALLS; call++) {
        const struct hvd_submission s = tensor(rank, call, "again");
        struct hvd_err err = {0};
        int64_t handle = 0;

        for (int i = 0; i < call % 4; i++)
            refuse(w, rank, "again");
        hvd_status_t st = hvd_engine_submit(w->engines[rank], &s, &handle, &err);
        if (st == HVD_OK)
            st = hvd_engine_wait(w->engines[rank], handle, NULL, &err);
        world_expect(st == HVD_OK, err.msg, rank);
        world_expect(data[rank][call] == w->size * (w->size - 1) / 2 + w->size * call, "sum", rank);
    }
}

static void run_in_turns(void *arg)
{
    struct world w;

    world_open(&w, *(const int *)arg, 1, &world_threaded);
    world_run(&w, refuse_and_submit);
    world_close(&w);
}

/* The thread that answers a refusal and the program, which refuses the name again, step by step. */
static void a_name_is_refused_again_while_it_is_answered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        int size = 2 + (int)(seed % 3);
        const char *stopped = turns_run(seed, run_in_turns, &size);
        if (stopped)
            fail_msg("seed %d: %s", (int)seed, stopped);
        assert_int_equal(world_problems(), 0);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_hear_who_refused_what_and_why),
        cmocka_unit_test(a_call_stands_for_one_call_of_every_other_rank),
        cmocka_unit_test(the_name_may_be_used_again_at_once),
        cmocka_unit_test(a_group_that_is_refused_fails_as_a_whole),
        cmocka_unit_test(a_group_refused_for_a_name_it_has_twice_leaves_nothing_behind),
        cmocka_unit_test(a_refusal_of_a_name_that_is_pending_is_nobodys_business),
        cmocka_unit_test(a_refusal_that_nobody_follows_ends_with_the_job),
        cmocka_unit_test(a_refusal_that_cannot_be_announced_ends_the_job),
        cmocka_unit_test(a_process_set_that_one_rank_refuses_fails_on_all),
        cmocka_unit_test(a_name_is_refused_again_while_it_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
