/*
 * The completion thread. TensorFlow goes on with a graph in the call that reports the end of a
 * kernel, and may run any of its operations there. The runtime's progress thread must not do that:
 * meanwhile no collective would make progress. So it puts the ended calls into a queue, and this
 * thread reports them. It starts with the first asynchronous call and lasts until the process ends.
 */
#include "worker/python/tensorflow/completion/completion.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

static struct {
    pthread_mutex_t mu;
    pthread_cond_t has_items;
    struct hvd_tf_completion *first; /* guarded by mu, as all below */
    struct hvd_tf_completion **end;
    bool is_started;
} queue = {.mu = PTHREAD_MUTEX_INITIALIZER, .has_items = PTHREAD_COND_INITIALIZER};

/* Sleeps until there are items. Tensors of a fused operation end together: where both threads share
 * a processor, the progress thread puts the others into the queue before this one goes on. */
static void wait_for_items(void)
{
    pthread_mutex_lock(&queue.mu);
    const bool has_slept = !queue.first;
    while (!queue.first)
        pthread_cond_wait(&queue.has_items, &queue.mu);
    pthread_mutex_unlock(&queue.mu);
    if (has_slept)
        sched_yield();
}

static struct hvd_tf_completion *take_all(void)
{
    pthread_mutex_lock(&queue.mu);
    struct hvd_tf_completion *items = queue.first;
    queue.first = NULL;
    queue.end = &queue.first;
    pthread_mutex_unlock(&queue.mu);
    return items;
}

static void *complete(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "hvd-tf-done");
    for (;;) {
        wait_for_items();
        struct hvd_tf_completion *item = take_all();
        while (item) {
            struct hvd_tf_completion *next = item->next;
            item->run(item);
            item = next;
        }
    }
    return NULL;
}

bool hvd_tf_completion_start(void)
{
    pthread_t thread;

    pthread_mutex_lock(&queue.mu);
    if (!queue.is_started) {
        queue.end = &queue.first;
        queue.is_started = pthread_create(&thread, NULL, complete, NULL) == 0;
        if (queue.is_started)
            pthread_detach(thread);
    }
    const bool is_started = queue.is_started;
    pthread_mutex_unlock(&queue.mu);
    return is_started;
}

void hvd_tf_completion_put(struct hvd_tf_completion *item)
{
    item->next = NULL;
    pthread_mutex_lock(&queue.mu);
    const bool was_empty = !queue.first;
    *queue.end = item;
    queue.end = &item->next;
    pthread_mutex_unlock(&queue.mu);
    if (was_empty)
        pthread_cond_signal(&queue.has_items);
}
