/*
 * The event loop, and the wiring of everything else: watches fill the store, the store's changes
 * fill the queue, due jobs are reconciled, plans are performed, answers go back into the store.
 * One thread, one place that waits. This file decides nothing: reconcile decides, and does not
 * start before every watch has listed once. An object that reconcile still misses in the store is
 * read by name.
 *
 *   API server --> watches --> store --> queue --> reconcile --> performer --> API server
 *                                ^                                   |
 *                                +-------- answers ------------------+
 */
#include "operator/app/operator.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/app/clock.h"
#include "operator/app/election.h"
#include "operator/app/explainer.h"
#include "operator/app/follow.h"
#include "operator/app/jobports.h"
#include "operator/app/loglimit.h"
#include "operator/app/metrics.h"
#include "operator/app/pace.h"
#include "operator/app/perform.h"
#include "operator/app/permits.h"
#include "operator/app/process.h"
#include "operator/app/queue.h"
#include "operator/app/server.h"
#include "operator/app/stages.h"
#include "operator/app/store.h"
#include "operator/core/children/gang.h"
#include "operator/core/launch/ports.h"
#include "operator/core/lease/server_clock.h"
#include "operator/core/reconcile.h"
#include "operator/core/view/view.h"
#include "operator/core/writes/repair.h"
#include "operator/kube/client.h"
#include "operator/kube/watch.h"

#define SUBSYSTEM "operator"
/* While so many plans are under way and quick, no new job begins: urgent requests would otherwise
 * wait behind its requests in the server. */
#define MAX_STARTING 8
#define PUT_BACK_MS 1000 /* retry interval of a job that may not begin a plan */
#define STOP_GRACE_MS 500
#define MAX_WAIT_MS 60000
#define TIDY_PERIOD_MS 60000
#define TIDY_QUIET_MS 50
#define TIDY_CHANGES 1000
#define RELEASE_GRACE_MS 400
#define SKEW_MS 5000  /* of two clocks: larger differences are logged */
#define MOVED_MS 1000 /* of a clock: after larger steps all jobs are reconciled */

struct hvd_operator {
    struct hvd_operator_setup setup;
    struct hvd_kube_client *client;
    struct hvd_follow follow;
    struct hvd_election *election; /* NULL: this operator is the only one */
    struct hvd_loglimit limit;
    struct hvd_settings settings;
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_metrics metrics;
    struct hvd_explainer explainer;
    struct hvd_performer performer;
    struct hvd_server *server;
    struct hvd_permits permits; /* of the plans under way */
    bool is_port_free;          /* a job may be waiting for it */
    unsigned gang_cuts;         /* of the watch of PodGroups, at the last check */
    bool is_ready;
    bool was_leader;
    bool is_feeding;    /* the source of the change is a watch, not an answer to our own write */
    int64_t tidied_ms;  /* when memory was last given back */
    unsigned n_changes; /* since then */
    int64_t busy_ms;    /* when the operator was last busy */
    struct hvd_server_clock clock;
    bool has_moved;       /* the estimate of the server's clock moved by more than MOVED_MS */
    bool is_skew_told;    /* the log has the warning about this machine's clock */
    struct hvd_pace pace; /* of reading the network */
    struct hvd_stages stages;
    uint32_t random;
};

static uint32_t next_random(struct hvd_operator *op)
{
    op->random = op->random * 1664525u + 1013904223u;
    return op->random;
}

/* ---- input ---- */

/*
 * Jobs that have a status, a master or the workers for one go first: a user waits for them. Then
 * come the children of new jobs. Last comes the first status of jobs that have their children, on
 * which nothing depends.
 */
static enum hvd_queue_rank rank_of(const struct hvd_entry *entry)
{
    if (!entry->has_job || entry->job.status.state != HVD_JOB_NEW)
        return HVD_QUEUE_SOON;
    if (hvd_store_entry_has(entry, HVD_KIND_JOB) || hvd_store_entry_may_start(entry))
        return HVD_QUEUE_SOON;
    return entry->n_objects ? HVD_QUEUE_LATER : HVD_QUEUE_NEXT;
}

static void want(struct hvd_operator *op, struct hvd_entry *entry, int64_t due_ms)
{
    hvd_queue_add(&op->queue, &entry->item, rank_of(entry), due_ms);
}

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    struct hvd_operator *op = ctx;

    if (op->is_feeding && !entry->event_us)
        entry->event_us = hvd_clock_us();
    op->n_changes++;
    op->is_port_free |= hvd_jobports_note(entry);
    want(op, entry, hvd_clock_ms());
}

