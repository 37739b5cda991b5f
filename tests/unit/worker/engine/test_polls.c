/*
 * How long a waiting thread polls before it lets others have its processor. Data that never arrives
 * keeps it waiting. The first call of sched_yield shows how many steps it has taken by then.
 */
#include "tests/unit/support.h"

#include <sched.h>

#include "tests/unit/worker/engine/world.h"
#include "worker/engine/state/state.h"

#define TIMEOUT_NS 300000000 /* a busy machine may take the processor away for long */

static const struct hvd_transport_ops *ops_before;
static bool is_counting;
static bool blocks_peer;
static unsigned n_steps;
static unsigned n_at_yield; /* 0: no yield so far */

int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
    if (is_counting && n_at_yield == 0)
        n_at_yield = n_steps;
    return __real_sched_yield();
}

/* Every step receives. */
static hvd_status_t count_step(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err)
{
    const hvd_status_t st = ops_before->receive(t, in, err);

    n_steps += st == HVD_INPROGRESS;
    return st;
}

static bool claim_to_block(const struct hvd_transport *t)
{
    (void)t;
    return blocks_peer;
}

static void open_without_data(struct world *w)
{
    const struct hvd_sim_options sim = {
        .size = 2, .seed = 1, .max_delay = 1, .faults = {.no_data = true}};
    struct hvd_transport *t[2];

    *w = (struct world){.size = 2};
    assert_int_equal(hvd_sim_create(&sim, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(hvd_engine_create(t[rank], &world_manual, &w->engines[rank], NULL),
                         HVD_OK);
}

/* Returns how many steps a thread takes before its first yield. */
static unsigned steps_before_yield(bool blocks)
{
    const struct hvd_request request = world_request(HVD_ALLREDUCE, "t", 1);
    struct hvd_transport_ops ops;
    struct world w;
    int64_t data[2] = {1, 1};
    int64_t handles[2];

    open_without_data(&w);
    for (int rank = 0; rank < 2; rank++)
        handles[rank] = world_submit(&w, rank, &request, &data[rank], &data[rank]);
    world_settle(&w);
    ops_before = w.engines[0]->transport->ops;
    ops = *ops_before;
    ops.receive = count_step;
    ops.blocks_peer = claim_to_block;
    w.engines[0]->transport->ops = &ops;
    blocks_peer = blocks;
    n_steps = 0;
    n_at_yield = 0;
    is_counting = true;
    assert_int_equal(hvd_engine_wait_for(w.engines[0], handles[0], TIMEOUT_NS, NULL, NULL),
                     HVD_INPROGRESS);
    is_counting = false;
    w.engines[0]->transport->ops = ops_before;
    world_destroy(&w);
    assert_true(n_at_yield > 0);
    return n_at_yield;
}

static void a_thread_gives_way_to_a_rank_on_its_processor(void **state)
{
    (void)state;
    assert_true(steps_before_yield(false) > 100);
    assert_true(steps_before_yield(true) <= 2); /* in its wait without sleep, and in the other */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_gives_way_to_a_rank_on_its_processor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
