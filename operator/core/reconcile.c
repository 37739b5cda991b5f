/*
 * Decides about one job. Order of questions: does it belong to this operator, has it finished, is
 * its spec wrong, is it suspended, has its master ended, is a failed attempt being cleared away;
 * only then: do its children need repair. The answer is a plan; all memory between passes is the
 * job's status. Pure: no I/O, no clock, no threads.
 *
 *   Pending -> Starting -> Running -> Succeeded | Failed
 *      ^          |           |
 *      |          +-----------+--> Restarting (clear away, then as Pending)
 *      +-- Suspended <-- any state that is not final
 */
#include "operator/core/reconcile.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/finalizers.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/attempt/loss.h"
#include "operator/core/attempt/retry.h"
#include "operator/core/attempt/scaling.h"
#include "operator/core/children/children.h"
#include "operator/core/children/hosts.h"
#include "operator/core/children/owner.h"
#include "operator/core/ensure/admit.h"
#include "operator/core/ensure/drift.h"
#include "operator/core/ensure/ensure.h"
#include "operator/core/ensure/held.h"
#include "operator/core/ensure/labels.h"
#include "operator/core/launch/launch.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/obstacles/stage.h"
#include "operator/core/obstacles/terminating.h"
#include "operator/core/outcome/altered.h"
#include "operator/core/outcome/deadline.h"
#include "operator/core/outcome/edits.h"
#include "operator/core/outcome/mark.h"
#include "operator/core/outcome/outcome.h"
#include "operator/core/outcome/sidecars.h"
#include "operator/core/outcome/start.h"
#include "operator/core/pass/pass.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/kept.h"
#include "operator/core/writes/refusal.h"

#define MESSAGE_SIZE 1024
#define STOPPED_MS 1000 /* shortest time between status writes of a suspended job */
#define SETTLE_MS 5000  /* the status waits so long for a master that was just made */
/* How often counts alone are written, and how long the first status waits for more. The interval
 * grows with the age of the start, so that workers that come one by one cost few writes. It also
 * grows with the number of jobs that start at the same time. */
#define COUNTS_MIN_MS 5000
#define COUNTS_MAX_MS 30000
#define COUNTS_JOB_MS 250
#define KEPT_MS 300000 /* interval for rewriting conditions that are not kept */

/* Files a set under the group with its name. */
static void find_group(struct hvd_pass *p, const struct hvd_object *set)
{
    char name[HVD_CHILD_NAME_MAX];

    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        hvd_children_group_name(p->job, i, name);
        if (hvd_str_equal(set->meta.name, name))
            p->owners.sets[i] = set;
    }
}

static void find_children(struct hvd_pass *p)
{
    static const enum hvd_kind kinds[] = {
        HVD_KIND_SECRET, HVD_KIND_SERVICE,          HVD_KIND_STATEFULSET,     HVD_KIND_CONFIGMAP,
        HVD_KIND_JOB,    HVD_KIND_VOLCANO_PODGROUP, HVD_KIND_PLUGINS_PODGROUP};
    char names[HVD_N_KINDS][HVD_CHILD_NAME_MAX] = {{0}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        hvd_children_name(p->job, kinds[i], names[kinds[i]]);
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (hvd_str_equal(object->meta.name, names[object->kind]))
            p->child[object->kind] = object;
        if (object->kind == HVD_KIND_STATEFULSET)
            find_group(p, object);
    }
    p->owners.master_job = p->child[HVD_KIND_JOB];
}

static const char suspended[] = "the job is suspended by spec.suspend";
static const char suspending[] = "the job is being suspended by spec.suspend"; /* no event yet */

static void set(struct hvd_pass *p, enum hvd_condition_type type, enum hvd_truth truth,
                const char *const reason_message[2])
{
    const struct hvd_condition_update update = {type, truth, reason_message[0], reason_message[1]};

    hvd_pass_condition(p, &update);
}

static bool is_true(const struct hvd_job_status *status, enum hvd_condition_type type)
{
    return status->conditions[type].truth == HVD_TRUE;
}

/* Finds the text of a create or patch that the API server will never accept; false if there is
 * none. */
static bool is_refused(const struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    for (size_t i = 0; i < p->view->n_failures; i++) {
        const struct hvd_failure *failure = &p->view->failures[i];

        if (failure->type != HVD_FAILURE_INVALID)
            continue;
        hvd_text_format(out, MESSAGE_SIZE, "%s %s was refused: %s",
                        hvd_kind_info(failure->kind)->kind, failure->name,
                        failure->message ? failure->message : "no reason given");
        return true;
    }
    return false;
}

/* Reports a list that fits into no ConfigMap: the workers cannot be published. */
static void show_too_long(struct hvd_pass *p)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_WORKERS_READY];
    char message[MESSAGE_SIZE];

    hvd_text_format(
        message, sizeof(message),
        "the list of %d hosts has %zu bytes and a ConfigMap holds %d: use fewer workers, "
        "a shorter name of the job, or spec.network.hostNames IP",
        p->job->spec.replicas, p->too_long, HVD_HOSTS_MAX_BYTES);
    if (!hvd_str_equal(was->reason, "HostListTooLong"))
        hvd_pass_event(p, "HostListTooLong", message, true);
    set(p, HVD_COND_WORKERS_READY, HVD_FALSE, (const char *const[2]){"HostListTooLong", message});
}

