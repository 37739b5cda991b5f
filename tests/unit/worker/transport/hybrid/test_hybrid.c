/*
 * A transport that is given up while a thread makes a process set in it, for which nobody waits any
 * more: the thread goes on below it.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/sim/sim.h"
#include "worker/transport/hybrid/hybrid.h"

#define LOOKS 3

/* What the thread of rank 0 does with the transport below: sim with these functions in between. */
static const struct hvd_transport_ops *below;
static struct hvd_transport_ops watched;
static atomic_bool is_freed;
static atomic_int n_looks;
static atomic_int n_late;

static hvd_status_t fail_late(struct hvd_err *err)
{
    atomic_fetch_add(&n_late, 1);
    return HVD_FAIL(err, HVD_ERR_STATE, 0, "the transport is gone");
}

static hvd_status_t watch_start(struct hvd_transport *t, struct hvd_collective *c,
                                struct hvd_err *err)
{
    return atomic_load(&is_freed) ? fail_late(err) : below->start(t, c, err);
}

static hvd_status_t watch_test(struct hvd_transport *t, struct hvd_collective *c,
                               struct hvd_err *err)
{
    atomic_fetch_add(&n_looks, 1);
    return atomic_load(&is_freed) ? fail_late(err) : below->test(t, c, err);
}

static bool watch_destroy(struct hvd_transport *t, bool clean)
{
    if (t->is_left)
        return false;
    atomic_store(&is_freed, true);
    return below->destroy(t, clean);
}

struct part {
    struct hvd_transport *t;
    hvd_status_t status;
};

static void *enter(void *arg)
{
    struct part *part = arg;
    const struct hvd_hybrid_options options = {.wants_shm = true};
    struct hvd_transport *far = part->t;

    part->status = hvd_hybrid_create(far, &options, &part->t, NULL);
    return NULL;
}

static void *add(void *arg)
{
    struct part *part = arg;

    part->status = part->t->ops->add_set(part->t, 1, (const int[]){0, 1}, 2, NULL);
    return NULL;
}

static void run_both(struct part *parts, void *(*fn)(void *))
{
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, fn, &parts[1]), 0);
    fn(&parts[0]);
    pthread_join(other, NULL);
    assert_int_equal(parts[0].status, HVD_OK);
    assert_int_equal(parts[1].status, HVD_OK);
}

static void open_both(struct hvd_sim **sim, struct part *parts)
{
    const struct hvd_sim_options options = {.size = 2, .seed = 3, .max_delay = 2};

    assert_int_equal(hvd_sim_create(&options, sim, NULL), HVD_OK);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(hvd_sim_join(*sim, rank, &parts[rank].t, NULL), HVD_OK);
    below = parts[0].t->ops;
    watched = *below;
    watched.start = watch_start;
    watched.test = watch_test;
    watched.destroy = watch_destroy;
    parts[0].t->ops = &watched;
    run_both(parts, enter);
}

/* The thread of rank 0 waits for the other rank, and looks a few times more. */
static void look_on(void)
{
    const int before = atomic_load(&n_looks);

    while (atomic_load(&n_looks) < before + LOOKS && atomic_load(&n_late) == 0)
        sched_yield();
    assert_int_equal(atomic_load(&n_late), 0);
}

static void what_a_thread_that_was_left_works_on_stays(void **state)
{
    struct hvd_sim *sim;
    struct part parts[2] = {0};
    pthread_t left;

    (void)state;
    open_both(&sim, parts);
    assert_int_equal(pthread_create(&left, NULL, add, &parts[0]), 0);
    look_on();
    parts[0].t->is_left = true;
    assert_false(parts[0].t->ops->destroy(parts[0].t, false));
    look_on();

    add(&parts[1]); /* once the other rank comes, it does all the rest */
    pthread_join(left, NULL);
    assert_int_equal(parts[0].status, HVD_OK);
    assert_int_equal(parts[1].status, HVD_OK);
    assert_int_equal(n_late, 0);

    parts[0].t->is_left = false; /* for this test the thread has ended: nothing is left */
    watched.destroy = below->destroy;
    parts[0].t->ops->destroy(parts[0].t, false);
    parts[1].t->ops->destroy(parts[1].t, false);
    hvd_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_thread_that_was_left_works_on_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
