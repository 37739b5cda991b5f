/*
 * Finds the worker whose loss ends an attempt. The master cannot see what the API server knows: a
 * drained node, an evicted pod, a container killed for memory. Of several losses the operator
 * reports the most informative, because one dead node takes many workers.
 *
 * The start of the master is the reference: an earlier event in a worker does not concern it. Times
 * have whole seconds. Within the second of the start, workers count as lost if they are not those
 * that the master's Job was made for. An event after the master's end did not cause that end. So an
 * operator that looks late, as after a restart, ignores workers that were removed since. Pure.
 */
#include "operator/core/attempt/loss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/attempt/ending.h"
#include "operator/core/attempt/scaling.h"
#include "operator/core/children/children.h"
#include "operator/core/children/hosts.h"
#include "operator/core/children/patch.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/write.h"

#define SCALED_S 120    /* a master may fail for the removal of workers this long after it */
#define SKEW_S 30       /* by so much the clock of a node may be behind */
#define LAG_S 5         /* the cause of the master's end may become visible this long after it */
#define RESTARTS_MAX 10 /* about half an hour, as kubelets double the wait between restarts */

/* From the least to the most informative. */
enum loss_type {
    NOT_LOST,
    GONE,
    REPLACED,
    DELETED,
    DISRUPTED,
    FAILED,
    ENDED,
};

/* The time within which a worker's loss can have ended the master. */
struct window {
    int64_t since_s; /* exclusive */
    int64_t until_s;
    int64_t ended_s; /* when the master ended; 0: it has not */
};

struct loss {
    enum loss_type type;
    struct hvd_worker worker;
};

/* The existing workers of a group, of those that the master started with. */
struct worker_count {
    int64_t n_started; /* from the Job's annotation */
    int64_t n_wanted;  /* of these, how many the job still wants */
    int64_t n_seen;
    int64_t sum; /* of their ordinals: identifies the missing one if there is exactly one */
};

bool hvd_loss_is_disruption(const struct hvd_object *pod)
{
    static const char *const reasons[] = {"Evicted",  "NodeLost",   "NodeShutdown",
                                          "Shutdown", "Terminated", "Preempting"};

    if (pod->u.pod.disruption || pod->meta.is_deleting)
        return true;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (hvd_str_equal(pod->u.pod.reason, reasons[i]))
            return true;
    }
    return false;
}

/*
 * When the master's own container ended; 0: it has not, or is not known to. The clock of its node
 * may be behind or ahead. So the start is not before the pod's creation, and the end not after the
 * Job's.
 */
static int64_t master_ended_s(const struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master, *job = p->child[HVD_KIND_JOB];
    const struct hvd_pod_view *view = &pod->u.pod;
    const int64_t behind_s = pod->meta.created_s - view->started_s;
    const int64_t failed_s = job->u.job.is_failed ? job->u.job.failed_s : 0;
    int64_t ended_s = 0;

    if (view->own_ended_s > 0 && (view->left || view->phase == HVD_POD_FAILED))
        ended_s = view->own_ended_s + (behind_s > 0 ? behind_s : 0);
    return ended_s == 0 || (failed_s > 0 && failed_s < ended_s) ? failed_s : ended_s;
}

/* If the operator looks soon after the master's end, all that it sees may have caused that end. */
static struct window window_of(const struct hvd_pass *p)
{
    const struct hvd_object *master = p->pods.master;
    struct window window = {.since_s = master->u.pod.started_s, .until_s = INT64_MAX};

    /* Nodes and the API server have different clocks. A worker that was there before the master's
     * pod was made is not new, whatever time the node reports. */
    if (window.since_s < master->meta.created_s)
        window.since_s = master->meta.created_s;
    window.ended_s = master_ended_s(p);
    if (window.ended_s > 0 && window.ended_s < window.since_s)
        window.ended_s = window.since_s;
    if (window.ended_s > 0 && p->now_s > window.ended_s + LAG_S)
        window.until_s = window.ended_s + LAG_S;
    return window;
}

/* Whether the group's workers are being removed, or were, since the master ended: the operator does
 * that then. A restarted operator reads it from the status only if that could be written. */
static bool is_cleared(const struct hvd_pass *p, size_t group, const struct window *window)
{
    return window->ended_s > 0 &&
           (hvd_pass_set(p, group) != HVD_CHILD_OURS || p->owners.sets[group]->meta.is_deleting);
}

/* When the pod failed, if its container does not show it; 0: not known. */
static int64_t failed_s(const struct hvd_object *pod)
{
    const struct hvd_pod_view *view = &pod->u.pod;

    if (view->disruption && view->disrupted_s > 0)
        return view->disrupted_s;
    return pod->meta.is_deleting ? view->deleted_s - view->grace_s : 0;
}

