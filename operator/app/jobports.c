/*
 * Collects the ports that jobs hold from the store, for the pure choice of
 * operator/core/launch/ports.c. An entry keeps a newly assigned port until the job's status shows
 * it. Nothing is polled: a waiting job is reported when a change of another job frees a port.
 */
#include "operator/app/jobports.h"

#include "base/mem.h"

static int32_t held(const struct hvd_entry *entry)
{
    const bool has_workers =
        hvd_ports_may_be_idle(&entry->job) && hvd_store_entry_any(entry, hvd_ports_is_worker);

    return hvd_ports_held(&entry->job, has_workers);
}

bool hvd_jobports_note(struct hvd_entry *entry)
{
    const int32_t before = entry->held_port;

    if (!entry->has_job || !hvd_ports_is_wanted(&entry->job))
        entry->free_port = 0;
    entry->held_port = entry->has_job ? held(entry) : 0;
    if (entry->held_port == 0)
        entry->held_port = entry->free_port;
    return before != 0 && entry->held_port != before;
}

/* Collects the claims of all jobs; sets whether one waits. */
static size_t collect(const struct hvd_store *store, struct hvd_port_claim *claims,
                      bool *is_one_waiting)
{
    struct hvd_entry *entry;
    size_t n = 0;

    for (entry = hvd_store_next(store, NULL); entry; entry = hvd_store_next(store, entry)) {
        (void)hvd_jobports_note(entry);
        if (entry->held_port == 0 && !(entry->has_job && hvd_ports_is_wanted(&entry->job)))
            continue;
        claims[n++] = (struct hvd_port_claim){.job = &entry->job,
                                              .port = entry->held_port,
                                              .is_by_hand = entry->job.spec.has_launch_port};
        *is_one_waiting = *is_one_waiting || entry->held_port == 0;
    }
    return n;
}

static struct hvd_entry *entry_of(const struct hvd_job *job)
{
    return (struct hvd_entry *)((const char *)job - offsetof(struct hvd_entry, job));
}

/* Keeps the port that a waiting entry's claim received. */
static void keep(struct hvd_store *store, const struct hvd_port_claim *claim,
                 const struct hvd_entry *asking)
{
    struct hvd_entry *entry = entry_of(claim->job);

    if (entry->held_port != 0 || claim->port == 0)
        return;
    entry->free_port = entry->held_port = claim->port;
    if (entry != asking)
        store->changed(store->ctx, entry);
}

hvd_status_t hvd_jobports_assign(struct hvd_store *store, const struct hvd_port_range *range,
                                 bool is_shared, const struct hvd_entry *asking)
{
    const size_t n_entries = hvd_index_count(&store->entries);
    struct hvd_port_claim *claims = NULL;
    bool is_one_waiting = false;
    hvd_status_t st = HVD_OK;
    size_t n;

    if (n_entries == 0)
        return HVD_OK;
    claims = hvd_malloc(n_entries, sizeof(claims[0]));
    if (!claims)
        return HVD_ERR_NOMEM;
    n = collect(store, claims, &is_one_waiting);
    if (is_one_waiting)
        st = hvd_ports_assign(range, is_shared, claims, n);
    for (size_t i = 0; is_one_waiting && st == HVD_OK && i < n; i++)
        keep(store, &claims[i], asking);
    hvd_free(claims);
    return st;
}

void hvd_jobports_forget(struct hvd_store *store)
{
    struct hvd_entry *entry;

    for (entry = hvd_store_next(store, NULL); entry; entry = hvd_store_next(store, entry)) {
        entry->free_port = 0;
        (void)hvd_jobports_note(entry);
    }
}