/* Reports replicas that wait for the next attempt, once per change. */
static void tell_deferred(struct hvd_pass *p)
{
    const char *known = p->job->status.conditions[HVD_COND_WORKERS_READY].message;

    if (p->deferred[0] && !(known && strstr(known, p->deferred)))
        hvd_pass_event(p, "ScalingDeferred", p->deferred, false);
}

/* Describes pods that a set has adopted, and that are no workers. */
static void describe_misnamed(const struct hvd_pass *p, char *out, size_t size)
{
    const struct hvd_object *pod = p->pods.misnamed;
    char others[48] = "";

    if (p->pods.n_misnamed > 1)
        (void)snprintf(others, sizeof(others), " (and %zu more such pods)", p->pods.n_misnamed - 1);
    if (hvd_pods_is_numbered(pod))
        hvd_text_format(out, size,
                        "pod %s takes the place of a worker in StatefulSet %s: delete it%s",
                        pod->meta.name, pod->meta.owner_name, others);
    else
        hvd_text_format(out, size,
                        "pod %s belongs to StatefulSet %s and is no worker, as its name has no "
                        "worker's number: delete it%s",
                        pod->meta.name, pod->meta.owner_name, others);
}

/* Describes what keeps workers from being Ready; false if no cause is known. */
static bool describe_trouble(struct hvd_pass *p, char *out, size_t size)
{
    const struct hvd_object *pod = p->pods.troubled;
    char slow[HVD_STAGE_TEXT_SIZE];

    if (hvd_refusal_of_change(p, out, size) || hvd_look_describe(p, out, size) ||
        hvd_refusal_of_workers(p, out, size))
        return true;
    if (pod)
        hvd_text_format(out, size, "pod %s %s", pod->meta.name, pod->u.pod.trouble);
    else if (p->pods.misnamed)
        describe_misnamed(p, out, size);
    else if (p->pods.slow && hvd_stage_describe(p, p->pods.slow, slow)) {
        hvd_text_format(out, size, "%s", slow);
        return true;
    }
    return pod || p->pods.misnamed || hvd_drift_describe(p, out, size) ||
           hvd_altered_describe(p, HVD_KIND_STATEFULSET, out, size);
}

/* Describes how many workers are Ready, and how many of them the attempt under way counts on. */
static void describe_workers(const struct hvd_pass *p, char *out, size_t size)
{
    const bool is_master_made = hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS;
    int64_t n_started = is_master_made ? hvd_loss_started(p) : 0;
    int n = snprintf(out, size, "%d of %d workers are ready", (int)p->pods.n_ready,
                     p->job->spec.replicas);

    out += n;
    size -= (size_t)n;
    if (p->deferred[0])
        hvd_text_format(out, size, "; %s", p->deferred);
    else if (n_started > 0 && n_started < (int64_t)p->pods.n_ready)
        hvd_text_format(out, size,
                        "; this attempt was started for %d: ranks on the others are up to the "
                        "program, or wait for the next attempt",
                        (int)n_started);
}

static void count_workers(struct hvd_pass *p)
{
    int32_t ready = (int32_t)p->pods.n_ready;
    int32_t wanted = p->job->spec.replicas;
    bool is_all = ready == wanted;
    char message[MESSAGE_SIZE], trouble[MESSAGE_SIZE - 64], workers[HVD_SCALING_TEXT_SIZE + 64];

    p->next.workers_ready = ready;
    p->next.workers_desired = wanted;
    p->next.replicas = p->pods.n_ready_of[0];
    if (p->too_long) {
        show_too_long(p);
        return;
    }
    tell_deferred(p);
    describe_workers(p, workers, sizeof(workers));
    if (describe_trouble(p, trouble, sizeof(trouble))) {
        hvd_trouble_note(p, HVD_COND_WORKERS_READY, trouble, sizeof(trouble));
        hvd_text_format(message, sizeof(message), "%s; %s", workers, trouble);
    } else if (p->has_no_room)
        hvd_text_format(
            message, sizeof(message),
            "%s; PodGroup %s is Pending: the gang scheduler has no room for all of them "
            "yet",
            workers, p->job->name);
    else
        hvd_text_format(message, sizeof(message), "%s", workers);
    set(p, HVD_COND_WORKERS_READY, is_all ? HVD_TRUE : HVD_FALSE,
        (const char *const[2]){is_all ? "AllReady" : "WaitingForWorkers", message});
}