static bool is_leader(const struct hvd_operator *op)
{
    return !op->election || hvd_election_is_leader(op->election);
}

/* Of several operators only the leader counts. */
static void on_replaced(void *ctx, const struct hvd_job *before, const struct hvd_job *after)
{
    struct hvd_operator *op = ctx;

    if (is_leader(op) && !after->spec.is_foreign)
        hvd_metrics_count_job(&op->metrics.counts, before, after);
}

static void on_begin(void *ctx, enum hvd_kind kind)
{
    struct hvd_operator *op = ctx;

    if (kind == HVD_KIND_HOROVODJOB)
        hvd_doubts_clear(&op->store.doubts);
    hvd_store_begin(&op->store, kind);
}

static void on_rewind(void *ctx, enum hvd_kind kind)
{
    struct hvd_operator *op = ctx;

    hvd_store_rewind(&op->store, kind);
}

static bool may_work(const struct hvd_operator *op);

static void begin_feeding(struct hvd_operator *op)
{
    op->is_feeding = true;
    op->store.keeps_ends = may_work(op);
}

/* Reports, once for each version of an object, the part that cannot be read. */
static void note_trouble(struct hvd_operator *op, enum hvd_kind kind, const cJSON *object)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const char *trouble = hvd_object_trouble(object);

    if (!trouble || hvd_store_knows(&op->store, kind, object))
        return;
    op->metrics.n_unreadable[kind]++;
    HVD_LOG_KV(op->setup.log, HVD_LOG_WARN, SUBSYSTEM, "cannot read an object entirely",
               {"resource", hvd_kind_info(kind)->resource},
               {"namespace", hvd_kube_api_text(meta, "namespace")},
               {"name", hvd_kube_api_text(meta, "name")}, {"error", trouble});
}

static void on_put(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    struct hvd_operator *op = ctx;
    struct hvd_err err = {0};
    hvd_status_t st;

    hvd_stages_put(&op->stages, kind, object);
    note_trouble(op, kind, object);
    begin_feeding(op);
    st = hvd_store_put(&op->store, kind, object, &err);
    op->is_feeding = false;
    if (st != HVD_OK)
        HVD_LOG_KV(op->setup.log, HVD_LOG_ERROR, SUBSYSTEM, "cannot take in an object",
                   {"resource", hvd_kind_info(kind)->resource}, {"error", err.msg});
}

static void on_remove(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    struct hvd_operator *op = ctx;
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");

    if (kind == HVD_KIND_HOROVODJOB)
        hvd_doubts_settle(&op->store.doubts, hvd_kube_api_text(meta, "uid"));
    begin_feeding(op);
    hvd_store_miss(&op->store, kind, hvd_kube_api_text(meta, "namespace"),
                   hvd_kube_api_text(meta, "name"), hvd_kube_api_text(meta, "uid"),
                   *hvd_kube_api_text(meta, "deletionTimestamp") != '\0');
    hvd_store_told(&op->store, kind, hvd_kube_api_text(meta, "resourceVersion"));
    op->is_feeding = false;
}

static void on_end(void *ctx, enum hvd_kind kind, const char *version)
{
    struct hvd_operator *op = ctx;

    begin_feeding(op);
    hvd_store_end(&op->store, kind);
    hvd_store_told(&op->store, kind, version);
    op->is_feeding = false;
}

static void on_request(void *ctx, const struct hvd_kube_observation *seen)
{
    struct hvd_operator *op = ctx;

    hvd_metrics_count_request(&op->metrics, seen->verb, seen->kind, seen->code);
    if (seen->verb != HVD_VERB_WATCH && seen->verb < HVD_VERB_COUNT)
        hvd_metrics_observe(&op->metrics.request[seen->verb], seen->total_us);
}

/* The API server's clock, which is the time of all decisions and writes about jobs. */
static int64_t server_ms(const struct hvd_operator *op)
{
    return hvd_server_clock_at(&op->clock, hvd_clock_ms());
}

/* How far this machine's clock is ahead. */
static int64_t skew_ms(const struct hvd_operator *op)
{
    return op->clock.is_learned ? hvd_clock_local_ms() - server_ms(op) : 0;
}

