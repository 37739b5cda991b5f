/*
 * Pods: made by the controllers of StatefulSets and Jobs, run by kubelets.
 */
#include "tests/fake/apiserver/pods.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/write.h"

#define ADOPTED_MAX 64 /* pods above the count, of a set that was larger */

#define ANNOTATION "fake.horovod.io/play"

enum stage { STAGE_NEW, STAGE_BOUND, STAGE_RUNNING, STAGE_ENDED, STAGE_ENDING };

/* ---- the script ---- */

static const struct fake_object *horovodjob_of(struct fake_server *server,
                                               const struct fake_object *pod)
{
    const char *name =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(pod->now->labels, HVD_LABEL_JOB));

    return name ? fake_find(&server->store, fake_kind_named("horovod.io/v1beta1", "HorovodJob"),
                            fake_meta(pod, "namespace"), name)
                : NULL;
}

/* A copy of what the job's annotation or else the configuration says about key; NULL: nothing. */
static cJSON *look_up(struct fake_server *server, const struct fake_object *pod, const char *key)
{
    const struct fake_object *job = horovodjob_of(server, pod);
    const cJSON *annotations = job ? hvd_json_at(job->now->doc, "metadata.annotations") : NULL;
    const char *text = cJSON_GetStringValue((cJSON *)hvd_json_get(annotations, ANNOTATION));
    cJSON *script = text ? cJSON_Parse(text) : NULL;
    const cJSON *item = hvd_json_get(script, key);
    cJSON *copy;

    if (!item)
        item = hvd_json_get(server->play.script, key);
    copy = item ? fake_must(cJSON_Duplicate(item, true)) : NULL;
    cJSON_Delete(script);
    return copy;
}

static int64_t look_up_us(struct fake_server *server, const struct fake_object *pod,
                          const char *key)
{
    cJSON *item = look_up(server, pod, key);
    int64_t us = cJSON_IsNumber(item) ? (int64_t)(item->valuedouble * 1000) : 0;

    cJSON_Delete(item);
    return us;
}

/* Which attempt of its HorovodJob a pod of a Job is, from 1. */
static int attempt_of(struct fake_server *server, const struct fake_object *pod)
{
    const cJSON *ref =
        cJSON_GetArrayItem(hvd_json_at(pod->now->doc, "metadata.ownerReferences"), 0);
    const char *name = hvd_json_str(ref, "name");
    const struct fake_object *job =
        name ? fake_find(&server->store, fake_kind_named("batch/v1", "Job"),
                         fake_meta(pod, "namespace"), name)
             : NULL;
    const cJSON *annotations = job ? hvd_json_at(job->now->doc, "metadata.annotations") : NULL;
    const char *text =
        cJSON_GetStringValue((cJSON *)hvd_json_get(annotations, HVD_ANNOTATION_ATTEMPT));
    int attempt = text ? (int)strtol(text, NULL, 10) : 1;

    return attempt > 0 ? attempt : 1;
}

static int exit_code_of(struct fake_server *server, const struct fake_object *pod)
{
    cJSON *codes = look_up(server, pod, "exit_codes");
    int n = cJSON_GetArraySize(codes);
    int place = attempt_of(server, pod) - 1;
    const cJSON *code = cJSON_GetArrayItem(codes, place < n ? place : n - 1);
    int value = cJSON_IsNumber(code) ? code->valueint : 0;

    cJSON_Delete(codes);
    return value;
}

/* ---- kubelets ---- */