static void show_running(struct hvd_pass *p)
{
    const struct hvd_worker_failure *loss = hvd_attempt_loss(p);
    const char *lost = loss ? loss->message : NULL;
    char message[MESSAGE_SIZE], attempt[HVD_ATTEMPT_SIZE], altered[MESSAGE_SIZE / 2] = "";

    hvd_attempt_describe(p, attempt);
    if (hvd_altered_describe(p, HVD_KIND_JOB, altered, sizeof(altered)))
        hvd_trouble_note(p, HVD_COND_RUNNING, altered, sizeof(altered));
    hvd_text_format(message, sizeof(message), "pod %s is running (%s)%s%s%s%s%s%s%s%s",
                    p->pods.master->meta.name, attempt, p->obstacle[0] ? "; " : "", p->obstacle,
                    lost ? "; " : "", lost ? lost : "", p->deferred[0] ? "; " : "", p->deferred,
                    altered[0] ? "; " : "", altered);
    if (!is_true(&p->job->status, HVD_COND_RUNNING))
        hvd_pass_event(p, "MasterStarted", message, false);
    set(p, HVD_COND_RUNNING, HVD_TRUE, (const char *const[2]){"MasterStarted", message});
    hvd_pass_state(p, HVD_JOB_RUNNING);
    p->next.retry_s = 0;
}

/* Whether the condition Running reports something that is over; a failed attempt stays reported
 * until the next one runs. */
static bool is_stale(const struct hvd_condition *running)
{
    return running->truth != HVD_ABSENT && !hvd_str_equal(running->reason, "MasterFailed") &&
           !hvd_str_equal(running->reason, "WorkerFailed");
}

/* Describes what keeps the master from running; false if no cause is known. */
static bool describe_master(struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    const struct hvd_object *master = p->pods.master;

    if (master && master->u.pod.trouble) {
        hvd_text_format(out, MESSAGE_SIZE, "pod %s %s", master->meta.name, master->u.pod.trouble);
        return true;
    }
    if (master ? hvd_stage_describe(p, master, out) : hvd_refusal_of_master(p, out, MESSAGE_SIZE))
        return true;
    return hvd_altered_describe(p, HVD_KIND_JOB, out, MESSAGE_SIZE);
}

/* Sets the condition Running and the state of a job whose master does not run. */
static void show_waiting(struct hvd_pass *p)
{
    const struct hvd_condition *running = &p->next.conditions[HVD_COND_RUNNING];
    bool has_job = hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS;
    char message[MESSAGE_SIZE];

    if (!p->is_blocked && describe_master(p, message)) {
        hvd_trouble_note(p, HVD_COND_RUNNING, message, sizeof(message));
        set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){"WaitingForMaster", message});
    } else if (!p->is_blocked && is_stale(running)) {
        set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){"WaitingForMaster", ""});
    }
    if (p->job->status.state == HVD_JOB_RESTARTING && !has_job)
        hvd_pass_state(p, HVD_JOB_RESTARTING);
    else if (has_job || is_true(&p->next, HVD_COND_WORKERS_READY))
        hvd_pass_state(p, HVD_JOB_STARTING);
    else
        hvd_pass_state(p, HVD_JOB_PENDING);
}

/*
 * Delays the status: the workers are Ready and the master was just made, so it will run soon, and
 * one write can report both. Sets the end of that wait.
 */
static void settle(struct hvd_pass *p)
{
    enum hvd_child_state state = hvd_pass_child(p, HVD_KIND_JOB);
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const struct hvd_object *master = p->pods.master;
    int64_t from_ms = state == HVD_CHILD_OURS ? job->meta.created_s * 1000 : p->now_ms;
    bool is_made =
        state == HVD_CHILD_OURS || (state == HVD_CHILD_MISSING && p->plan->n_actions > 0);

    if (!is_made || p->is_blocked || (master && master->u.pod.trouble) || from_ms > p->now_ms ||
        !is_true(&p->next, HVD_COND_WORKERS_READY) ||
        (p->next.state != HVD_JOB_STARTING && p->next.state != HVD_JOB_RESTARTING) ||
        p->job->status.state == HVD_JOB_NEW)
        return;
    p->settled_ms = from_ms + SETTLE_MS;
}

/* Clears away the objects of the ended attempt, with the workers: they may hold ranks of it. */
static void restart(struct hvd_pass *p)
{
    hvd_pass_state(p, HVD_JOB_RESTARTING);
    if (hvd_outcome_quiesce(p)) {
        p->next.cleaned = hvd_job_ended(&p->job->status);
        p->is_urgent = true; /* the next attempt waits for it */
    }
    count_workers(p);
}

static bool has_workers(const struct hvd_pass *p)
{
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        if (hvd_pass_set(p, i) == HVD_CHILD_OURS && p->owners.sets[i]->u.statefulset.replicas > 0)
            return true;
    }
    return p->pods.n_workers > 0;
}

/*
 * Whether the workers were started with lost keys: another writer deleted the Secret before the
 * master was made. New keys are made once the workers are gone, so that no clock has to decide
 * which came first. A comparison of times finds the workers of a Secret that another writer
 * restored.
 */