/* Warns once while they differ: logs and the Lease have this machine's times. */
static void tell_skew(struct hvd_operator *op)
{
    int64_t skew = skew_ms(op);
    char seconds[32];

    if (op->is_skew_told && llabs(skew) < SKEW_MS / 2)
        op->is_skew_told = false;
    if (op->is_skew_told || llabs(skew) <= SKEW_MS)
        return;
    op->is_skew_told = true;
    (void)snprintf(seconds, sizeof(seconds), "%.1f", (double)skew / 1000);
    HVD_LOG_KV(op->setup.log, HVD_LOG_WARN, SUBSYSTEM,
               "this machine's clock differs from the API server's, which counts for jobs",
               {"ahead_s", seconds}, {"remedy", "synchronise this node's clock"});
}

static void on_date(void *ctx, const struct hvd_kube_date *date)
{
    struct hvd_operator *op = ctx;
    const struct hvd_date_sample sample = {date->date_s, date->sent_ms, date->received_ms};
    int64_t moved_ms = hvd_server_clock_learn(&op->clock, &sample);

    /* Jobs that wait for a time of the server must wait for another one now. */
    if (llabs(moved_ms) > MOVED_MS)
        op->has_moved = true;
    tell_skew(op);
}

/* ---- output ---- */

/* Whether work may begin now: everything is known, and no other operator leads. */
static bool may_work(const struct hvd_operator *op)
{
    return op->is_ready && (!op->election || hvd_election_may_write(op->election));
}

static void retry_later(struct hvd_operator *op, struct hvd_entry *entry, const char *why,
                        int64_t at_least_ms)
{
    char retry[24];
    int64_t wait_ms =
        hvd_queue_fail(&op->queue, &entry->item, hvd_clock_ms(), next_random(op), at_least_ms);

    op->metrics.n_retries++;
    (void)snprintf(retry, sizeof(retry), "%lld", (long long)wait_ms);
    HVD_LOG_KV(op->setup.log, HVD_LOG_WARN, SUBSYSTEM, "job not done, retrying",
               {"job", entry->key}, {"error", why}, {"retry_ms", retry});
}

static void on_performed(void *ctx, struct hvd_entry *entry, const struct hvd_outcome *outcome)
{
    struct hvd_operator *op = ctx;

    hvd_permits_end(&op->permits, &entry->permit, hvd_clock_ms());
    if (outcome->status == HVD_ERR_CANCELED || outcome->status == HVD_ERR_SHUTDOWN) {
        hvd_queue_done(&op->queue, &entry->item);
        return;
    }
    if (outcome->status != HVD_OK && !may_work(op)) {
        hvd_queue_done(&op->queue, &entry->item);
        want(op, entry, hvd_clock_ms()); /* for the time when this operator leads again */
        return;
    }
    if (outcome->status != HVD_OK) {
        retry_later(op, entry, outcome->message, outcome->at_least_ms);
        if (outcome->wake_at_ms > server_ms(op))
            want(op, entry, hvd_clock_ms() + outcome->wake_at_ms - server_ms(op));
        return;
    }
    hvd_queue_done(&op->queue, &entry->item);
    want(op, entry, hvd_clock_ms());
}

static void perform(struct hvd_operator *op, struct hvd_entry *entry, struct hvd_plan *plan)
{
    struct hvd_err err = {0};
    hvd_status_t st;
    int64_t wait_ms;

    wait_ms = hvd_unrest_plan(&entry->unrest);
    if (wait_ms > 0) {
        retry_later(op, entry, "the job does not come to rest: does another program change it?",
                    wait_ms);
        return;
    }
    hvd_permits_begin(&op->permits, &entry->permit, entry->job.namespace, hvd_clock_ms());
    st = hvd_perform(&op->performer, entry, plan, &err);
    if (st == HVD_OK)
        return;
    hvd_permits_end(&op->permits, &entry->permit, hvd_clock_ms());
    retry_later(op, entry, err.msg, 0);
}

/* Nothing to do now: waits for a change, or for the time that reconcile named. */
static void rest(struct hvd_operator *op, struct hvd_entry *entry, int64_t wake_at_ms)
{
    int64_t wait_ms = wake_at_ms - server_ms(op);

    entry->unrest = (struct hvd_unrest){0};
    entry->event_us = 0;
    hvd_store_looked(&op->store, entry);
    hvd_queue_done(&op->queue, &entry->item);
    if (wake_at_ms)
        want(op, entry, hvd_clock_ms() + (wait_ms > 1 ? wait_ms : 1));
}