/* The worker's loss within the window; for a worker that is cleared away, before the master's
 * end. */
static enum loss_type judge(const struct hvd_object *pod, const struct window *window,
                            bool is_cleared)
{
    const struct hvd_pod_view *view = &pod->u.pod;
    const bool is_going = is_cleared && pod->meta.is_deleting;
    const int64_t until_s = is_going ? window->ended_s - 1 : window->until_s;
    const bool has_ended = view->has_failed && view->ended_s > window->since_s;

    if (pod->meta.created_s > until_s)
        return NOT_LOST;
    if (has_ended && view->ended_s <= until_s)
        return ENDED;
    if ((view->phase == HVD_POD_FAILED || view->phase == HVD_POD_SUCCEEDED) && !has_ended &&
        failed_s(pod) <= until_s)
        return FAILED;
    if (view->disruption && view->disrupted_s <= until_s)
        return DISRUPTED;
    if (pod->meta.is_deleting && !is_going && view->deleted_s - view->grace_s <= until_s)
        return DELETED;
    return pod->meta.created_s > window->since_s ? REPLACED : NOT_LOST;
}

/* Counts the workers of each group that the master started with and the job still wants. */
static void count_started(const struct hvd_pass *p, struct worker_count counts[HVD_JOB_GROUPS_MAX])
{
    const char *text = p->child[HVD_KIND_JOB]->u.job.workers;
    int32_t started[HVD_JOB_GROUPS_MAX];
    size_t n = hvd_scaling_read(text, p->job->spec.n_groups, started);

    for (size_t i = 0; i < n; i++) {
        int32_t wanted = p->job->spec.groups[i].replicas;

        counts[i].n_started = started[i];
        counts[i].n_wanted = started[i] < wanted ? started[i] : wanted;
    }
}

int64_t hvd_loss_started(const struct hvd_pass *p)
{
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};
    int64_t n = 0;

    count_started(p, counts);
    for (size_t i = 0; i < p->job->spec.n_groups; i++)
        n += counts[i].n_started;
    return n;
}

/* Records when and which workers are removed by scaling, in case the program fails without them. */
static void put_removal(struct hvd_pass *p, struct hvd_jb *jb, cJSON *annotations,
                        const struct worker_count *counts)
{
    char text[HVD_LOSS_TEXT_SIZE / 2];
    size_t i = 0;

    while (i + 1 < p->job->spec.n_groups && counts[i].n_wanted == counts[i].n_started)
        i++;
    hvd_scaling_describe_removal(p->job, i, (int32_t)counts[i].n_started, text, sizeof(text));
    hvd_jb_fmt(jb, annotations, HVD_ANNOTATION_SCALED_DOWN, "%lld %s", (long long)p->now_s, text);
}

bool hvd_loss_note_fewer(struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};
    char text[HVD_JOB_GROUPS_MAX * 12] = "";
    struct hvd_jb jb = {0};
    size_t len = 0;
    cJSON *root, *meta, *annotations;

    if (p->st || hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS || !job->u.job.workers)
        return false;
    count_started(p, counts);
    for (size_t i = 0; i < p->job->spec.n_groups; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d", i ? "," : "",
                                (int)counts[i].n_wanted);
    if (strcmp(text, job->u.job.workers) == 0)
        return false;
    root = hvd_jb_root(&jb);
    meta = hvd_jb_object(&jb, root, "metadata");
    hvd_patch_expect(&jb, meta, &job->meta);
    annotations = hvd_jb_object(&jb, meta, "annotations");
    hvd_jb_str(&jb, annotations, HVD_ANNOTATION_WORKERS, text);
    /* The hash covered all workers, so it is not valid any more. */
    hvd_jb_str(&jb, annotations, HVD_ANNOTATION_WORKERS_HASH, NULL);
    if (p->job->spec.is_elastic)
        put_removal(p, &jb, annotations, counts);
    hvd_write_patch(p, job,
                    &(struct hvd_patch){.repair = HVD_REPAIR_WORKERS,
                                        .value = hvd_hash_text(HVD_HASH_START, text),
                                        .body = hvd_jb_print(&jb, root)});
    cJSON_Delete(root);
    return true;
}

/* A sum, because pods come in any order. */
static uint64_t hash_workers(const struct hvd_pass *p, const struct worker_count *counts)
{
    struct hvd_worker worker;
    uint64_t sum = 0;

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        if (pod->kind == HVD_KIND_POD && pod->meta.role == HVD_ROLE_WORKER &&
            hvd_pods_identify(p->view, pod, &p->owners, &worker) &&
            worker.ordinal < counts[worker.group].n_wanted)
            sum +=
                hvd_hash_number(hvd_hash_text(HVD_HASH_START, pod->meta.uid), pod->u.pod.restarts);
    }
    return sum ? sum : 1;
}

