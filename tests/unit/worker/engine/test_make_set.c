/*
 * A job that ends while a thread makes a process set: the transport is told that the thread is left
 * behind before it is given up.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/unit/worker/engine/world.h"

#define SIZE 3

/* The simulated transport, whose add_set waits until it may go on. */
static const struct hvd_transport_ops *below;
static struct hvd_transport_ops waiting;
static atomic_bool may_go_on;
static atomic_int n_inside;
static atomic_int n_left;   /* transports that were given up with a thread left behind */
static atomic_int n_others; /* and without */

static hvd_status_t wait_in_add_set(struct hvd_transport *t, uint32_t set, const int *ranks,
                                    int n_ranks, struct hvd_err *err)
{
    (void)t;
    (void)set;
    (void)ranks;
    (void)n_ranks;
    (void)err;
    atomic_fetch_add(&n_inside, 1);
    while (!atomic_load(&may_go_on))
        sched_yield();
    atomic_fetch_sub(&n_inside, 1);
    return HVD_OK;
}

static bool adds_aside(const struct hvd_transport *t)
{
    (void)t;
    return true;
}

static bool note_destroy(struct hvd_transport *t, bool clean)
{
    atomic_fetch_add(t->is_left ? &n_left : &n_others, 1);
    return below->destroy(t, clean); /* wait_in_add_set uses nothing of it */
}

static void open_waiting(struct world *w)
{
    const struct hvd_sim_options sim = {.size = SIZE, .seed = 4, .max_delay = 2};
    struct hvd_engine_options options = world_threaded;
    struct hvd_transport *t[MAX_RANKS];

    *w = (struct world){.size = SIZE};
    options.stall_warning_ns = 1000000000;
    assert_int_equal(hvd_sim_create(&sim, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < SIZE; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &t[rank], NULL), HVD_OK);
    below = t[0]->ops;
    waiting = *below;
    waiting.add_set = wait_in_add_set;
    waiting.adds_aside = adds_aside;
    waiting.destroy = note_destroy;
    for (int rank = 0; rank < SIZE; rank++) {
        t[rank]->ops = &waiting;
        assert_int_equal(hvd_engine_create(t[rank], &options, &w->engines[rank], NULL), HVD_OK);
    }
}

/* Ranks 0 and 1 make a set; rank 2 is lost once both are at it. */
static void make_set(struct world *w, int rank)
{
    const int members[] = {0, 1};
    uint32_t id = 0;
    hvd_status_t st = hvd_engine_add_set(w->engines[rank], members, 2, &id, NULL);

    if (rank == 2) {
        while (atomic_load(&n_inside) < 2)
            sched_yield();
        hvd_sim_kill(w->sim, rank);
    } else {
        world_expect(st == HVD_ERR_SHUTDOWN, "a set that was not made", rank);
    }
    (void)hvd_engine_shutdown(w->engines[rank], NULL);
}

static void a_transport_is_told_of_the_thread_that_is_left_behind(void **state)
{
    struct world w;

    (void)state;
    open_waiting(&w);
    world_run(&w, make_set);
    assert_int_equal(n_left, 2);
    assert_int_equal(n_others, 1);
    atomic_store(&may_go_on, true);
    while (atomic_load(&n_inside) > 0)
        sched_yield();
    world_destroy(&w);
    assert_int_equal(world_problems(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transport_is_told_of_the_thread_that_is_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