/* Logs once per job: a job that waits for a manager that does not exist must not wait silently. */
static void tell_foreign(struct hvd_operator *op, struct hvd_entry *entry)
{
    if (!entry->job.spec.is_foreign || entry->is_foreign_told)
        return;
    entry->is_foreign_told = true;
    HVD_LOG_KV(op->setup.log, HVD_LOG_INFO, SUBSYSTEM, "another manager's job is left alone",
               {"job", entry->key}, {"managed_by", entry->job.spec.manager});
}

/* Other jobs that wait for a port may get one, too. */
static void assign_ports(struct hvd_operator *op, const struct hvd_entry *asking)
{
    const struct hvd_options *options = op->setup.options;
    hvd_status_t st =
        hvd_jobports_assign(&op->store, &options->launch_ports, options->ns == NULL, asking);

    op->is_port_free = st != HVD_OK;
}

static int32_t free_port(struct hvd_operator *op, struct hvd_entry *entry)
{
    if (entry->free_port == 0 && hvd_ports_is_wanted(&entry->job))
        assign_ports(op, entry);
    return entry->free_port;
}

static hvd_status_t make_plan(struct hvd_operator *op, struct hvd_entry *entry,
                              struct hvd_plan *plan, struct hvd_err *err)
{
    const struct hvd_topology_source topology = {hvd_node_topology_find, &op->store.topology};
    struct hvd_view view = {
        .job = &entry->job,
        .n_objects = entry->n_objects,
        .failures = entry->failures,
        .n_failures = entry->n_failures,
        .gone = entry->gone,
        .n_gone = entry->n_gone,
        .repairs = &entry->repairs,
        .lost = entry->lost,
        .monotonic_ms = hvd_clock_ms(),
        .status_written_ms = entry->status_written_ms,
        .n_starting = op->store.n_starting,
        .settings = &op->settings,
        .topology = &topology,
    };
    const struct hvd_object **objects = hvd_store_entry_objects(entry);
    hvd_status_t st;

    if (!objects)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory");
    op->store.topology.now_ms = hvd_clock_ms();
    hvd_repairs_begin(&entry->repairs, &entry->job, server_ms(op));
    view.objects = objects;
    view.free_port = free_port(op, entry);
    st = hvd_reconcile(&view, server_ms(op), plan, err);
    hvd_free((void *)objects);
    return st;
}

static void reconcile(struct hvd_operator *op, struct hvd_entry *entry)
{
    struct hvd_plan plan = {0};
    struct hvd_err err = {0};
    int64_t start_us = hvd_clock_us();
    hvd_status_t st;

    if (!entry->has_job) {
        hvd_store_looked(&op->store, entry);
        hvd_queue_done(&op->queue, &entry->item);
        (void)hvd_store_collect(&op->store, entry);
        return;
    }
    tell_foreign(op, entry);
    st = make_plan(op, entry, &plan, &err);
    hvd_specs_planned(&op->store, entry);
    hvd_metrics_observe(&op->metrics.reconcile, hvd_clock_us() - start_us);
    if (st != HVD_OK)
        retry_later(op, entry, err.msg, 0);
    else if (plan.n_actions)
        perform(op, entry, &plan);
    else
        rest(op, entry, plan.wake_at_ms);
    hvd_plan_fini(&plan);
}

/* ---- the loop ---- */

/*
 * The groups of all jobs are gone, or were, for one common cause. So there is no contest about any
 * of them, and denied writes are tried at once. If that is not certain, because the stream only
 * ended early, a known contest and the waits of denials stay.
 */
static void forget_groups(struct hvd_operator *op, enum hvd_kind kind, bool is_certain)
{
    struct hvd_entry *entry = hvd_store_next(&op->store, NULL);

    for (; entry; entry = hvd_store_next(&op->store, entry)) {
        if (!entry->has_job)
            continue;
        if (is_certain) {
            hvd_repairs_forget(&entry->repairs, kind, entry->job.name);
            hvd_notes_drop_failure(entry, kind, entry->job.name);
        } else {
            hvd_repairs_excuse(&entry->repairs, kind, entry->job.name);
        }
        want(op, entry, hvd_clock_ms());
    }
}