uint64_t hvd_loss_workers_hash(const struct hvd_pass *p)
{
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};

    for (size_t i = 0; i < p->job->spec.n_groups; i++)
        counts[i].n_wanted = p->job->spec.groups[i].replicas;
    return hash_workers(p, counts);
}

static bool counts_on_workers(const struct hvd_pass *p)
{
    return p->pods.master && p->child[HVD_KIND_JOB] && p->pods.master->u.pod.started_s != 0 &&
           !p->job->spec.is_elastic;
}

int64_t hvd_loss_counted_on(const struct hvd_pass *p, size_t group)
{
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};

    if (!counts_on_workers(p) || hvd_attempt_loss(p))
        return 0;
    count_started(p, counts);
    return counts[group].n_wanted;
}

static bool is_more_telling(const struct loss *a, const struct loss *b)
{
    if (a->type != b->type)
        return a->type > b->type;
    if (a->worker.group != b->worker.group)
        return a->worker.group < b->worker.group;
    return a->worker.ordinal < b->worker.ordinal;
}

/* The time at which a pod disappeared is unknown, so this counts only in an open window. */
static void look_for_missing(const struct hvd_pass *p, const struct worker_count *counts,
                             const struct window *window, struct loss *worst)
{
    if (window->until_s != INT64_MAX)
        return;
    for (size_t i = 0; i < p->job->spec.n_groups && worst->type == NOT_LOST; i++) {
        int64_t n = counts[i].n_wanted;

        if (counts[i].n_seen >= n || is_cleared(p, i, window))
            continue;
        worst->type = GONE;
        worst->worker.group = i;
        worst->worker.ordinal =
            counts[i].n_seen == n - 1 ? (int32_t)(n * (n - 1) / 2 - counts[i].sum) : -1;
    }
}

static void find_worst(const struct hvd_pass *p, const struct window *window, struct loss *worst)
{
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};

    count_started(p, counts);
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        struct loss loss = {0};

        if (pod->kind != HVD_KIND_POD || pod->meta.role != HVD_ROLE_WORKER ||
            !hvd_pods_identify(p->view, pod, &p->owners, &loss.worker) ||
            loss.worker.ordinal >= counts[loss.worker.group].n_wanted)
            continue;
        counts[loss.worker.group].n_seen++;
        counts[loss.worker.group].sum += loss.worker.ordinal;
        loss.type = judge(pod, window, is_cleared(p, loss.worker.group, window));
        if (loss.type != NOT_LOST && is_more_telling(&loss, worst))
            *worst = loss;
    }
    look_for_missing(p, counts, window, worst);
}

/* Whether the workers differ from those that the master's Job was made for. */
static bool has_others(const struct hvd_pass *p)
{
    const uint64_t hash = p->child[HVD_KIND_JOB]->u.job.workers_hash;
    struct worker_count counts[HVD_JOB_GROUPS_MAX] = {{0}};

    count_started(p, counts);
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        if (counts[i].n_wanted != counts[i].n_started)
            return false; /* the user reduces the replicas */
    }
    return hash != 0 && hash != hash_workers(p, counts);
}

/* Finds a loss within the second of the start. If several pods were created in that second, the
 * replaced worker cannot be identified. */
static void find_worst_of_start(const struct hvd_pass *p, struct window window, struct loss *worst)
{
    const int64_t start_s = window.since_s--;
    struct loss found = {0};
    int n_came = 0;

    find_worst(p, &window, &found);
    if (found.type == NOT_LOST || !has_others(p))
        return;
    for (size_t i = 0; found.type == REPLACED && i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        n_came += hvd_pods_is_ours(p->view, pod, &p->owners) && pod->meta.role == HVD_ROLE_WORKER &&
                  pod->meta.created_s == start_s;
    }
    if (n_came > 1)
        found.worker.ordinal = -1;
    *worst = found;
}

static void describe_pod(const struct loss *loss, char *out, size_t size)
{
    const struct hvd_pod_view *pod = &loss->worker.pod->u.pod;

    if (loss->type == ENDED)
        hvd_ending_of_container(pod, out, size);
    else if (loss->type == FAILED)
        hvd_ending_of_worker(pod, out, size);
    else if (loss->type == DISRUPTED)
        hvd_text_format(out, size, "its pod has to go: %s", pod->disruption);
    else if (loss->type == DELETED)
        hvd_text_format(out, size, "its pod is being deleted");
    else
        hvd_text_format(out, size, "its pod was replaced by a new one");
}

