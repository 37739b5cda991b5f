#include "tests/unit/support.h"

#include <pthread.h>
#include <stdatomic.h>

#include "worker/api/inside.h"

#define VISITORS 4
#define ROUNDS 200

struct thing {
    int good;
};

static struct thing *_Atomic current;
static atomic_bool is_over;
static atomic_int n_inside;
static atomic_bool may_leave;

static struct thing *make(void)
{
    struct thing *thing = hvd_calloc(1, sizeof(*thing));

    assert_non_null(thing);
    thing->good = 1;
    return thing;
}

static void replace(struct thing *with)
{
    struct thing *old = atomic_exchange(&current, with);

    hvd_inside_drain();
    if (old)
        old->good = 0;
    hvd_free(old);
}

static void *visit(void *arg)
{
    int *n_good = arg;

    while (!atomic_load(&is_over)) {
        hvd_inside_enter();
        const struct thing *thing = atomic_load_explicit(&current, memory_order_acquire);
        if (thing)
            *n_good += thing->good;
        hvd_inside_exit();
    }
    return NULL;
}

static void nothing_is_freed_while_somebody_uses_it(void **state)
{
    pthread_t threads[VISITORS];
    int n_good[VISITORS] = {0};

    (void)state;
    atomic_store(&is_over, false);
    for (int i = 0; i < VISITORS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &n_good[i]), 0);
    for (int i = 0; i < ROUNDS; i++)
        replace(make());
    atomic_store(&is_over, true);
    for (int i = 0; i < VISITORS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    replace(NULL);
}

static void *stay(void *arg)
{
    (void)arg;
    hvd_inside_enter();
    hvd_inside_enter();
    hvd_inside_exit();
    const struct thing *thing = atomic_load(&current);
    atomic_fetch_add(&n_inside, 1);
    while (!atomic_load(&may_leave))
        sched_yield();
    const int good = thing->good;
    hvd_inside_exit();
    return good ? arg : NULL;
}

static void *let_leave(void *arg)
{
    atomic_store(&may_leave, true);
    return arg;
}

static void who_replaces_waits_for_who_is_inside(void **state)
{
    pthread_t visitor;
    pthread_t helper;
    void *result = NULL;

    (void)state;
    replace(make());
    assert_int_equal(pthread_create(&visitor, NULL, stay, &n_inside), 0);
    while (atomic_load(&n_inside) == 0)
        sched_yield();
    assert_int_equal(pthread_create(&helper, NULL, let_leave, NULL), 0);
    replace(NULL);
    assert_true(atomic_load(&may_leave));
    assert_int_equal(pthread_join(visitor, &result), 0);
    assert_ptr_equal(result, &n_inside);
    assert_int_equal(pthread_join(helper, NULL), 0);
}

static void *visit_once(void *arg)
{
    hvd_inside_enter();
    hvd_inside_exit();
    return arg;
}

static void visit_in_a_thread(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, visit_once, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void threads_that_come_and_go_take_no_more_memory(void **state)
{
    (void)state;
    visit_in_a_thread();
    const long live = hvd_mem_live();
    for (int i = 0; i < 20; i++)
        visit_in_a_thread();
    assert_int_equal(hvd_mem_live(), live);
}

static void a_thread_without_memory_can_visit(void **state)
{
    pthread_t threads[VISITORS + 1];
    int n_good = 0;

    (void)state;
    atomic_store(&is_over, false);
    hvd_mem_fail_nth(1);
    for (int i = 0; i <= VISITORS; i++) /* more than have visited before: one needs memory */
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &n_good), 0);
    while (!hvd_mem_fired())
        sched_yield();
    hvd_mem_fail_nth(0);
    hvd_inside_drain();
    atomic_store(&is_over, true);
    for (int i = 0; i <= VISITORS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    hvd_inside_drain();
    assert_int_equal(n_good, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_freed_while_somebody_uses_it),
        cmocka_unit_test(who_replaces_waits_for_who_is_inside),
        cmocka_unit_test(threads_that_come_and_go_take_no_more_memory),
        cmocka_unit_test(a_thread_without_memory_can_visit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