static bool is_rekeyed(const struct hvd_pass *p)
{
    const enum hvd_kind launch_child = hvd_launch_of(p->job)->child;
    const struct hvd_object *secret = p->child[launch_child];
    enum hvd_child_state state = hvd_pass_child(p, launch_child);

    if (hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_MISSING)
        return false;
    if (state != HVD_CHILD_OURS)
        return state == HVD_CHILD_MISSING && has_workers(p);
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        struct hvd_worker worker; /* another pod that its set has adopted runs no ranks */

        if (hvd_pods_is_ours(p->view, pod, &p->owners) &&
            hvd_pods_identify(p->view, pod, &p->owners, &worker) &&
            pod->meta.created_s < secret->meta.created_s)
            return true;
    }
    return false;
}

/* Stops the job: no pods, and no claim to resources for them. */
static void stop(struct hvd_pass *p)
{
    (void)hvd_outcome_quiesce(p);
    hvd_admit_release(p);
}

/* Shows the state of a master that was made. */
static void show_master(struct hvd_pass *p)
{
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];

    /* That it has run is persisted first, because the time since then counts. */
    if (hvd_sidecars_hold(p) &&
        (running->truth == HVD_TRUE || hvd_str_equal(running->reason, HVD_REASON_MASTER_ENDED)))
        hvd_sidecars_show(p);
    else if (hvd_pass_is_running(p))
        show_running(p);
    else
        show_waiting(p);
}

/*
 * The start of a job that has no start time yet. If the status cannot be written, the creation time
 * serves, provided that the spec is still the first one: the job was not suspended then.
 */
static int64_t find_start_s(const struct hvd_pass *p)
{
    const bool is_first = p->job->status.state == HVD_JOB_NEW && p->job->generation == 1;

    return is_first && p->job->created_s > 0 && p->job->created_s < p->now_s &&
                   hvd_refusal_of_status(p)
               ? p->job->created_s
               : p->now_s;
}

static void run(struct hvd_pass *p)
{
    if (p->next.start_s == 0)
        p->next.start_s = find_start_s(p);
    if (hvd_altered_ends_job(p))
        return;
    if (hvd_held_ends_attempt(p)) {
        count_workers(p);
        return;
    }
    if (hvd_outcome_master(p) || hvd_deadline_ends_job(p))
        return;
    if (hvd_attempt_is_uncleared(p)) {
        restart(p);
        return;
    }
    if (hvd_retry_is_waiting(p)) {
        hvd_pass_state(p, HVD_JOB_RESTARTING);
        stop(p);
        count_workers(p);
        return;
    }
    if (hvd_outcome_lost(p) || hvd_outcome_hopeless(p))
        return;
    if (hvd_outcome_vanished(p)) {
        if (!hvd_job_is_finished(&p->next))
            count_workers(p);
        return;
    }
    if (is_rekeyed(p) || hvd_ensure_list_thaws(p)) {
        (void)hvd_ensure_no_workers(p);
        hvd_outcome_remove_workers(p);
        count_workers(p);
        show_waiting(p);
        return;
    }
    if (hvd_start_clears(p) || !hvd_admit_port(p)) {
        count_workers(p);
        show_waiting(p);
        return;
    }
    hvd_outcome_remove_stray(p);
    if (!hvd_loss_note_fewer(p))
        hvd_ensure_children(p);
    hvd_ensure_hosts(p);
    hvd_ensure_master_told(p);
    count_workers(p);
    hvd_ensure_master(p);
    show_master(p);
    settle(p);
}

/* Shows the workers of a suspended job: they go, or a writer denies their removal. */
static void show_suspended(struct hvd_pass *p, const char *text)
{
    char message[MESSAGE_SIZE], denied[MESSAGE_SIZE - 64];
    bool is_denied = hvd_refusal_of_change(p, denied, sizeof(denied));

    p->next.workers_ready = (int32_t)p->pods.n_ready;
    p->next.workers_desired = p->job->spec.replicas;
    p->next.replicas = p->pods.n_ready_of[0];
    hvd_text_format(message, sizeof(message), "%s%s%s", text, is_denied ? "; " : "",
                    is_denied ? denied : "");
    set(p, HVD_COND_WORKERS_READY, HVD_FALSE, (const char *const[2]){"Suspended", message});
}

/*
 * Sets the condition Suspended, which is true once no pod is left, and nothing that would make one.
 * Otherwise the event waits for the pass after the status: an earlier resume has stopped nothing.
 */
static void show_suspension(struct hvd_pass *p)
{
    const bool is_idle = !has_workers(p) && p->pods.n_masters == 0 &&
                         hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS;
    const bool is_known = hvd_pass_is_stopping(p);
    const bool waits = !is_known && !is_idle && !p->is_carried_out;

    if (!is_known && !waits)
        hvd_pass_event(p, "Suspended", suspended, false);
    set(p, HVD_COND_SUSPENDED, is_idle ? HVD_TRUE : HVD_FALSE,
        (const char *const[2]){is_idle ? "Suspended" : HVD_REASON_SUSPENDING,
                               waits ? suspending : suspended});
}

