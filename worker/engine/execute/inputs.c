/*
 * Inputs that a device has yet to produce. The engine requests a tensor only after its event is
 * done. So no rank waits for it in the agreed order. Operations that the event depends on can still
 * move, even if they were submitted later. Runs in the progress owner.
 */
#include "worker/engine/execute/inputs.h"

/* Whether the tensor may be requested. A join must be the last request, so it waits for all
 * tensors submitted before it. */
static hvd_status_t query(const struct hvd_engine *e, const struct hvd_set *set,
                          const struct hvd_entry *entry, struct hvd_err *err)
{
    struct hvd_device_port *d = e->options.device;

    if (entry->request.op == HVD_JOIN)
        return set->own.unready.first ? HVD_INPROGRESS : HVD_OK;
    hvd_status_t st = entry->ready ? d->ops->query_ready(d, entry->ready, err) : HVD_OK;
    return st >= HVD_OK ? st : HVD_WRAP(err, st, "the input of tensor %s", entry->name);
}

/* Moves entries from a list, which becomes empty, to `there` if their inputs are ready, else to
 * set->own.unready. On failure all of them move to set->own.unready. */
static hvd_status_t divide(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry_list *from,
                           struct hvd_entry_list *there, struct hvd_err *err)
{
    struct hvd_entry *entry;
    hvd_status_t st = HVD_OK;

    while ((entry = hvd_entry_list_take(from))) {
        const hvd_status_t found = st == HVD_OK ? query(e, set, entry, err) : HVD_INPROGRESS;
        if (found < HVD_OK)
            st = found;
        if (found != HVD_OK)
            e->own.n_on_device++;
        hvd_entry_list_add(found == HVD_OK ? there : &set->own.unready, entry);
    }
    while (st != HVD_OK && (entry = hvd_entry_list_take(there))) {
        e->own.n_on_device++;
        hvd_entry_list_add(&set->own.unready, entry);
    }
    return st;
}

hvd_status_t hvd_inputs_sift(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry **first,
                             struct hvd_err *err)
{
    struct hvd_entry_list queued = {.first = *first};
    struct hvd_entry_list there = {0};
    hvd_status_t st = divide(e, set, &queued, &there, err);

    *first = there.first;
    return st;
}

static hvd_status_t poll_set(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                             struct hvd_err *err)
{
    struct hvd_entry_list before = set->own.unready;
    struct hvd_entry_list there = {0};
    struct hvd_entry *entry;
    size_t n = 0;

    hvd_inputs_forget(e, set);
    hvd_status_t st = divide(e, set, &before, &there, err);
    for (entry = there.first; entry; entry = entry->next)
        n++;
    if (n == 0)
        return st;
    *progressed = true;
    pthread_mutex_lock(&e->mu);
    while ((entry = hvd_entry_list_take(&set->locked.queue))) /* submitted later, so they follow */
        hvd_entry_list_add(&there, entry);
    set->locked.queue = there;
    hvd_add(&e->n_queued, n);
    atomic_store(&e->is_urgent, true); /* these tensors have waited already */
    pthread_mutex_unlock(&e->mu);
    return st;
}

hvd_status_t hvd_inputs_poll(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i] && e->sets[i]->own.unready.first)
            st = poll_set(e, e->sets[i], progressed, err);
    return st;
}

void hvd_inputs_forget(struct hvd_engine *e, struct hvd_set *set)
{
    for (const struct hvd_entry *entry = set->own.unready.first; entry; entry = entry->next)
        e->own.n_on_device--;
    set->own.unready = (struct hvd_entry_list){0};
}
