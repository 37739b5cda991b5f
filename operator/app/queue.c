/*
 * The work queue: for each rank a binary heap of intrusive items ordered by due time. An item is in
 * one heap or active, never both, so two workers cannot hold one job. Pure. The heaps' room is
 * reserved when an item is created, so that no failed allocation ever loses an event.
 */
#include "operator/app/queue.h"

#include "base/mem.h"
#include "operator/kube/backoff.h"

static const struct hvd_backoff backoff = {.first_ms = 100, .max_ms = 30000};

void hvd_queue_fini(struct hvd_queue *queue)
{
    for (size_t rank = 0; rank < HVD_N_QUEUE_RANKS; rank++)
        hvd_free(queue->_heaps[rank]._items);
    *queue = (struct hvd_queue){0};
}

hvd_status_t hvd_queue_reserve(struct hvd_queue *queue)
{
    size_t capacity = queue->_capacity ? queue->_capacity * 2 : 16;

    for (size_t rank = 0; rank < HVD_N_QUEUE_RANKS && queue->_n_items == queue->_capacity; rank++) {
        struct hvd_queue_heap *heap = &queue->_heaps[rank];
        struct hvd_queue_item **items =
            hvd_realloc(heap->_items, capacity, sizeof(struct hvd_queue_item *));

        if (!items)
            return HVD_ERR_NOMEM;
        heap->_items = items;
    }
    if (queue->_n_items == queue->_capacity)
        queue->_capacity = capacity;
    queue->_n_items++;
    return HVD_OK;
}

static void put_at(struct hvd_queue_heap *heap, struct hvd_queue_item *item, size_t at)
{
    heap->_items[at] = item;
    item->_index = at + 1;
}

static void move_up(struct hvd_queue_heap *heap, size_t at)
{
    struct hvd_queue_item *item = heap->_items[at];

    while (at && heap->_items[(at - 1) / 2]->_due_ms > item->_due_ms) {
        put_at(heap, heap->_items[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    put_at(heap, item, at);
}

static void move_down(struct hvd_queue_heap *heap, size_t at)
{
    struct hvd_queue_item *item = heap->_items[at];

    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= heap->_n)
            break;
        if (child + 1 < heap->_n && heap->_items[child + 1]->_due_ms < heap->_items[child]->_due_ms)
            child++;
        if (heap->_items[child]->_due_ms >= item->_due_ms)
            break;
        put_at(heap, heap->_items[child], at);
        at = child;
    }
    put_at(heap, item, at);
}

static void put_into_heap(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    struct hvd_queue_heap *heap = &queue->_heaps[item->_rank];

    heap->_items[heap->_n] = item;
    move_up(heap, heap->_n++);
}

static void remove_from_heap(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    struct hvd_queue_heap *heap = &queue->_heaps[item->_rank];
    size_t at = item->_index - 1;
    struct hvd_queue_item *last = heap->_items[--heap->_n];

    item->_index = 0;
    if (last == item)
        return;
    put_at(heap, last, at);
    move_down(heap, at);
    move_up(heap, last->_index - 1);
}

void hvd_queue_forget(struct hvd_queue *queue, struct hvd_queue_item *item)
{
    if (item->_index)
        remove_from_heap(queue, item);
    *item = (struct hvd_queue_item){0};
    queue->_n_items--;
}

void hvd_queue_add(struct hvd_queue *queue, struct hvd_queue_item *item, enum hvd_queue_rank rank,
                   int64_t due_ms)
{
    bool is_wanted = item->_is_active ? item->_is_again : item->_index != 0;

    if (is_wanted && due_ms >= item->_due_ms && rank >= item->_rank)
        return;
    if (item->_index)
        remove_from_heap(queue, item);
    item->_due_ms = is_wanted && item->_due_ms < due_ms ? item->_due_ms : due_ms;
    item->_rank = is_wanted && item->_rank < rank ? item->_rank : (unsigned char)rank;
    if (item->_is_active)
        item->_is_again = true;
    else
        put_into_heap(queue, item);
}

/* How long an item of that rank lets others go first. */
static int64_t delay_ms(size_t rank)
{
    return (int64_t)rank * HVD_QUEUE_DELAY_MS;
}

/* When take may return the first item of that rank. */
static int64_t taken_ms(const struct hvd_queue_heap *heap, size_t rank, enum hvd_queue_rank last)
{
    if (!heap->_n)
        return INT64_MAX;
    return heap->_items[0]->_due_ms + (rank > (size_t)last ? delay_ms(rank) : 0);
}

static struct hvd_queue_item *first(const struct hvd_queue *queue, enum hvd_queue_rank last,
                                    int64_t now_ms)
{
    struct hvd_queue_item *found = NULL;
    int64_t found_ms = 0;

    for (size_t rank = 0; rank < HVD_N_QUEUE_RANKS; rank++) {
        const struct hvd_queue_heap *heap = &queue->_heaps[rank];
        int64_t at_ms;

        if (taken_ms(heap, rank, last) > now_ms)
            continue;
        at_ms = heap->_items[0]->_due_ms + delay_ms(rank);
        if (found && at_ms >= found_ms)
            continue;
        found = heap->_items[0];
        found_ms = at_ms;
    }
    return found;
}

struct hvd_queue_item *hvd_queue_take(struct hvd_queue *queue, enum hvd_queue_rank last,
                                      int64_t now_ms)
{
    struct hvd_queue_item *item = first(queue, last, now_ms);

    if (!item)
        return NULL;
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
        put_into_heap(queue, item);
    item->_is_again = false;
}

void hvd_queue_put_back(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t due_ms)
{
    item->_is_active = false;
    if (!item->_is_again || item->_due_ms > due_ms)
        item->_due_ms = due_ms;
    item->_is_again = false;
    put_into_heap(queue, item);
}

int64_t hvd_queue_fail(struct hvd_queue *queue, struct hvd_queue_item *item, int64_t now_ms,
                       uint32_t random, int64_t at_least_ms)
{
    int64_t wait_ms = hvd_backoff_ms(&backoff, ++item->_n_failures, random);

    if (wait_ms < at_least_ms)
        wait_ms = at_least_ms;
    item->_is_active = false;
    item->_is_again = false;
    item->_due_ms = now_ms + wait_ms;
    put_into_heap(queue, item);
    return wait_ms;
}

int64_t hvd_queue_next_ms(const struct hvd_queue *queue, enum hvd_queue_rank last)
{
    int64_t next_ms = INT64_MAX;

    for (size_t rank = 0; rank < HVD_N_QUEUE_RANKS; rank++) {
        int64_t at_ms = taken_ms(&queue->_heaps[rank], rank, last);

        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

size_t hvd_queue_depth(const struct hvd_queue *queue, int64_t now_ms)
{
    size_t depth = 0;

    for (size_t rank = 0; rank < HVD_N_QUEUE_RANKS; rank++) {
        for (size_t i = 0; i < queue->_heaps[rank]._n; i++)
            depth += queue->_heaps[rank]._items[i]->_due_ms <= now_ms ? 1 : 0;
    }
    return depth;
}