/* The PodGroup was installed or removed: every job is reconciled again. */
static void follow_gang(struct hvd_operator *op)
{
    const enum hvd_kind kind = hvd_gang_kind(&op->settings);
    const bool is_missing = hvd_follow_is_missing(&op->follow, kind);
    const unsigned n_cuts = hvd_follow_count_cuts(&op->follow, kind);
    const bool is_changed = is_missing != op->settings.is_gang_missing;

    if (!is_changed && n_cuts == op->gang_cuts)
        return;
    op->gang_cuts = n_cuts;
    forget_groups(op, kind, is_changed);
    if (!is_changed)
        return;
    op->settings.is_gang_missing = is_missing;
    HVD_LOG_KV(op->setup.log, is_missing ? HVD_LOG_ERROR : HVD_LOG_INFO, SUBSYSTEM,
               is_missing ? "the gang scheduler's PodGroup is not installed: jobs wait for it"
                          : "the gang scheduler's PodGroup is installed",
               {"api", hvd_kind_info(kind)->api_version});
}

/* While lists arrive, freed memory stays for the next page: returning and reallocating a page's
 * memory would cost a fifth of a start. */
static void keep_memory(bool is_starting)
{
    (void)mallopt(M_MMAP_THRESHOLD, is_starting ? 32 << 20 : 128 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, is_starting ? 64 << 20 : 128 << 10);
}

static void tidy(struct hvd_operator *op)
{
    hvd_store_sweep(&op->store, hvd_permits_active(&op->permits) == 0);
    hvd_store_tidy(&op->store, server_ms(op));
    (void)malloc_trim(0);
    op->tidied_ms = hvd_clock_ms();
    op->n_changes = 0;
}

static void become_ready(struct hvd_operator *op)
{
    char jobs[24];

    if (op->is_ready || !hvd_follow_is_synced(&op->follow))
        return;
    op->is_ready = true;
    (void)snprintf(jobs, sizeof(jobs), "%zu", hvd_index_count(&op->store.entries));
    HVD_LOG_KV(op->setup.log, HVD_LOG_INFO, SUBSYSTEM, "ready", {"jobs", jobs});
    keep_memory(false);
    tidy(op);
}

/* Whether an item may be taken now, and up to which rank at once. */
static bool may_take(const struct hvd_operator *op, enum hvd_queue_rank *last)
{
    const size_t n_quick = hvd_permits_quick(&op->permits);

    *last = n_quick < MAX_STARTING ? HVD_QUEUE_LATER : HVD_QUEUE_SOON;
    return may_work(op) && n_quick < HVD_PERMITS_QUICK;
}

static void work(struct hvd_operator *op)
{
    int64_t now_ms = hvd_clock_ms();
    struct hvd_queue_item *item;
    enum hvd_queue_rank last;

    while (may_take(op, &last) && (item = hvd_queue_take(&op->queue, last, now_ms)) != NULL) {
        struct hvd_entry *entry = hvd_store_entry_of(item);

        if (entry->has_job &&
            !hvd_permits_allows(&op->permits, &entry->permit, entry->job.namespace))
            hvd_queue_put_back(&op->queue, item, now_ms + PUT_BACK_MS);
        else
            reconcile(op, entry);
    }
}

static int wait_ms(struct hvd_operator *op, int64_t due_ms, int server_ms)
{
    int64_t now_ms = hvd_clock_ms();
    enum hvd_queue_rank last;
    int64_t left_ms;

    if (may_take(op, &last) && hvd_queue_next_ms(&op->queue, last) < due_ms)
        due_ms = hvd_queue_next_ms(&op->queue, last);
    left_ms = due_ms > now_ms ? due_ms - now_ms : 0;
    if (due_ms == INT64_MAX || left_ms > MAX_WAIT_MS)
        left_ms = MAX_WAIT_MS;
    if (server_ms >= 0 && server_ms < left_ms)
        left_ms = server_ms;
    return (int)left_ms;
}

/* Lets more of a burst arrive; a single event is not delayed. */
static void pace(struct hvd_operator *op)
{
    const int64_t left_us = hvd_pace_wait_us(&op->pace, hvd_clock_us());

    if (left_us > 0)
        hvd_clock_sleep_us(left_us);
    hvd_pace_look(&op->pace, hvd_clock_us());
    hvd_stages_look(&op->stages);
}

