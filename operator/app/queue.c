/*
 * The work queue: a binary heap of intrusive items ordered by due time. An item is in the heap or
 * active, never both, so two workers cannot hold one job. Pure; the heap's room is reserved when an
 * item is born, so that no event is ever lost to a failed allocation.
 */
#include "operator/app/queue.h"

#include "base/mem.h"
#include "operator/kube/backoff.h"

static const struct hvd_backoff backoff = {.first_ms = 100, .max_ms = 30000};

void hvd_queue_fini(struct hvd_queue *queue)
{
    hvd_free(queue->_heap);
    *queue = (struct hvd_queue){0};
}

hvd_status_t hvd_queue_reserve(struct hvd_queue *queue)
{
    struct hvd_queue_item **heap;
    size_t capacity;

    if (queue->_n_items < queue->_capacity) {
        queue->_n_items++;
        return HVD_OK;
    }
    capacity = queue->_capacity ? queue->_capacity * 2 : 16;
    heap = hvd_realloc(queue->_heap, capacity, sizeof(struct hvd_queue_item *));
    if (!heap)
        return HVD_ERR_NOMEM;
    queue->_heap = heap;
    queue->_capacity = capacity;
    queue->_n_items++;
    return HVD_OK;
}

static void place(struct hvd_queue *queue, struct hvd_queue_item *item, size_t at)
{
    queue->_heap[at] = item;
    item->_index = at + 1;
}

static void move_up(struct hvd_queue *queue, size_t at)
{
    struct hvd_queue_item *item = queue->_heap[at];

    while (at && queue->_heap[(at - 1) / 2]->_due_ms > item->_due_ms) {
        place(queue, queue->_heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    place(queue, item, at);
}

static void move_down(struct hvd_queue *queue, size_t at)
{
    struct hvd_queue_item *item = queue->_heap[at];

    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= queue->_n)
            break;
        if (child + 1 < queue->_n &&
            queue->_heap[child + 1]->_due_ms < queue->_heap[child]->_due_ms)
            child++;
        if (queue->_heap[child]->_due_ms >= item->_due_ms)
            break;
        place(queue, queue->_heap[child], at);
        at = child;
    }
    place(queue, item, at);
}

static void remove_from_heap(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    size_t at = item->_index - 1;
    struct hvd_queue_item *last = queue->_heap[--queue->_n];

    item->_index = 0;
    if (last == item)
        return;
    place(queue, last, at);
    move_down(queue, at);
    move_up(queue, last->_index - 1);
}

void hvd_queue_forget(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    if (item->_index)
        remove_from_heap(queue, item);
    *item = (struct hvd_queue_item){0};
    queue->_n_items--;
}

void hvd_queue_add(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t due_ms)
{
    if (item->_is_active) {
        if (!item->_is_again || due_ms < item->_due_ms)
            item->_due_ms = due_ms;
        item->_is_again = true;
        return;
    }
    if (item->_index) {
        if (due_ms < item->_due_ms) {
            item->_due_ms = due_ms;
            move_up(queue, item->_index - 1);
        }
        return;
    }
    item->_due_ms = due_ms;
    queue->_heap[queue->_n] = item;
    move_up(queue, queue->_n++);
}

struct hvd_queue_item *hvd_queue_take(struct hvd_queue *queue, int64_t now_ms)
{
    struct hvd_queue_item *item;

    if (!queue->_n || queue->_heap[0]->_due_ms > now_ms)
        return NULL;
    item = queue->_heap[0];
    remove_from_heap(queue, item);
    item->_is_active = true;
    item->_is_again = false;
    return item;
}

void hvd_queue_done(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    item->_is_active = false;
    item->_n_failures = 0;
    if (item->_is_again)
        hvd_queue_add(queue, item, item->_due_ms);
    item->_is_again = false;
}

int64_t hvd_queue_fail(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t now_ms,
                       uint32_t random, int64_t at_least_ms)
{
    int64_t wait_ms = hvd_backoff_ms(&backoff, ++item->_n_failures, random);

    if (wait_ms < at_least_ms)
        wait_ms = at_least_ms;
    item->_is_active = false;
    item->_is_again = false;
    hvd_queue_add(queue, item, now_ms + wait_ms);
    return wait_ms;
}

int64_t hvd_queue_next_ms(const struct hvd_queue *queue)
{
    return queue->_n ? queue->_heap[0]->_due_ms : INT64_MAX;
}

size_t hvd_queue_depth(const struct hvd_queue *queue, int64_t now_ms)
{
    size_t depth = 0;

    for (size_t i = 0; i < queue->_n; i++)
        depth += queue->_heap[i]->_due_ms <= now_ms ? 1 : 0;
    return depth;
}