/* Records that suspension has ended the attempt under way. */
static void end_suspended(struct hvd_pass *p)
{
    p->next.interruptions++;
    hvd_attempt_note_end(p, &(struct hvd_attempt_end){.reason = "Suspended", .message = suspended});
}

static void show_stopped(struct hvd_pass *p)
{
    hvd_retry_forget(p);
    hvd_pass_state(p, HVD_JOB_SUSPENDED);
    p->next.start_s = 0;
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){"Suspended", ""});
}

static void suspend(struct hvd_pass *p)
{
    const struct hvd_job_status *known = &p->job->status;
    const bool is_known = hvd_pass_is_stopping(p);

    if (!is_known && hvd_attempt_is_under_way(p))
        end_suspended(p);
    show_stopped(p);
    /* The status cannot be written, but spec.suspend is as durable, and a mark records that
     * suspension has ended the attempt. */
    p->is_carried_out = !is_known && p->job->spec.is_suspended && hvd_refusal_of_status(p);
    if (is_known ||
        (p->is_carried_out && (known->attempts <= hvd_job_ended(known) || hvd_mark_note(p))))
        stop(p);
    show_suspended(p, suspended);
    show_suspension(p);
}

/* Completes a suspension before the job starts again: nothing of the old start remains. */
static void resume(struct hvd_pass *p)
{
    static const char message[] = "the job is resumed";
    static const char waiting[] = "the job resumes as soon as what its last start left is gone";

    if (!hvd_outcome_quiesce(p)) {
        show_suspended(p, waiting);
        set(p, HVD_COND_SUSPENDED, HVD_FALSE,
            (const char *const[2]){HVD_REASON_SUSPENDING, waiting});
        return;
    }
    p->next.cleaned = hvd_job_ended(&p->next);
    p->next.start_s = p->now_s;
    p->next.launch_port = 0; /* another job may have it by now */
    count_workers(p);
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){"WaitingForMaster", ""});
    set(p, HVD_COND_SUSPENDED, HVD_FALSE, (const char *const[2]){"Resumed", message});
    hvd_pass_state(p, HVD_JOB_PENDING);
    hvd_pass_event(p, "Resumed", message, false);
}

/* Continues after a suspension that is over and that no status recorded: its attempt has ended, and
 * the job resumes as after a recorded one. */
static void take_suspension(struct hvd_pass *p, struct hvd_job_status *known)
{
    if (p->st || p->mark.state != HVD_JOB_SUSPENDED || p->job->spec.is_suspended)
        return;
    end_suspended(p);
    show_stopped(p);
    known->interruptions = p->next.interruptions;
    known->state = p->next.state;
}

/* Whether the master ended before the operator saw the suspension: then that is its outcome. */
static bool has_just_ended(struct hvd_pass *p)
{
    return !hvd_pass_is_stopping(p) && !hvd_altered_is_wrong(p, HVD_KIND_JOB) &&
           hvd_outcome_master(p);
}

/* Lets the running objects of a HorovodJob that is being deleted reach their end, which is recorded
 * as always; begins nothing. */
static void wind_down(struct hvd_pass *p)
{
    if (p->job->spec.is_suspended) {
        if (!has_just_ended(p))
            suspend(p);
        return;
    }
    if (hvd_altered_ends_job(p))
        return;
    if (hvd_held_ends_attempt(p)) {
        count_workers(p);
        return;
    }
    if (hvd_outcome_master(p) || hvd_outcome_abandoned(p))
        return;
    if (p->next.start_s == 0)
        p->next.start_s = p->now_s;
    if (hvd_deadline_ends_job(p) || hvd_outcome_lost(p))
        return;
    hvd_ensure_hosts(p);
    hvd_ensure_master_told(p);
    count_workers(p);
    show_master(p);
}

/* Processes an end that was carried out, and that no status records yet. */
static void take_noted(struct hvd_pass *p)
{
    if (p->next.start_s == 0 && !p->job->spec.is_suspended)
        p->next.start_s = find_start_s(p);
    hvd_outcome_noted(p);
}

/* Adds the event of a suspension that the status has begun, whatever this pass decides. */
static void tell_suspension(struct hvd_pass *p)
{
    if (hvd_str_equal(p->job->status.conditions[HVD_COND_SUSPENDED].message, suspending))
        hvd_pass_event(p, "Suspended", suspended, false);
}

static void decide(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE];

    hvd_edits_take(p);
    tell_suspension(p);
    if (hvd_mark_is_end(p))
        take_noted(p);
    else if (p->job->invalid)
        hvd_outcome_fail(p, HVD_REASON_TEMPLATE, p->job->invalid);
    else if (is_refused(p, message))
        hvd_outcome_fail(p, HVD_REASON_TEMPLATE, message);
    else if (hvd_outcome_late(p))
        ; /* it has succeeded nevertheless */
    else if (p->job->is_deleting)
        wind_down(p);
    else if (p->job->spec.is_suspended || hvd_ensure_is_outdated(p)) {
        if (!has_just_ended(p))
            suspend(p);
    } else if (hvd_pass_is_stopping(p))
        resume(p);
    else
        run(p);
    hvd_outcome_force_delete(p);
    if (!hvd_job_is_finished(&p->next) && !p->job->is_deleting)
        hvd_labels_restore(p);
    else
        hvd_labels_restore_stray(p);
    hvd_contest_report(p);
}