/* Waits, then processes what has arrived. *is_stopped becomes whether stop_fd is readable. */
static hvd_status_t turn(struct hvd_operator *op, int timeout_ms, bool *is_stopped,
                         struct hvd_err *err)
{
    int fds[2] = {op->setup.stop_fd, op->server ? hvd_server_fd(op->server) : -1};
    unsigned readable = 0;
    hvd_status_t st;

    if (hvd_kube_client_flush(op->client))
        hvd_stages_sent(&op->stages);
    st = hvd_kube_client_wait(op->client, fds, op->server ? 2 : 1, timeout_ms, &readable, err);
    hvd_stages_woke(&op->stages);
    pace(op);
    if (st == HVD_OK)
        st = hvd_kube_client_step(op->client, err);
    *is_stopped = (readable & 1u) != 0;
    return st;
}

/* Gives memory back after many changes once the operator is idle, or after a period. Returns when
 * to check again. */
static int64_t tidy_sometimes(struct hvd_operator *op)
{
    int64_t now_ms = hvd_clock_ms();
    bool is_quiet = hvd_permits_active(&op->permits) == 0 &&
                    hvd_queue_next_ms(&op->queue, HVD_QUEUE_LATER) > now_ms;

    if (!op->is_ready || !op->n_changes)
        return INT64_MAX;
    if (!is_quiet)
        op->busy_ms = now_ms;
    if (now_ms - op->tidied_ms >= TIDY_PERIOD_MS ||
        (op->n_changes >= TIDY_CHANGES && now_ms - op->busy_ms >= TIDY_QUIET_MS))
        tidy(op);
    else if (op->n_changes >= TIDY_CHANGES)
        return op->busy_ms + TIDY_QUIET_MS;
    return INT64_MAX;
}

static hvd_status_t wait_and_step(struct hvd_operator *op, int timeout_ms)
{
    hvd_status_t st = hvd_kube_client_wait(op->client, NULL, 0, timeout_ms, NULL, NULL);

    return st == HVD_OK ? hvd_kube_client_step(op->client, NULL) : st;
}

/* Lets writes under way end, so that their answers are not lost; the next operator recovers lost
 * ones. */
static void drain(struct hvd_operator *op)
{
    int64_t end_ms = hvd_clock_ms() + STOP_GRACE_MS;

    while (hvd_permits_active(&op->permits) && hvd_clock_ms() < end_ms)
        if (wait_and_step(op, 20) != HVD_OK)
            return;
}

/* Releases the Lease, so that the next operator may lead at once: only when no write of ours can
 * arrive any more. */
static void release(struct hvd_operator *op)
{
    int64_t end_ms = hvd_clock_ms() + RELEASE_GRACE_MS;

    while (!hvd_election_is_over(op->election) && hvd_clock_ms() < end_ms) {
        (void)hvd_election_step(op->election);
        if (wait_and_step(op, 20) != HVD_OK)
            break;
    }
    HVD_LOG_KV(op->setup.log, HVD_LOG_INFO, SUBSYSTEM,
               hvd_election_is_over(op->election) ? "no Lease is held"
                                                  : "the Lease is not released",
               {"lease", op->setup.options->lease_name});
}

static void stop(struct hvd_operator *op)
{
    HVD_LOG_KV(op->setup.log, HVD_LOG_INFO, SUBSYSTEM, "stopping", {"why", "signal"});
    if (op->election)
        hvd_election_stop(op->election);
    drain(op);
    if (op->election && hvd_permits_active(&op->permits) == 0)
        release(op);
}

/* Runs the election. Unsent requests must not leave this machine once another operator may lead. */
static int64_t elect(struct hvd_operator *op)
{
    int64_t due_ms = op->election ? hvd_election_step(op->election) : INT64_MAX;

    if (op->was_leader && !is_leader(op) && hvd_permits_active(&op->permits))
        hvd_kube_client_drop(op->client, "this operator no longer leads");
    if (!op->was_leader && is_leader(op))
        hvd_jobports_forget(&op->store); /* another operator led meanwhile */
    op->was_leader = is_leader(op);
    return due_ms;
}

