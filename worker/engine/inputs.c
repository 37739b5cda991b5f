/*
 * Inputs that a device has yet to produce. A tensor is not asked for before its event is done, so
 * no rank waits for it in the agreed order, and whatever that event waits for can move meanwhile,
 * also when it was submitted later. The driver's.
 */
#include "worker/engine/staging.h"

static hvd_status_t query(const struct hvd_engine *e, const struct hvd_entry *entry,
                          struct hvd_err *err)
{
    struct hvd_device_port *d = e->options.device;
    hvd_status_t st = entry->ready ? d->ops->query_ready(d, entry->ready, err) : HVD_OK;

    return st >= HVD_OK ? st : HVD_WRAP(err, st, "the input of tensor %s", entry->name);
}

hvd_status_t hvd_inputs_sift(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry **first,
                             struct hvd_err *err)
{
    struct hvd_entry_list there = {0};
    struct hvd_entry *entry = *first;
    hvd_status_t st = HVD_OK;

    while (entry) {
        struct hvd_entry *next = entry->next;
        const hvd_status_t found = st == HVD_OK ? query(e, entry, err) : HVD_INPROGRESS;
        if (found == HVD_OK) {
            hvd_entry_list_add(&there, entry);
        } else {
            hvd_entry_list_add(&set->unready, entry);
            e->n_on_device++;
        }
        if (found < HVD_OK)
            st = found;
        entry = next;
    }
    *first = st == HVD_OK ? there.first : NULL;
    return st;
}

static hvd_status_t poll_set(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                             struct hvd_err *err)
{
    struct hvd_entry *entry = set->unready.first;
    hvd_status_t st = HVD_OK;

    set->unready = (struct hvd_entry_list){0};
    while (entry) {
        struct hvd_entry *next = entry->next;
        const hvd_status_t found = st == HVD_OK ? query(e, entry, err) : HVD_INPROGRESS;
        if (found < HVD_OK)
            st = found;
        if (found != HVD_OK) {
            hvd_entry_list_add(&set->unready, entry);
            entry = next;
            continue;
        }
        e->n_on_device--;
        *progressed = true;
        pthread_mutex_lock(&e->mu);
        hvd_entry_list_add(&set->queue, entry);
        atomic_fetch_add(&e->n_queued, 1);
        atomic_store(&e->is_urgent, true); /* it has been held back before */
        pthread_mutex_unlock(&e->mu);
        entry = next;
    }
    return st;
}

hvd_status_t hvd_inputs_poll(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i] && e->sets[i]->unready.first)
            st = poll_set(e, e->sets[i], progressed, err);
    return st;
}

void hvd_inputs_forget(struct hvd_engine *e, struct hvd_set *set)
{
    while (hvd_entry_list_take(&set->unready))
        e->n_on_device--;
}