static bool has_event(const struct hvd_plan *plan)
{
    for (size_t i = 0; i < plan->n_actions; i++) {
        if (plan->actions[i].type == HVD_ACTION_EVENT)
            return true;
    }
    return false;
}

static bool is_in_trouble(const struct hvd_pass *p)
{
    return p->pods.troubled || (p->pods.master && p->pods.master->u.pod.trouble);
}

/* When counts alone may be written again: they were written at written_ms, for a start of age
 * age_ms. */
static int64_t counts_due_ms(const struct hvd_pass *p, int64_t written_ms, int64_t age_ms)
{
    int64_t every_ms = p->view->n_starting < COUNTS_MAX_MS / COUNTS_JOB_MS
                           ? (int64_t)p->view->n_starting * COUNTS_JOB_MS
                           : COUNTS_MAX_MS;

    if (every_ms < age_ms)
        every_ms = age_ms < COUNTS_MAX_MS ? age_ms : COUNTS_MAX_MS;
    return written_ms + (every_ms > COUNTS_MIN_MS ? every_ms : COUNTS_MIN_MS);
}

/*
 * How long the first status of a new job waits. It would report only that the children were just
 * made; the next one then also reports workers that are Ready soon. 0: it does not wait.
 */
static int64_t first_due_ms(const struct hvd_pass *p)
{
    const struct hvd_object *set = p->child[HVD_KIND_STATEFULSET];

    if (p->job->status.state != HVD_JOB_NEW || p->is_blocked || p->is_denied || is_in_trouble(p) ||
        (p->next.state != HVD_JOB_PENDING && p->next.state != HVD_JOB_STARTING) ||
        hvd_pass_child(p, HVD_KIND_STATEFULSET) != HVD_CHILD_OURS ||
        set->meta.created_s * 1000 > p->now_ms || has_event(p->plan))
        return 0;
    return counts_due_ms(p, set->meta.created_s * 1000, 0);
}

/* When the next status may be written; 0: at once. */
static int64_t status_due_ms(const struct hvd_pass *p)
{
    int64_t written_ms = p->view->status_written_ms;
    int64_t first_ms = first_due_ms(p);

    if (p->now_ms < first_ms)
        return first_ms;
    if (p->next.observed_generation != p->job->status.observed_generation)
        return 0;
    if (p->settled_ms > p->now_ms)
        return p->settled_ms;
    if (p->is_urgent || p->now_ms < written_ms)
        return 0;
    if (p->next.start_s == 0)
        return written_ms + STOPPED_MS;
    return counts_due_ms(p, written_ms, written_ms - p->next.start_s * 1000);
}

/* Whether this plan makes the first children of a new job, without a problem so far. The children
 * come first. The status gets its own plan, so that other jobs' children need not wait for it. */
static bool is_beginning(const struct hvd_pass *p)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        if (p->plan->actions[i].type != HVD_ACTION_CREATE &&
            p->plan->actions[i].type != HVD_ACTION_CREATE_SECRET)
            return false;
    }
    return p->plan->n_actions && p->job->status.state == HVD_JOB_NEW && !p->is_denied;
}

/* Hashes the news in the status for users: the state of the job. Counts of workers and texts change
 * too often. */
static uint64_t hash_news(const struct hvd_job_status *status)
{
    const struct hvd_condition *stopped = &status->conditions[HVD_COND_SUSPENDED];
    const enum hvd_job_state state =
        status->state == HVD_JOB_STARTING ? HVD_JOB_PENDING : status->state;
    uint64_t hash = hvd_hash_number(HVD_HASH_START, state);

    hash = hvd_hash_number(hash, status->attempts);
    hash = hvd_hash_number(hash, status->failures);
    hash = hvd_hash_number(hash, status->interruptions);
    return hvd_hash_number(hash, stopped->truth);
}

/*
 * Hashes the status without its times, which differ each time that another writer undoes it, and
 * without the text of the condition that reports this. A further contested repair, or a first
 * report of lost fields, makes it a new status, not a repetition. The upper half hashes the news
 * (denial.h).
 */