/* The estimate of the server's clock has improved: every job is reconciled again. */
static void follow_clock(struct hvd_operator *op)
{
    struct hvd_entry *entry;

    if (!op->has_moved)
        return;
    op->has_moved = false;
    for (entry = hvd_store_next(&op->store, NULL); entry; entry = hvd_store_next(&op->store, entry))
        want(op, entry, hvd_clock_ms());
}

/* Returns when a list must decide about jobs that an answer reported as gone. */
static int64_t resolve_doubts(struct hvd_operator *op)
{
    if (hvd_clock_ms() >= hvd_doubts_due_ms(&op->store.doubts)) {
        HVD_LOG_KV(op->setup.log, HVD_LOG_WARN, SUBSYSTEM,
                   "jobs that the API server called gone are not deleted, listing all jobs",
                   {"why", "answered 404, and no watch event in 10 s"});
        hvd_follow_relist(&op->follow, HVD_KIND_HOROVODJOB);
        hvd_doubts_clear(&op->store.doubts);
    }
    return hvd_doubts_due_ms(&op->store.doubts);
}

static int64_t step_all(struct hvd_operator *op)
{
    int64_t doubts_ms = resolve_doubts(op);
    int64_t follow_ms = hvd_follow_step(&op->follow, hvd_clock_ms());
    int64_t elect_ms = elect(op);
    int64_t slow_ms, tidy_ms, due_ms, explain_ms;

    follow_gang(op);
    follow_clock(op);
    become_ready(op);
    slow_ms = hvd_permits_step(&op->permits, hvd_clock_ms());
    if (op->is_port_free && may_work(op))
        assign_ports(op, NULL);
    work(op);
    if (op->is_ready && op->store.n_stray > HVD_STORE_STRAYS_MAX)
        hvd_store_sweep(&op->store, false);
    tidy_ms = tidy_sometimes(op);
    explain_ms = may_work(op) ? hvd_explainer_step(&op->explainer, hvd_clock_ms()) : INT64_MAX;
    due_ms = follow_ms < elect_ms ? follow_ms : elect_ms;
    due_ms = doubts_ms < due_ms ? doubts_ms : due_ms;
    due_ms = slow_ms < due_ms ? slow_ms : due_ms;
    due_ms = explain_ms < due_ms ? explain_ms : due_ms;
    return tidy_ms < due_ms ? tidy_ms : due_ms;
}

hvd_status_t hvd_operator_run(struct hvd_operator *op, struct hvd_err *err)
{
    bool is_stopped = false;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && !is_stopped) {
        int server_ms = op->server ? hvd_server_step(op->server) : -1;
        int64_t due_ms = step_all(op);

        st = turn(op, wait_ms(op, due_ms, server_ms), &is_stopped, err);
    }
    if (is_stopped)
        stop(op);
    return st;
}

/* ---- life ---- */

static bool is_ready(void *ctx, struct hvd_buf *why)
{
    const struct hvd_operator *op = ctx;
    int64_t now_ms = hvd_clock_ms();
    bool is_well = hvd_follow_explain_all(&op->follow, now_ms, why);

    if (op->election) {
        struct hvd_watch_health health = hvd_election_health(op->election);
        is_well &= hvd_follow_explain(HVD_KIND_LEASE, &health, now_ms, why);
    }
    return op->is_ready && is_well;
}

static hvd_status_t put_metrics(void *ctx, struct hvd_buf *out)
{
    struct hvd_operator *op = ctx;
    struct hvd_metrics *metrics = &op->metrics;
    struct hvd_process_usage usage = hvd_process_usage();
    int64_t now_ms = hvd_clock_ms();

    metrics->queue_depth = hvd_queue_depth(&op->queue, now_ms);
    metrics->plans_active = hvd_permits_active(&op->permits);
    metrics->watches_synced = hvd_follow_count_synced(&op->follow);
    memcpy(metrics->jobs, op->store.n_by_state, sizeof(metrics->jobs));
    metrics->n_watches = 0;
    hvd_follow_sample(&op->follow, now_ms, metrics);
    if (op->election) {
        struct hvd_watch_health health = hvd_election_health(op->election);
        hvd_metrics_add_watch(metrics, HVD_KIND_LEASE, &health, now_ms);
    }
    metrics->is_leader = is_leader(op);
    metrics->spec_bytes = op->store.specs.bytes;
    metrics->clock_skew_s = (double)skew_ms(op) / 1000;
    metrics->n_suppressed = op->limit.n_suppressed;
    metrics->resident_bytes = usage.resident_bytes;
    metrics->cpu_s = usage.cpu_s;
    return hvd_metrics_encode(metrics, out);
}