static void now_text(char out[32])
{
    time_t now = fake_unix_s();
    struct tm tm;

    (void)gmtime_r(&now, &tm);
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void set_condition(cJSON *status, const char *type, const char *value, const char *reason)
{
    cJSON *list = fake_array_at(status, "conditions");
    cJSON *found = NULL;
    cJSON *item = NULL;
    char now[32];

    cJSON_ArrayForEach(item, list)
    {
        const char *name = hvd_json_str(item, "type");

        if (name && strcmp(name, type) == 0)
            found = item;
    }
    now_text(now);
    if (!found) {
        found = fake_must(cJSON_CreateObject());
        fake_set_str(found, "type", type);
        (void)cJSON_AddItemToArray(list, found);
    }
    fake_set_str(found, "status", value);
    fake_set_str(found, "lastTransitionTime", now);
    if (reason)
        fake_set_str(found, "reason", reason);
}

static const char *container_name(const cJSON *doc)
{
    const char *name =
        hvd_json_str(cJSON_GetArrayItem(hvd_json_at(doc, "spec.containers"), 0), "name");

    return name ? name : "main";
}

/* The status of the first container, its state empty. */
static cJSON *new_container(cJSON *doc, bool is_ready)
{
    cJSON *status = fake_object_at(doc, "status");
    cJSON *list = fake_must(cJSON_CreateArray());
    cJSON *container = fake_must(cJSON_CreateObject());

    fake_set_str(container, "name", container_name(doc));
    fake_set(container, "ready", cJSON_CreateBool(is_ready));
    fake_set(container, "started", cJSON_CreateBool(is_ready));
    fake_set_int(container, "restartCount", 0);
    fake_set_str(container, "image", "image");
    fake_set_str(container, "imageID", "image");
    (void)cJSON_AddItemToArray(list, container);
    fake_set(status, "containerStatuses", list);
    return fake_object_at(container, "state");
}

static void bind(struct fake_server *server, cJSON *doc)
{
    int64_t n_nodes = hvd_json_int(server->play.script, "nodes", 1);
    char node[32];

    (void)snprintf(node, sizeof(node), "node-%" PRIu64,
                   server->play.next_node++ % (uint64_t)(n_nodes > 0 ? n_nodes : 1));
    fake_set_str(fake_object_at(doc, "spec"), "nodeName", node);
    set_condition(fake_object_at(doc, "status"), "PodScheduled", "True", NULL);
}

static void start(struct fake_server *server, cJSON *doc)
{
    cJSON *status = fake_object_at(doc, "status");
    char now[32], address[32];

    now_text(now);
    (void)snprintf(address, sizeof(address), "10.%d.%d.%d", (int)(server->store.number >> 16 & 255),
                   (int)(server->store.number >> 8 & 255), (int)(server->store.number & 255));
    fake_set_str(status, "phase", "Running");
    fake_set_str(status, "podIP", address);
    fake_set_str(status, "hostIP", "192.0.2.1");
    fake_set_str(status, "startTime", now);
    set_condition(status, "Initialized", "True", NULL);
    set_condition(status, "ContainersReady", "True", NULL);
    set_condition(status, "Ready", "True", NULL);
    fake_set_str(fake_object_at(new_container(doc, true), "running"), "startedAt", now);
}

static void finish(struct fake_server *server, const struct fake_object *pod, cJSON *doc)
{
    cJSON *status = fake_object_at(doc, "status");
    cJSON *message = look_up(server, pod, "message");
    cJSON *reason = look_up(server, pod, "reason");
    int code = exit_code_of(server, pod);
    cJSON *terminated;
    char now[32];

    now_text(now);
    fake_set_str(status, "phase", code ? "Failed" : "Succeeded");
    set_condition(status, "ContainersReady", "False", code ? "PodFailed" : "PodCompleted");
    set_condition(status, "Ready", "False", code ? "PodFailed" : "PodCompleted");
    terminated = fake_object_at(new_container(doc, false), "terminated");
    fake_set_int(terminated, "exitCode", code);
    fake_set_str(terminated, "reason",
                 !code                    ? "Completed"
                 : cJSON_IsString(reason) ? reason->valuestring
                                          : "Error");
    fake_set_str(terminated, "startedAt", now);
    fake_set_str(terminated, "finishedAt", now);
    if (cJSON_IsString(message))
        fake_set_str(terminated, "message", message->valuestring);
    cJSON_Delete(message);
    cJSON_Delete(reason);
}

static bool runs_to_an_end(const struct fake_object *pod)
{
    const char *kind = hvd_json_str(
        cJSON_GetArrayItem(hvd_json_at(pod->now->doc, "metadata.ownerReferences"), 0), "kind");

    return kind && strcmp(kind, "Job") == 0;
}

/* One step of the pod's life. */
static void on_kubelet(void *ctx)
{
    static const char *const names[] = {[STAGE_NEW] = "bound",
                                        [STAGE_BOUND] = "ready",
                                        [STAGE_RUNNING] = "ended",
                                        [STAGE_ENDED] = "",
                                        [STAGE_ENDING] = "gone"};
    struct fake_object *pod = ctx;
    struct fake_server *server = pod->world;
    cJSON *doc;

    fake_record_play(&server->records, pod->key, names[pod->stage]);
    if (pod->stage == STAGE_ENDING) {
        fake_remove(&server->store, pod);
        return;
    }
    doc = fake_must(cJSON_Duplicate(pod->now->doc, true));
    if (pod->stage == STAGE_NEW)
        bind(server, doc);
    else if (pod->stage == STAGE_BOUND)
        start(server, doc);
    else
        finish(server, pod, doc);
    pod->stage++;
    (void)fake_update(&server->store, pod, doc, FAKE_PART_BOTH);
}

void fake_pod_work(struct fake_server *server, struct fake_object *pod)
{
    static const char *const delays[] = {
        [STAGE_NEW] = "schedule_ms", [STAGE_BOUND] = "ready_ms", [STAGE_RUNNING] = "run_ms"};
    const cJSON *kubelet = hvd_json_get(server->play.script, "kubelet");
    int64_t delay_us;

    pod->world = server;
    pod->timer.fire = on_kubelet;
    pod->timer.ctx = pod;
    if (*fake_meta(pod, "deletionTimestamp") && pod->stage != STAGE_ENDING) {
        delay_us = look_up_us(server, pod, "terminate_ms");
        pod->stage = STAGE_ENDING;
        if (delay_us >= 0)
            fake_timer_start(&server->timers, &pod->timer, delay_us);
        return;
    }
    if (cJSON_IsFalse(kubelet) || pod->timer.place || pod->stage >= STAGE_ENDED ||
        (pod->stage == STAGE_RUNNING && !runs_to_an_end(pod)))
        return;
    delay_us = look_up_us(server, pod, delays[pod->stage]);
    if (delay_us >= 0)
        fake_timer_start(&server->timers, &pod->timer, delay_us);
}

/* ---- what controllers share ---- */

static const char *phase_of(const struct fake_object *pod)
{
    const char *phase = hvd_json_str(pod->now->doc, "status.phase");

    return phase ? phase : "";
}

static bool is_over(const struct fake_object *pod)
{
    return strcmp(phase_of(pod), "Succeeded") == 0 || strcmp(phase_of(pod), "Failed") == 0;
}

static bool is_ready(const struct fake_object *pod)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(pod->now->doc, "status.conditions"))
    {
        const char *type = hvd_json_str(item, "type");
        const char *status = hvd_json_str(item, "status");

        if (type && status && strcmp(type, "Ready") == 0)
            return strcmp(status, "True") == 0;
    }
    return false;
}

