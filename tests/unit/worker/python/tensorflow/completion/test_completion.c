/* The completion thread: it runs each item once, in the order of one thread, and not in that
 * thread.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "worker/python/tensorflow/completion/completion.h"

#define N_THREADS 4
#define N_ITEMS 5000

/* An item is destroyed when it runs, as a call of TensorFlow is. */
struct item {
    struct hvd_tf_completion completion;
    int thread;
    int number;
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t is_complete;
    int n_run;              /* guarded by mu */
    int n_left;             /* guarded by mu */
    int n_wrong;            /* the completion thread's, until n_left is 0 */
    int next[N_THREADS];    /* likewise */
    atomic_bool is_blocked; /* the items wait */
    pthread_t program;      /* constant */
} world = {.mu = PTHREAD_MUTEX_INITIALIZER, .is_complete = PTHREAD_COND_INITIALIZER};

static void run(struct hvd_tf_completion *completion)
{
    struct item *item = (struct item *)completion;

    while (atomic_load(&world.is_blocked))
        continue;
    if (world.next[item->thread]++ != item->number || pthread_equal(world.program, pthread_self()))
        world.n_wrong++;
    hvd_free(item);
    pthread_mutex_lock(&world.mu);
    world.n_run++;
    if (--world.n_left == 0)
        pthread_cond_signal(&world.is_complete);
    pthread_mutex_unlock(&world.mu);
}

static void put(int thread, int number)
{
    struct item *item = hvd_malloc(1, sizeof(*item));

    *item = (struct item){.completion.run = run, .thread = thread, .number = number};
    hvd_tf_completion_put(&item->completion);
}

static void *put_all(void *arg)
{
    const int thread = (int)((int *)arg - world.next);

    if (!hvd_tf_completion_start())
        return arg;
    for (int i = 0; i < N_ITEMS; i++)
        put(thread, i);
    return NULL;
}

static void begin(int n)
{
    world.program = pthread_self();
    world.n_run = 0;
    world.n_left = n;
    world.n_wrong = 0;
    for (int i = 0; i < N_THREADS; i++)
        world.next[i] = 0;
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&world.mu);
    while (world.n_left > 0)
        pthread_cond_wait(&world.is_complete, &world.mu);
    pthread_mutex_unlock(&world.mu);
}

static void items_of_several_threads_run_once_and_in_order(void **state)
{
    pthread_t threads[N_THREADS];

    (void)state;
    begin(N_THREADS * N_ITEMS);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_all, &world.next[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    wait_for_all();
    assert_int_equal(world.n_run, N_THREADS * N_ITEMS);
    assert_int_equal(world.n_wrong, 0);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(world.next[i], N_ITEMS);
}

static void a_put_does_not_wait_for_the_items_before_it(void **state)
{
    (void)state;
    assert_true(hvd_tf_completion_start());
    begin(3);
    atomic_store(&world.is_blocked, true);
    for (int i = 0; i < 3; i++)
        put(0, i);
    pthread_mutex_lock(&world.mu);
    const int n_run = world.n_run;
    pthread_mutex_unlock(&world.mu);
    atomic_store(&world.is_blocked, false);
    wait_for_all();
    assert_int_equal(n_run, 0);
    assert_int_equal(world.n_wrong, 0);
}

static void an_item_after_a_pause_wakes_the_thread(void **state)
{
    (void)state;
    assert_true(hvd_tf_completion_start());
    for (int i = 0; i < 100; i++) {
        begin(1);
        put(0, 0);
        wait_for_all();
        assert_int_equal(world.n_wrong, 0);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_of_several_threads_run_once_and_in_order),
        cmocka_unit_test(a_put_does_not_wait_for_the_items_before_it),
        cmocka_unit_test(an_item_after_a_pause_wakes_the_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