static hvd_status_t create_follow(struct hvd_operator *op, struct hvd_err *err)
{
    const struct hvd_follow_options options = {
        .api = hvd_kube_client_api(op->client),
        .ns = op->setup.options->ns,
        .gang_kind = hvd_gang_kind(&op->settings),
        .seed = next_random(op),
        .handler = {op, on_begin, on_put, on_remove, on_end, on_rewind},
        .log = op->setup.log,
    };

    return hvd_follow_init(&op->follow, &options, err);
}

static hvd_status_t create_election(struct hvd_operator *op, struct hvd_err *err)
{
    const struct hvd_options *options = op->setup.options;
    const struct hvd_election_options election = {
        .api = hvd_kube_client_api(op->client),
        .ns = options->lease_ns ? options->lease_ns : op->setup.config->ns,
        .name = options->lease_name,
        .identity = op->setup.identity,
        .duration_ms = options->lease_duration_ms,
        .seed = next_random(op),
        .log = op->setup.log,
        .now_ms = hvd_clock_ms,
        .unix_us = hvd_clock_local_us,
    };

    if (!election.ns || !*election.ns)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "--leader-elect: outside a pod set --lease-namespace to where the "
                        "Lease is");
    return hvd_election_create(&election, &op->election, err);
}

static hvd_status_t create_parts(struct hvd_operator *op, struct hvd_err *err)
{
    const struct hvd_kube_client_options client_options = {
        .config = op->setup.config,
        .observe = on_request,
        .dated = on_date,
        .observe_ctx = op,
    };
    const struct hvd_server_options server_options = {
        .listen = &op->setup.options->listen,
        .cert_file = op->setup.options->tls_cert,
        .key_file = op->setup.options->tls_key,
        .log = op->setup.log,
        .handler = {op, is_ready, put_metrics},
    };
    hvd_status_t st = hvd_kube_client_create(&client_options, &op->client, err);

    if (st == HVD_OK && op->setup.options->is_elected)
        st = create_election(op, err);
    if (st != HVD_OK)
        return st;
    op->performer = (struct hvd_performer){
        .api = op->election ? hvd_election_fence(op->election) : hvd_kube_client_api(op->client),
        .store = &op->store,
        .metrics = &op->metrics,
        .log = op->setup.log,
        .stages = &op->stages,
        .clock = &op->clock,
        .explainer = &op->explainer,
        .performed = on_performed,
        .ctx = op,
    };
    hvd_explainer_init(&op->explainer, &(struct hvd_explainer_setup){op->performer.api, &op->store,
                                                                     op->setup.log, &op->clock});
    if (op->setup.options->listen.port)
        st = hvd_server_create(&server_options, &op->server, err);
    return st == HVD_OK ? create_follow(op, err) : st;
}

hvd_status_t hvd_operator_create(const struct hvd_operator_setup *setup, struct hvd_operator **out,
                                 struct hvd_err *err)
{
    struct hvd_operator *op = hvd_calloc(1, sizeof(*op));
    hvd_status_t st;

    if (!op)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "operator: out of memory");
    op->setup = *setup;
    hvd_loglimit_init(&op->limit, setup->log, hvd_clock_ms);
    op->setup.log = &op->limit.log;
    op->stages.log = op->setup.log;
    op->random = (uint32_t)hvd_clock_us();
    hvd_server_clock_init(&op->clock, hvd_clock_local_ms(), hvd_clock_ms());
    op->settings.gang = setup->options->gang;
    op->settings.gang_scheduler = setup->options->gang_scheduler;
    hvd_store_init(&op->store, &op->queue, on_changed, op);
    op->store.replaced = on_replaced;
    keep_memory(true);
    st = create_parts(op, err);
    if (st != HVD_OK) {
        hvd_operator_destroy(op);
        return st;
    }
    *out = op;
    return HVD_OK;
}

void hvd_operator_destroy(struct hvd_operator *op)
{
    if (!op)
        return;
    hvd_follow_fini(&op->follow);
    hvd_election_destroy(op->election);
    hvd_kube_client_destroy(op->client);
    hvd_server_destroy(op->server);
    hvd_store_fini(&op->store);
    hvd_queue_fini(&op->queue);
    hvd_free(op);
}