static bool is_going(const struct fake_object *object)
{
    return *fake_meta(object, "deletionTimestamp") != '\0';
}

/* The reference of a controller to what it owns. */
static void own(cJSON *meta, const struct fake_object *owner)
{
    cJSON *reference = fake_must(cJSON_CreateObject());

    fake_set_str(reference, "apiVersion", owner->kind->api_version);
    fake_set_str(reference, "kind", owner->kind->name);
    fake_set_str(reference, "name", owner->name);
    fake_set_str(reference, "uid", fake_meta(owner, "uid"));
    fake_set(reference, "controller", cJSON_CreateTrue());
    fake_set(reference, "blockOwnerDeletion", cJSON_CreateTrue());
    (void)cJSON_AddItemToArray(fake_array_at(meta, "ownerReferences"), reference);
}

/* A pod document from the owner's template. */
static cJSON *new_pod(const struct fake_object *owner, const char *name)
{
    const cJSON *template = hvd_json_at(owner->now->doc, "spec.template");
    cJSON *doc =
        template ? fake_must(cJSON_Duplicate(template, true)) : fake_must(cJSON_CreateObject());
    cJSON *meta = fake_object_at(doc, "metadata");

    fake_set_str(meta, "name", name);
    fake_set_str(meta, "namespace", fake_meta(owner, "namespace"));
    own(meta, owner);
    fake_set_str(fake_object_at(doc, "status"), "phase", "Pending");
    return doc;
}

static const struct fake_kind *pods(void)
{
    static const struct fake_kind *kind;

    if (!kind)
        kind = fake_kind_named("v1", "Pod");
    return kind;
}

/* ---- StatefulSets ---- */