static void describe(const struct hvd_pass *p, const struct loss *loss,
                     char out[HVD_LOSS_TEXT_SIZE])
{
    const struct hvd_object *pod = loss->worker.pod;
    char set[HVD_CHILD_NAME_MAX], what[HVD_LOSS_TEXT_SIZE / 2];

    if (loss->type == GONE) {
        hvd_children_group_name(p->job, loss->worker.group, set);
        if (loss->worker.ordinal >= 0)
            hvd_text_format(out, HVD_LOSS_TEXT_SIZE, "worker %s-%d: its pod is gone", set,
                            loss->worker.ordinal);
        else
            hvd_text_format(out, HVD_LOSS_TEXT_SIZE, "several workers of %s: their pods are gone",
                            set);
        return;
    }
    if (loss->worker.ordinal < 0) {
        hvd_children_group_name(p->job, loss->worker.group, set);
        hvd_text_format(out, HVD_LOSS_TEXT_SIZE,
                        "a worker of %s: its pod was replaced by a new one", set);
        return;
    }
    describe_pod(loss, what, sizeof(what));
    hvd_text_format(out, HVD_LOSS_TEXT_SIZE, "worker %s%s%s: %s", pod->meta.name,
                    pod->u.pod.node ? " on node " : "", pod->u.pod.node ? pod->u.pod.node : "",
                    what);
}

/* Finds workers of an elastic job that scaling removed just before the master failed. */
static bool find_removed(const struct hvd_pass *p, struct hvd_worker_failure *out,
                         char text[HVD_LOSS_TEXT_SIZE])
{
    const struct hvd_pod_view *master = p->pods.master ? &p->pods.master->u.pod : NULL;
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const char *note = master && job ? job->u.job.scaled_down : NULL;
    char *end = NULL;
    long long at_s = note ? strtoll(note, &end, 10) : 0;

    if (!note || end == note || *end != ' ' || !master->has_failed ||
        master->ended_s + SKEW_S < at_s || master->ended_s > at_s + SCALED_S)
        return false;
    hvd_text_format(text, HVD_LOSS_TEXT_SIZE, "%s", end + 1);
    *out = (struct hvd_worker_failure){.message = text,
                                       .attempt = hvd_job_ended(&p->job->status) + 1,
                                       .at_s = p->now_s,
                                       .is_disruption = true};
    return true;
}

bool hvd_loss_find(const struct hvd_pass *p, struct hvd_worker_failure *out,
                   char text[HVD_LOSS_TEXT_SIZE])
{
    struct loss worst = {0};
    struct window window;

    if (p->job->spec.is_elastic)
        return find_removed(p, out, text);
    if (!counts_on_workers(p))
        return false;
    window = window_of(p);
    find_worst(p, &window, &worst);
    if (worst.type == NOT_LOST)
        find_worst_of_start(p, window, &worst);
    if (worst.type == NOT_LOST)
        return false;
    describe(p, &worst, text);
    *out = (struct hvd_worker_failure){
        .message = text,
        .attempt = hvd_job_ended(&p->job->status) + 1,
        .at_s = p->now_s,
        .has_exit_code = worst.type == ENDED,
        .exit_code = worst.type == ENDED ? worst.worker.pod->u.pod.exit_code : 0,
        .is_disruption = worst.type <= DISRUPTED || (!is_cleared(p, worst.worker.group, &window) &&
                                                     hvd_loss_is_disruption(worst.worker.pod)),
    };
    return true;
}

bool hvd_loss_find_hopeless(const struct hvd_pass *p, struct hvd_worker_failure *out,
                            char text[HVD_LOSS_TEXT_SIZE])
{
    struct loss worst = {0};
    char what[HVD_LOSS_TEXT_SIZE];

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        struct loss loss = {.type = ENDED};

        if (pod->kind == HVD_KIND_POD && pod->meta.role == HVD_ROLE_WORKER &&
            pod->u.pod.has_failed && pod->u.pod.restarts >= RESTARTS_MAX && !pod->u.pod.is_ready &&
            !pod->meta.is_deleting && hvd_pods_identify(p->view, pod, &p->owners, &loss.worker) &&
            is_more_telling(&loss, &worst))
            worst = loss;
    }
    if (worst.type == NOT_LOST)
        return false;
    describe(p, &worst, what);
    hvd_text_format(text, HVD_LOSS_TEXT_SIZE, "%s, after %d restarts", what,
                    worst.worker.pod->u.pod.restarts);
    *out = (struct hvd_worker_failure){.message = text,
                                       .attempt = hvd_job_ended(&p->job->status) + 1,
                                       .at_s = p->now_s,
                                       .has_exit_code = true,
                                       .exit_code = worst.worker.pod->u.pod.exit_code};
    return true;
}
