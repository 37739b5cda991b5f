/*
 * Chooses the port of a job on the nodes' network: the first free one from a place in the range
 * that the job's uid determines. The caller collects the held ports of all jobs. The scheduler puts
 * no two pods with one port on a node. With ports of their own, workers of any two jobs can share a
 * node. No namespace can use up the range: while few ports are left, a namespace with many gets no
 * more. Pure.
 */
#include "operator/core/launch/ports.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "operator/core/view/hash.h"

enum use { USED_BY_HAND = 1, USED = 2 };

/* The state of an assignment. */
struct table {
    const struct hvd_port_range *range;
    size_t size;     /* ports in the range */
    size_t n_left;   /* that no job holds or was given */
    uint8_t *uses;   /* of each port */
    uint32_t *n_had; /* ports that jobs of each tenant were given */
};

static bool is_idle(const struct hvd_job *job)
{
    return job->spec.is_suspended || job->spec.is_foreign || job->is_deleting ||
           hvd_job_is_finished(&job->status);
}

bool hvd_ports_is_wanted(const struct hvd_job *job)
{
    return job->spec.is_host_network && !job->spec.has_launch_port &&
           job->status.launch_port == 0 && !is_idle(job);
}

bool hvd_ports_is_worker(const struct hvd_object *object)
{
    if (object->kind == HVD_KIND_STATEFULSET)
        return object->u.statefulset.replicas > 0;
    return object->kind == HVD_KIND_POD && object->meta.role == HVD_ROLE_WORKER &&
           object->u.pod.phase != HVD_POD_SUCCEEDED && object->u.pod.phase != HVD_POD_FAILED;
}

static bool is_stopped(const struct hvd_job *job)
{
    return job->status.conditions[HVD_COND_SUSPENDED].truth == HVD_TRUE;
}

bool hvd_ports_may_be_idle(const struct hvd_job *job)
{
    return job->spec.is_host_network && (is_idle(job) || is_stopped(job));
}

/*
 * A resumed job gets a new port (reconcile.c), because another job may have taken the one in its
 * status. The condition Suspended decides that, not the field of the spec: until it is true, the
 * job may continue with its recorded port.
 */
int32_t hvd_ports_held(const struct hvd_job *job, bool has_workers)
{
    if (!job->spec.is_host_network)
        return 0;
    if (job->spec.has_launch_port)
        return is_idle(job) && !has_workers ? 0 : job->spec.launch_port;
    if (has_workers)
        return job->status.launch_port;
    if (job->spec.is_foreign || job->is_deleting || hvd_job_is_finished(&job->status))
        return 0;
    return is_stopped(job) ? 0 : job->status.launch_port;
}

static int by_namespace(const void *a, const void *b)
{
    const struct hvd_port_claim *x = a, *y = b;

    return strcmp(x->job->namespace, y->job->namespace);
}

static int compare(int64_t x, int64_t y)
{
    return (x > y) - (x < y);
}

/* Sorts the longest waits first: since the start, which the status records. */
static int by_wait(const void *a, const void *b)
{
    const struct hvd_job *x = ((const struct hvd_port_claim *)a)->job;
    const struct hvd_job *y = ((const struct hvd_port_claim *)b)->job;
    int order = compare(x->status.start_s == 0, y->status.start_s == 0);

    if (order == 0)
        order = compare(x->status.start_s, y->status.start_s);
    if (order == 0)
        order = compare(x->created_s, y->created_s);
    return order != 0 ? order : strcmp(x->uid, y->uid);
}

static void number_tenants(struct hvd_port_claim *claims, size_t n)
{
    qsort(claims, n, sizeof(claims[0]), by_namespace);
    for (size_t i = 0; i < n; i++) {
        const bool is_next = i > 0 && by_namespace(&claims[i - 1], &claims[i]) != 0;

        claims[i]._tenant = (i > 0 ? claims[i - 1]._tenant : 0) + is_next;
    }
}

static void use(struct table *table, const struct hvd_port_claim *claim)
{
    uint8_t *at;

    if (claim->port < table->range->first || claim->port > table->range->last)
        return;
    at = &table->uses[claim->port - table->range->first];
    if (claim->is_by_hand) {
        *at |= USED_BY_HAND;
        return;
    }
    table->n_left -= (*at & USED) == 0;
    table->n_had[claim->_tenant]++;
    *at |= USED;
}

/* A port that has only those uses; 0: there is none. */
static int32_t find(const struct table *table, const char *uid, uint8_t uses)
{
    const uint64_t start = hvd_hash_text(HVD_HASH_START, uid) % table->size;

    for (size_t i = 0; i < table->size; i++) {
        const size_t at = (start + i) % table->size;

        if ((table->uses[at] & ~uses) == 0)
            return table->range->first + (int32_t)at;
    }
    return 0;
}

static void give(struct table *table, bool is_shared, struct hvd_port_claim *claim)
{
    if (is_shared && table->n_had[claim->_tenant] >= HVD_PORTS_SHARE * table->n_left)
        return;
    claim->port = find(table, claim->job->uid, 0);
    if (claim->port == 0)
        claim->port = find(table, claim->job->uid, USED_BY_HAND);
    use(table, claim);
}

/* Moves the waiting claims to the front; returns their number. */
static size_t gather_waiting(struct hvd_port_claim *claims, size_t n)
{
    size_t n_waiting = 0;

    for (size_t i = 0; i < n; i++) {
        const struct hvd_port_claim claim = claims[i];

        if (claim.port != 0)
            continue;
        claims[i] = claims[n_waiting];
        claims[n_waiting++] = claim;
    }
    return n_waiting;
}

hvd_status_t hvd_ports_assign(const struct hvd_port_range *range, bool is_shared,
                              struct hvd_port_claim *claims, size_t n)
{
    struct table table = {.range = range, .size = (size_t)(range->last - range->first) + 1};
    hvd_status_t st = HVD_ERR_NOMEM;
    size_t n_waiting;

    if (n == 0)
        return HVD_OK;
    table.n_left = table.size;
    table.uses = hvd_calloc(table.size, sizeof(table.uses[0]));
    table.n_had = hvd_calloc(n, sizeof(table.n_had[0]));
    if (!table.uses || !table.n_had)
        goto out;
    number_tenants(claims, n);
    for (size_t i = 0; i < n; i++)
        use(&table, &claims[i]);
    n_waiting = gather_waiting(claims, n);
    qsort(claims, n_waiting, sizeof(claims[0]), by_wait);
    for (size_t i = 0; i < n_waiting && table.n_left > 0; i++)
        give(&table, is_shared, &claims[i]);
    st = HVD_OK;
out:
    hvd_free(table.uses);
    hvd_free(table.n_had);
    return st;
}