static void make_worker(struct fake_server *server, const struct fake_object *set, const char *name)
{
    cJSON *doc = new_pod(set, name);
    const char *service = hvd_json_str(set->now->doc, "spec.serviceName");
    cJSON *labels = fake_object_at(fake_object_at(doc, "metadata"), "labels");
    cJSON *spec = fake_object_at(doc, "spec");

    fake_set_str(labels, "statefulset.kubernetes.io/pod-name", name);
    fake_set_str(labels, "apps.kubernetes.io/pod-index", strrchr(name, '-') + 1);
    fake_set_str(labels, "controller-revision-hash", "1");
    fake_set_str(spec, "hostname", name);
    if (service)
        fake_set_str(spec, "subdomain", service);
    (void)fake_create(&server->store, pods(), doc);
}

static void report_set(struct fake_server *server, struct fake_object *set)
{
    struct fake_object *pod = NULL;
    int n = 0, n_ready = 0;
    cJSON *doc = fake_must(cJSON_Duplicate(set->now->doc, true));
    cJSON *status = fake_object_at(doc, "status");

    DL_FOREACH(fake_children(&server->store, fake_meta(set, "uid")), pod)
    {
        n++;
        n_ready += is_ready(pod) ? 1 : 0;
    }
    fake_set_int(status, "observedGeneration",
                 hvd_json_int(set->now->doc, "metadata.generation", 0));
    fake_set_int(status, "replicas", n);
    fake_set_int(status, "currentReplicas", n);
    fake_set_int(status, "updatedReplicas", n);
    fake_set_int(status, "readyReplicas", n_ready);
    fake_set_int(status, "availableReplicas", n_ready);
    (void)fake_update(&server->store, set, doc, FAKE_PART_BOTH);
}

static bool is_selected(const struct fake_object *set, const struct fake_object *pod)
{
    const cJSON *wanted = hvd_json_at(set->now->doc, "spec.selector.matchLabels");
    const cJSON *label = NULL;

    cJSON_ArrayForEach(label, wanted)
    {
        if (!cJSON_Compare(hvd_json_get(pod->now->labels, label->string), label, true))
            return false;
    }
    return wanted != NULL;
}

/* A set lets go of a pod that it does not select any more, and takes one that nobody has. */
static void claim(struct fake_server *server, const struct fake_object *set,
                  struct fake_object *pod)
{
    const bool has_owner =
        cJSON_GetArraySize(hvd_json_at(pod->now->doc, "metadata.ownerReferences")) > 0;
    const bool is_mine = pod->owner && strcmp(pod->owner->uid, fake_meta(set, "uid")) == 0;
    cJSON *doc, *meta;

    if (is_going(pod) || is_selected(set, pod) == has_owner || (has_owner && !is_mine))
        return;
    doc = fake_must(cJSON_Duplicate(pod->now->doc, true));
    meta = fake_object_at(doc, "metadata");
    if (has_owner)
        cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
    else
        own(meta, set);
    (void)fake_update(&server->store, pod, doc, FAKE_PART_BOTH);
}

void fake_set_work(struct fake_server *server, struct fake_object *set)
{
    int64_t replicas = hvd_json_int(set->now->doc, "spec.replicas", 1);
    struct fake_object *pod, *next;
    char name[300];

    for (int64_t i = 0; i < replicas || i < ADOPTED_MAX; i++) {
        (void)snprintf(name, sizeof(name), "%s-%" PRId64, set->name, i);
        pod = fake_find(&server->store, pods(), fake_meta(set, "namespace"), name);
        if (pod)
            claim(server, set, pod);
    }
    for (int64_t i = 0; i < replicas; i++) {
        (void)snprintf(name, sizeof(name), "%s-%" PRId64, set->name, i);
        pod = fake_find(&server->store, pods(), fake_meta(set, "namespace"), name);
        if (!pod)
            make_worker(server, set, name);
        else if (is_over(pod) && !is_going(pod) && pod->owner &&
                 strcmp(pod->owner->uid, fake_meta(set, "uid")) == 0)
            fake_delete(server, pod, "Background");
    }
    DL_FOREACH_SAFE(fake_children(&server->store, fake_meta(set, "uid")), pod, next)
    {
        const char *dash = strrchr(pod->name, '-');

        if (dash && strtol(dash + 1, NULL, 10) >= replicas && !is_going(pod))
            fake_delete(server, pod, "Background");
    }
    report_set(server, set);
}