static uint64_t hash_status(struct hvd_pass *p)
{
    static const char reason[] = "StatusNotKept";
    const struct hvd_job job = {.namespace = "", .name = ""};
    struct hvd_job_status status = p->next; /* owns nothing */
    uint64_t hash = HVD_HASH_START;
    char *text = NULL;

    status.start_s = status.completion_s = status.retry_s = status.worker_failure.at_s = 0;
    status.conditions[HVD_COND_CONTESTED] = (struct hvd_condition){0};
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++)
        status.conditions[i].since_s = 0;
    if (!p->st)
        p->st = hvd_job_status_encode(&job, &status, NULL, &text, NULL);
    hash = hvd_hash_number(hvd_hash_text(hash, text), (int64_t)p->contested);
    hvd_free(text);
    if (hvd_str_equal(p->next.conditions[HVD_COND_CONTESTED].reason, reason) &&
        !hvd_str_equal(p->job->status.conditions[HVD_COND_CONTESTED].reason, reason))
        hash = hvd_hash_text(hash, reason);
    return hash_news(&p->next) << HVD_DENIALS_NEWS_SHIFT | hash >> HVD_DENIALS_NEWS_SHIFT;
}

/* Removes the events: all, or only those about no repair. */
static void drop_events(struct hvd_plan *plan, bool is_all)
{
    for (size_t i = plan->n_actions; i > 0; i--) {
        if (plan->actions[i - 1].type == HVD_ACTION_EVENT &&
            (is_all || plan->actions[i - 1].repair == HVD_REPAIR_NONE))
            hvd_plan_remove(plan, i - 1);
    }
}

/*
 * Carries out what follows from the cluster and the spec alone, even if the status cannot be
 * written: a restarted operator decides the same again. Removes idle workers. Once the ConfigMap
 * records the end, removes all running objects of a job whose time is over or whose template is
 * wrong. The Job of a failed attempt stays, as evidence of the failure that is not counted yet.
 */
static void finish_unwritten(struct hvd_pass *p)
{
    const struct hvd_condition *failed = &p->next.conditions[HVD_COND_FAILED];

    if (!hvd_job_is_finished(&p->next))
        return;
    p->is_carried_out = true;
    if (!hvd_mark_note(p))
        return;
    if (failed->truth == HVD_TRUE && (hvd_str_equal(failed->reason, HVD_REASON_DEADLINE) ||
                                      hvd_str_equal(failed->reason, HVD_REASON_TEMPLATE)))
        hvd_outcome_take_down(p);
    else
        hvd_outcome_release_workers(p);
}

/*
 * Reports a status that the API server rejects for a webhook, a policy, missing rights, or an
 * object that an older definition accepted. Then users see only the event.
 */
static void report_unwritten(struct hvd_pass *p, const struct hvd_failure *known)
{
    char message[MESSAGE_SIZE];

    if (known->n != (known->told_from ? known->told_from : 1))
        return;
    hvd_text_format(
        message, sizeof(message),
        "the API server refuses the status of this job (state %s), will be tried again: "
        "%s",
        hvd_job_state_str(p->next.state), known->message ? known->message : "");
    hvd_pass_event(p, "StatusNotWritten", message, true);
    if (!p->st) /* the event reports a write, and does not wait for it */
        p->plan->actions[p->plan->n_actions - 1].repair = HVD_REPAIR_STATUS;
}

static void add_status(struct hvd_pass *p, struct hvd_action *action)
{
    if (!p->st)
        p->st = hvd_job_status_encode(p->job, &p->next, &p->end, &action->body, NULL);
    if (!p->st)
        p->st = hvd_plan_add(p->plan, action, p->job->namespace, p->job->name);
}

/* Whether to retry a status whose conditions were not kept. Otherwise a finished job would get no
 * further write, but a restarted operator must find its conditions. */
static bool is_kept_anew(struct hvd_pass *p)
{
    const int64_t due_ms = p->view->status_written_ms + KEPT_MS;

    if (!hvd_kept_lacks_conditions(p->view->lost))
        return false;
    if (p->now_ms < due_ms)
        hvd_plan_wake(p->plan, due_ms);
    return p->now_ms >= due_ms;
}

/* Adds the status patch, after all actions that make it true. */
static void write_status(struct hvd_pass *p)
{
    struct hvd_write write = {HVD_KIND_HOROVODJOB, p->job->name, HVD_REPAIR_STATUS, 0};
    struct hvd_action action = {.type = HVD_ACTION_PATCH_STATUS,
                                .kind = HVD_KIND_HOROVODJOB,
                                .repair = HVD_REPAIR_STATUS,
                                .waits = !p->is_denied};
    const struct hvd_failure *unwritten = hvd_refusal_of_status(p);
    int64_t due_ms = status_due_ms(p);

    if (p->st || is_beginning(p) ||
        (hvd_job_status_equal(&p->next, &p->view->job->status) && !is_kept_anew(p)))
        return;
    if (p->now_ms < due_ms) {
        hvd_plan_wake(p->plan, due_ms);
        return;
    }
    if (unwritten)
        finish_unwritten(p);
    hvd_trouble_events(p);
    action.value = write.value = hash_status(p);
    /* These events came with the same status before, which another writer has undone, or refused.
     */
    if (hvd_contest_is_repeated(p, &write) ||
        (unwritten && p->is_carried_out && unwritten->value == action.value))
        drop_events(p->plan, false);
    if (!hvd_contest_admit(p, &write) || p->is_held_untold) {
        drop_events(p->plan, false);
        return;
    }
    if (unwritten)
        report_unwritten(p, unwritten);
    add_status(p, &action);
    /* Events that depend on the status come after it. */
    if (unwritten && !p->is_carried_out)
        hvd_plan_defer_events(p->plan);
}