/* ---- Jobs ---- */

static void make_master(struct fake_server *server, struct fake_object *job)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    uint64_t x = (server->store.n_uids + 1) * 2862933555777941757u + 3037000493u;
    char name[300], tail[6] = "";
    cJSON *doc, *labels;

    for (int i = 0; i < 5; i++) {
        tail[i] = letters[(x >> 40) % (sizeof(letters) - 1)];
        x = x * 2862933555777941757u + 3037000493u;
    }
    (void)snprintf(name, sizeof(name), "%s-%s", job->name, tail);
    doc = new_pod(job, name);
    labels = fake_object_at(fake_object_at(doc, "metadata"), "labels");
    fake_set_str(labels, "job-name", job->name);
    fake_set_str(labels, "batch.kubernetes.io/job-name", job->name);
    fake_set_str(labels, "controller-uid", fake_meta(job, "uid"));
    fake_set_str(labels, "batch.kubernetes.io/controller-uid", fake_meta(job, "uid"));
    (void)fake_create(&server->store, pods(), doc);
}

static bool has_ended(const struct fake_object *job)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(job->now->doc, "status.conditions"))
    {
        const char *type = hvd_json_str(item, "type");

        if (type && (strcmp(type, "Complete") == 0 || strcmp(type, "Failed") == 0))
            return true;
    }
    return false;
}

struct tally {
    int active, ready, succeeded, failed, gone;
};

static struct tally count_pods(struct fake_server *server, const struct fake_object *job)
{
    struct tally t = {0};
    struct fake_object *pod = NULL;

    DL_FOREACH(fake_children(&server->store, fake_meta(job, "uid")), pod)
    {
        if (strcmp(phase_of(pod), "Succeeded") == 0)
            t.succeeded++;
        else if (strcmp(phase_of(pod), "Failed") == 0)
            t.failed++;
        else if (!is_going(pod))
            t.active++;
        if (!is_over(pod) && is_ready(pod))
            t.ready++;
    }
    /* its pod was made and is no more: deleted before it ended */
    t.gone = job->stage && !t.active && !t.succeeded && !t.failed;
    return t;
}

static void report_job(struct fake_server *server, struct fake_object *job, const struct tally *t)
{
    cJSON *doc = fake_must(cJSON_Duplicate(job->now->doc, true));
    cJSON *status = fake_object_at(doc, "status");
    char now[32];

    now_text(now);
    if (!hvd_json_str(status, "startTime"))
        fake_set_str(status, "startTime", now);
    fake_set_int(status, "active", t->active);
    fake_set_int(status, "ready", t->ready);
    fake_set_int(status, "succeeded", t->succeeded);
    fake_set_int(status, "failed", t->failed + t->gone);
    if (t->succeeded) {
        set_condition(status, "SuccessCriteriaMet", "True", "CompletionsReached");
        set_condition(status, "Complete", "True", "CompletionsReached");
        fake_set_str(status, "completionTime", now);
    } else if (t->failed + t->gone > hvd_json_int(doc, "spec.backoffLimit", 6)) {
        set_condition(status, "FailureTarget", "True", "BackoffLimitExceeded");
        set_condition(status, "Failed", "True", "BackoffLimitExceeded");
    }
    (void)fake_update(&server->store, job, doc, FAKE_PART_BOTH);
}

static void stop_pods(struct fake_server *server, const struct fake_object *job)
{
    struct fake_object *pod, *next;

    DL_FOREACH_SAFE(fake_children(&server->store, fake_meta(job, "uid")), pod, next)
    {
        if (!is_going(pod) && !is_over(pod))
            fake_delete(server, pod, "Background");
    }
}

void fake_job_work(struct fake_server *server, struct fake_object *job)
{
    struct tally t;

    if (has_ended(job))
        return;
    if (hvd_json_true(job->now->doc, "spec.suspend")) {
        stop_pods(server, job);
        job->stage = 0;
        return;
    }
    t = count_pods(server, job);
    if (!t.active && !t.succeeded &&
        t.failed + t.gone <= hvd_json_int(job->now->doc, "spec.backoffLimit", 6)) {
        make_master(server, job);
        job->stage = 1;
        t.active = 1;
        t.gone = 0;
    }
    report_job(server, job, &t);
}