static hvd_status_t prepare(struct hvd_pass *p)
{
    hvd_status_t st;

    find_children(p);
    hvd_mark_find(p);
    st = hvd_pods_collect(p->view, &p->owners, &p->pods);
    if (!st)
        st = hvd_job_status_copy(&p->job->status, &p->next);
    p->next.is_inexact = false; /* it will be written */
    return st;
}

static bool is_view(const struct hvd_view *view)
{
    return view->job && view->job->name && view->job->namespace && view->job->uid &&
           view->job->resource_version;
}

/* Whether the job's children are to outlive it, because it is deleted with --cascade=orphan: the
 * garbage collector removes their owner references, and the job no longer owns them. */
static bool is_let_go(const struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    bool is_orphaned = job && hvd_owner_is_lost(p->job, job);

    for (size_t i = 0; i < p->job->spec.n_groups; i++)
        is_orphaned =
            is_orphaned || (p->owners.sets[i] && hvd_owner_is_lost(p->job, p->owners.sets[i]));
    return p->job->is_deleting &&
           (is_orphaned || hvd_finalizers_has(p->job->finalizers, HVD_FINALIZER_ORPHAN));
}

/* Reports a failed read that the pass needs. The job waits for it, except for its deadline. */
static void wait_for_read(struct hvd_pass *p, bool has_spec)
{
    hvd_look_report(p);
    if (!p->unread || p->plan->n_actions > 0)
        return;
    hvd_deadline_ends_waiting(p, has_spec);
    write_status(p);
}

static void act(struct hvd_pass *p)
{
    if (hvd_look_for_missing(p)) {
        wait_for_read(p, true);
        return;
    }
    if (hvd_job_is_finished(&p->job->status)) {
        hvd_outcome_clean(p);
        if (!p->job->is_deleting)
            hvd_labels_restore_owners(p);
        hvd_contest_report(p);
    } else {
        decide(p);
    }
    hvd_terminating_report(p);
    write_status(p);
    if (hvd_refusal_is_leaving(p))
        drop_events(p->plan, true);
}

/* Requests the spec, without which the pass decided nothing that counts, or waits to retry. */
static void read_spec(struct hvd_pass *p)
{
    const struct hvd_action action = {.type = HVD_ACTION_READ_SPEC, .kind = HVD_KIND_HOROVODJOB};

    if (p->st)
        return;
    if (hvd_look_is_put_off(p, HVD_KIND_HOROVODJOB, p->job->name))
        wait_for_read(p, false);
    else
        p->st = hvd_plan_add(p->plan, &action, p->job->namespace, p->job->name);
}

/* Makes one pass. HVD_INPROGRESS: it needs the spec, and must be repeated with is_specless. */
static hvd_status_t make_pass(const struct hvd_view *view, int64_t now_ms, bool is_specless,
                              struct hvd_plan *out)
{
    struct hvd_pass p = {.now_ms = now_ms, .now_s = now_ms / 1000, .plan = out};
    struct hvd_job job = *view->job; /* owns nothing */
    struct hvd_scaling scaling;

    hvd_job_status_bound(&job.status, job.created_s, p.now_s);
    p.view = hvd_scaling_hold(view, &job, &scaling);
    p.job = &job;
    p.deferred = scaling.text;
    p.st = prepare(&p);
    if (is_specless) {
        read_spec(&p);
    } else {
        take_suspension(&p, &job.status);
        if (!p.st && !is_let_go(&p))
            act(&p);
    }
    cJSON_Delete(p.spec);
    cJSON_Delete(p.hosts_data);
    cJSON_Delete(p.all_hosts_data);
    hvd_pods_fini(&p.pods);
    hvd_job_status_fini(&p.next);
    hvd_free(p.end_message);
    return p.st;
}

hvd_status_t hvd_reconcile(const struct hvd_view *view, int64_t now_ms, struct hvd_plan *out,
                           struct hvd_err *err)
{
    hvd_status_t st;

    if (!is_view(view))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "reconcile: a view without a decoded job");
    if (view->job->spec.is_foreign)
        return HVD_OK;
    st = make_pass(view, now_ms, false, out);
    if (st == HVD_INPROGRESS) {
        const int64_t wake_at_ms = out->wake_at_ms;

        hvd_plan_fini(out);
        st = make_pass(view, now_ms, true, out);
        if (wake_at_ms)
            hvd_plan_wake(out, wake_at_ms);
    }
    if (st) {
        hvd_plan_fini(out);
        return HVD_FAIL(err, st, 0, "HorovodJob %s/%s: %s", view->job->namespace, view->job->name,
                        hvd_status_str(st));
    }
    return HVD_OK;
}
