/*
 * The children of a job that is to run: created when missing, repaired when they differ. The
 * operator never touches foreign objects. It replaces the template of a StatefulSet only while the
 * set has no pods: a running job never gets workers of two kinds. Pure.
 */
#include "operator/core/ensure/ensure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/attempt/loss.h"
#include "operator/core/children/children.h"
#include "operator/core/children/gang.h"
#include "operator/core/children/gpus.h"
#include "operator/core/children/hosts.h"
#include "operator/core/children/owner.h"
#include "operator/core/children/patch.h"
#include "operator/core/ensure/admit.h"
#include "operator/core/ensure/fields.h"
#include "operator/core/ensure/held.h"
#include "operator/core/ensure/list.h"
#include "operator/core/launch/launch.h"
#include "operator/core/obstacles/occupied.h"
#include "operator/core/obstacles/trace.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/settings.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"
#include "operator/core/writes/write.h"

#define MESSAGE_SIZE 1024
#define TOLD_SIZE 64
#define TOLD_AGAIN_MS 1000
#define TOLD_TWICE 2

/* A child of the job and its state. */
struct child {
    enum hvd_kind kind;
    size_t group; /* of a StatefulSet */
    enum hvd_child_state state;
    const struct hvd_object *object;
    char name[HVD_CHILD_NAME_MAX];
};

static struct child find(const struct hvd_pass *p, enum hvd_kind kind)
{
    struct child child = {.kind = kind, .state = hvd_pass_child(p, kind), .object = p->child[kind]};

    hvd_children_name(p->job, kind, child.name);
    return child;
}

static struct child find_set(const struct hvd_pass *p, size_t group)
{
    struct child child = {.kind = HVD_KIND_STATEFULSET,
                          .group = group,
                          .state = hvd_pass_set(p, group),
                          .object = p->owners.sets[group]};

    hvd_children_group_name(p->job, group, child.name);
    return child;
}

static void report_alien(struct hvd_pass *p, const struct child *child)
{
    char message[MESSAGE_SIZE];

    hvd_text_format(message, sizeof(message),
                    "%s %s/%s exists and is not controlled by this HorovodJob: it is left alone; "
                    "remove it, or give the job another name",
                    hvd_kind_info(child->kind)->kind, p->job->namespace, child->name);
    hvd_trouble_report(p, HVD_REASON_CONFLICT, message);
}

static void report_denied(struct hvd_pass *p, const struct child *child)
{
    const struct hvd_failure *failure = hvd_pass_failure(p, child->kind, child->name);
    char message[MESSAGE_SIZE];

    if (!failure || failure->type != HVD_FAILURE_DENIED || !hvd_refusal_is_told(failure))
        return;
    p->is_denied = true;
    hvd_text_format(message, sizeof(message), "%s %s cannot be made, will be tried again: %s",
                    hvd_kind_info(child->kind)->kind, failure->name,
                    failure->message ? failure->message : "forbidden");
    hvd_trouble_report(p, "Denied", message);
}

static bool is_any_denied(const struct hvd_pass *p)
{
    bool is = false;

    for (size_t i = 0; i < p->view->n_failures; i++)
        is = is || p->view->failures[i].type == HVD_FAILURE_DENIED ||
             p->view->failures[i].type == HVD_FAILURE_LEAVING;
    return is;
}

static void told_text(uint64_t hash, int stage, int64_t at_ms, char out[TOLD_SIZE])
{
    (void)snprintf(out, TOLD_SIZE, "%016" PRIx64 "-%d-%" PRId64, hash, stage, at_ms);
}

/* Whether a ConfigMap can hold the list; NULL, after a failure, does not fit. */
static bool fits(struct hvd_pass *p, const cJSON *data)
{
    size_t size = hvd_hosts_size(data);

    if (size > HVD_HOSTS_MAX_BYTES) {
        p->too_long = size;
        p->is_blocked = true;
        return false;
    }
    return data != NULL;
}

/* One event per group and attempt. */
static void report_slots(struct hvd_pass *p, const struct hvd_child_inputs *in)
{
    char message[MESSAGE_SIZE], key[HVD_CHILD_NAME_MAX];
    const struct hvd_event event = {
        .reason = "SlotsAssumed", .message = message, .is_warning = true, .key = key};

    if (p->st || !hvd_gpus_are_uncounted(in, message, sizeof(message)))
        return;
    hvd_children_group_name(p->job, in->group, key);
    p->st = hvd_plan_event(p->plan, p->job, &event, p->now_s);
}

static void create(struct hvd_pass *p, const struct child *child)
{
    const struct hvd_write write = {child->kind, child->name, hvd_repair_of_existence(child->kind),
                                    HVD_REPAIR_PRESENT};
    struct hvd_action action = {.type = HVD_ACTION_CREATE,
                                .kind = child->kind,
                                .repair = write.repair,
                                .value = write.value};
    struct hvd_child_inputs in = {.job = p->job,
                                  .group = child->group,
                                  .n_ranks =
                                      hvd_hosts_slots(p->job, p->pods.ready, p->pods.n_ready),
                                  .attempt = hvd_job_ended(&p->job->status) + 1,
                                  .settings = p->view->settings};
    char told[TOLD_SIZE];

    if (hvd_refusal_of_namespace(p))
        return;
    report_denied(p, child);
    if (p->st || !hvd_contest_admit(p, &write))
        return;
    if (child->kind == HVD_KIND_CONFIGMAP && !fits(p, in.hosts_data = hvd_list_all(p)))
        return;
    if (child->kind == HVD_KIND_JOB) {
        told_text(hvd_hosts_hash(hvd_list_ready(p)), TOLD_TWICE, 0, told);
        in.hosts_seen = told;
        in.workers_hash = hvd_loss_workers_hash(p);
    }
    in.spec = hvd_pass_spec(p);
    /* The set's pods mount the Secret and the ConfigMap, and kubelets retry a failed mount late.
     * While a write is denied, one request is enough to find out whether it still is. */
    action.waits = child->kind == HVD_KIND_STATEFULSET || is_any_denied(p);
    if (action.waits && p->is_child_held)
        return;
    if (child->kind == hvd_launch_of(p->job)->child)
        action.type = HVD_ACTION_CREATE_SECRET;
    else if (!p->st)
        p->st = hvd_children_encode(child->kind, &in, &action.body, NULL);
    if (!p->st)
        p->st = hvd_plan_add(p->plan, &action, p->job->namespace, child->name);
    if (child->kind == HVD_KIND_STATEFULSET)
        report_slots(p, &in);
}

/* Begins a merge patch of the object at its known version. */
static cJSON *merge_patch(struct hvd_jb *jb, const struct hvd_object *object)
{
    cJSON *root = hvd_jb_root(jb);

    hvd_patch_expect(jb, hvd_jb_object(jb, root, "metadata"), &object->meta);
    return root;
}

/* Sends a merge patch, and deletes it. */
static void send_patch(struct hvd_pass *p, struct hvd_jb *jb, const struct hvd_object *object,
                       cJSON *root, const struct hvd_patch *what)
{
    struct hvd_patch patch = *what;

    patch.body = hvd_jb_print(jb, root);
    cJSON_Delete(root);
    hvd_write_patch(p, object, &patch);
}

/*
 * Replaces the value at the path by root["value"], and deletes root. The value is constant. A merge
 * patch could not remove what others added there.
 */
static void replace(struct hvd_pass *p, struct hvd_jb *jb, const struct hvd_object *object,
                    cJSON *root, const char *path, enum hvd_repair repair)
{
    struct hvd_patch patch = {.repair = repair, .is_json_patch = true};
    cJSON *steps = hvd_jb_array(jb, root, "steps");

    hvd_patch_expect_steps(jb, steps, &object->meta);
    hvd_jb_copy(jb, hvd_patch_step(jb, steps, "add", path), "value", hvd_json_get(root, "value"));
    patch.body = hvd_jb_print(jb, steps);
    cJSON_Delete(root);
    hvd_write_patch(p, object, &patch);
}

static void repair_service(struct hvd_pass *p, const struct hvd_object *service)
{
    struct hvd_jb jb = {0};
    cJSON *root, *selector;

    if (hvd_fields_repair_service(p, service))
        return;
    if (!p->st && !service->u.service.publishes_not_ready) {
        root = hvd_jb_root(&jb);
        hvd_jb_bool(&jb, root, "value", true);
        replace(p, &jb, service, root, "/spec/publishNotReadyAddresses", HVD_REPAIR_UNREADY);
    }
    if (!p->st && !service->u.service.selects_job) {
        root = hvd_jb_root(&jb);
        selector = hvd_jb_object(&jb, root, "value");
        hvd_jb_str(&jb, selector, HVD_LABEL_MANAGED_BY, HVD_MANAGER);
        hvd_jb_str(&jb, selector, HVD_LABEL_JOB, p->job->name);
        replace(p, &jb, service, root, "/spec/selector", HVD_REPAIR_SELECTOR);
    }
}

/* With another strategy a changed template would replace the workers of a running job. */
static void repair_strategy(struct hvd_pass *p, const struct hvd_object *set)
{
    struct hvd_jb jb = {0};
    cJSON *root;

    if (p->st || set->u.statefulset.is_on_delete)
        return;
    root = hvd_jb_root(&jb);
    hvd_jb_str(&jb, hvd_jb_object(&jb, root, "value"), "type", "OnDelete");
    replace(p, &jb, set, root, "/spec/updateStrategy", HVD_REPAIR_STRATEGY);
}

static void ensure_replicas(struct hvd_pass *p, const struct hvd_object *set, int32_t replicas)
{
    const struct hvd_patch patch = {.repair = HVD_REPAIR_REPLICAS, .value = (uint64_t)replicas};
    struct hvd_jb jb = {0};
    cJSON *root;

    if (p->st || set->u.statefulset.replicas == replicas)
        return;
    p->is_rescaled = true;
    root = merge_patch(&jb, set);
    hvd_jb_int(&jb, hvd_jb_object(&jb, root, "spec"), "replicas", replicas);
    send_patch(p, &jb, set, root, &patch);
}

/* Whether the set belongs to a group of the spec. */
static bool is_wanted(const struct hvd_pass *p, const struct hvd_object *set)
{
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        if (p->owners.sets[i] == set)
            return true;
    }
    return false;
}

/* Removes sets of groups that the spec no longer has. */
static void remove_unwanted(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind == HVD_KIND_STATEFULSET && hvd_pass_is_ours(p, object) &&
            !object->meta.is_deleting && !is_wanted(p, object))
            hvd_write_delete(p, object);
    }
}

bool hvd_ensure_no_workers(struct hvd_pass *p)
{
    bool is_down = true;

    remove_unwanted(p);
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct hvd_object *set = p->owners.sets[i];
        enum hvd_child_state state = hvd_pass_set(p, i);

        if (state == HVD_CHILD_WAIT)
            is_down = false;
        if (state != HVD_CHILD_OURS || set->u.statefulset.replicas == 0)
            continue;
        is_down = false;
        ensure_replicas(p, set, 0);
    }
    return is_down;
}

/* Starts a set without pods again, with the current template, which may have changed meanwhile. */
static void restart_set(struct hvd_pass *p, const struct hvd_object *set, size_t group)
{
    const struct hvd_child_inputs in = {.job = p->job,
                                        .spec = hvd_pass_spec(p),
                                        .group = group,
                                        .has_hash = set->u.statefulset.spec_hash != NULL,
                                        .settings = p->view->settings};
    struct hvd_patch patch = {.repair = HVD_REPAIR_REPLICAS,
                              .value = (uint64_t)p->job->spec.groups[group].replicas,
                              .is_json_patch = true,
                              .is_template = true};

    if (!p->st)
        p->st = hvd_children_template_patch(&in, &set->meta, &patch.body, NULL);
    if (!p->st)
        hvd_write_patch(p, set, &patch);
    report_slots(p, &in);
}

/* Whether the child exists that the launch needs for master and workers to trust each other. */
static bool can_launch(const struct hvd_pass *p)
{
    return hvd_pass_child(p, hvd_launch_of(p->job)->child) == HVD_CHILD_OURS;
}

static void repair_statefulset(struct hvd_pass *p, const struct hvd_object *set, size_t group)
{
    /* Pods that precede their Secret would retry the mount late. */
    bool has_keys = can_launch(p);

    repair_strategy(p, set);
    hvd_fields_repair_set(p, set);
    if (p->st || (set->u.statefulset.replicas == 0 && !has_keys))
        return;
    /* Other sets may already have pods of the same start, if not all could be started at once. */
    if (set->u.statefulset.replicas == 0 && p->pods.n_of[group] == 0)
        restart_set(p, set, group);
    else
        ensure_replicas(p, set, p->job->spec.groups[group].replicas);
}

static void repair_group(struct hvd_pass *p, const struct hvd_object *group)
{
    const struct hvd_child_inputs in = {
        .job = p->job, .spec = hvd_pass_spec(p), .settings = p->view->settings};
    /* The spec determines its content. */
    struct hvd_patch patch = {
        .repair = HVD_REPAIR_GANG, .value = (uint64_t)p->job->generation, .is_json_patch = true};

    if (!p->st)
        p->st = hvd_gang_patch(&in, group, &patch.body, NULL);
    if (patch.body && hvd_pass_failure(p, group->kind, group->meta.name))
        p->is_denied = true;
    if (!p->st && patch.body)
        hvd_write_patch(p, group, &patch);
    p->has_no_room = p->has_no_room || group->u.podgroup.is_pending;
}

bool hvd_ensure_is_outdated(struct hvd_pass *p)
{
    const struct hvd_object *set = p->child[HVD_KIND_STATEFULSET];
    char hash[HVD_HASH_SIZE];

    /* In its first generation the job has had one spec only, even if a webhook changed the hash. */
    if (p->job->generation == p->job->status.observed_generation || p->job->generation == 1 ||
        hvd_pass_child(p, HVD_KIND_STATEFULSET) != HVD_CHILD_OURS || !set->u.statefulset.spec_hash)
        return false;
    if (hvd_pass_spec(p))
        p->st = hvd_children_spec_hash(p->spec, hash, NULL);
    return !p->st && set->u.statefulset.replicas != 0 &&
           !hvd_str_equal(hash, set->u.statefulset.spec_hash);
}

static void ensure_child(struct hvd_pass *p, const struct child *child)
{
    switch (child->state) {
    case HVD_CHILD_MISSING:
        create(p, child);
        return;
    case HVD_CHILD_ALIEN:
        report_alien(p, child);
        return;
    case HVD_CHILD_WAIT:
        return;
    case HVD_CHILD_OURS:
        break;
    }
    /* While the owner reference is missing, no other field of the object was read (shape.h). */
    if (child->kind != HVD_KIND_STATEFULSET && hvd_owner_is_lost(p->job, child->object))
        return;
    if (child->kind == HVD_KIND_SERVICE)
        repair_service(p, child->object);
    if (child->kind == HVD_KIND_STATEFULSET)
        repair_statefulset(p, child->object, child->group);
    if (child->kind == hvd_gang_kind(p->view->settings))
        repair_group(p, child->object);
}

static void ensure(struct hvd_pass *p, enum hvd_kind kind)
{
    const struct child child = find(p, kind);

    ensure_child(p, &child);
}

/* Whether new workers would mount keys or a list that are about to go, perhaps those of a deleted
 * job of this name. */
static bool is_mount_leaving(const struct hvd_pass *p)
{
    return hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_MISSING &&
           (hvd_pass_child(p, hvd_launch_of(p->job)->child) == HVD_CHILD_WAIT ||
            hvd_pass_child(p, HVD_KIND_CONFIGMAP) == HVD_CHILD_WAIT);
}

/* Whether the set exists and wants pods: it then already makes and adopts them. */
static bool has_pods_wanted(const struct child *child)
{
    return child->state == HVD_CHILD_OURS && child->object->u.statefulset.replicas > 0;
}

static void ensure_sets(struct hvd_pass *p)
{
    const bool is_early = is_mount_leaving(p);

    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct child child = find_set(p, i);

        if (child.state == HVD_CHILD_MISSING && is_early)
            continue;
        if (hvd_occupied_report(p, i) && !has_pods_wanted(&child))
            continue;
        ensure_child(p, &child);
    }
    remove_unwanted(p);
}

void hvd_ensure_children(struct hvd_pass *p)
{
    const struct hvd_settings *settings = p->view->settings;

    ensure(p, hvd_launch_of(p->job)->child);
    ensure(p, HVD_KIND_SERVICE);
    ensure(p, HVD_KIND_CONFIGMAP);
    /* A running job continues without the PodGroup if the API server does not serve that kind any
     * more. */
    if (hvd_admit_gang(p) && hvd_gang_kind(settings) != HVD_N_KINDS && !settings->is_gang_missing)
        ensure(p, hvd_gang_kind(settings));
    /* A blocked job gets no workers: they would mount a foreign Secret or list of that name. If
     * foreign pods have names of its workers, it still gets all other children. */
    if (!p->is_blocked)
        ensure_sets(p);
}

/* Whether enough workers of every group are Ready. */
static bool is_enough(const struct hvd_pass *p)
{
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        if (p->pods.n_ready_of[i] < p->job->spec.groups[i].n_enough)
            return false;
    }
    return true;
}

static bool is_published(struct hvd_pass *p)
{
    const struct hvd_object *map = p->child[HVD_KIND_CONFIGMAP];
    const cJSON *data = NULL;

    if (hvd_pass_child(p, HVD_KIND_CONFIGMAP) == HVD_CHILD_OURS)
        data = hvd_list_ready(p);
    return data && map->u.configmap.data_hash == hvd_hosts_hash(data);
}

/* The number of hosts that the list should have. */
static int32_t n_hosts(const struct hvd_pass *p)
{
    return (int32_t)p->pods.n_ready + (p->job->spec.is_master_worker ? 1 : 0);
}

void hvd_ensure_hosts(struct hvd_pass *p)
{
    const struct hvd_object *map = p->child[HVD_KIND_CONFIGMAP];
    const struct hvd_object *set = p->child[HVD_KIND_STATEFULSET];
    bool is_starting = hvd_pass_child(p, HVD_KIND_STATEFULSET) != HVD_CHILD_OURS ||
                       set->u.statefulset.replicas > 0;
    struct hvd_patch patch = {.repair = HVD_REPAIR_HOSTS};
    struct hvd_jb jb = {0};
    cJSON *root;

    /* Another writer removed the list of a job without workers: the new list begins with all of
     * them. */
    if (p->next.hosts > n_hosts(p) && p->pods.n_workers == 0 &&
        hvd_pass_child(p, HVD_KIND_CONFIGMAP) == HVD_CHILD_MISSING)
        p->next.hosts = n_hosts(p);
    if (p->st || hvd_pass_child(p, HVD_KIND_CONFIGMAP) != HVD_CHILD_OURS)
        return;
    /* A starting job has no reader of the list. It begins with all workers, so that it need not be
     * written again when they are Ready. */
    if (!is_enough(p) && p->pods.n_masters == 0 && n_hosts(p) >= p->next.hosts && is_starting)
        return;
    if (is_published(p)) {
        p->next.hosts = n_hosts(p);
        return;
    }
    if (!fits(p, hvd_list_ready(p)))
        return;
    p->is_list_frozen = map->u.configmap.is_immutable;
    if (p->is_list_frozen)
        return;
    patch.value = hvd_hosts_hash(hvd_list_ready(p));
    root = merge_patch(&jb, map);
    hvd_jb_copy(&jb, root, "data", hvd_list_ready(p));
    /* The API server rejects a file that is in data and in binaryData. */
    if (map->u.configmap.is_shadowed)
        hvd_hosts_put_removals(&jb, hvd_jb_object(&jb, root, "binaryData"));
    send_patch(p, &jb, map, root, &patch);
}

/*
 * A list that another writer made immutable cannot change any more, and kubelets do not reread it
 * while a pod on their node mounts it. The operator makes it anew while the job has no pods. A job
 * without a master that waits for its list gives up its workers for that; a running master keeps
 * the old list. True while the job must have no workers for this reason.
 */
bool hvd_ensure_list_thaws(struct hvd_pass *p)
{
    const struct hvd_object *map = p->child[HVD_KIND_CONFIGMAP];
    struct hvd_write removal = {HVD_KIND_CONFIGMAP, NULL, HVD_REPAIR_IMMUTABLE, HVD_REPAIR_ABSENT};
    bool is_down = true;

    if (p->st || hvd_pass_child(p, HVD_KIND_CONFIGMAP) != HVD_CHILD_OURS ||
        !map->u.configmap.is_immutable || hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_MISSING ||
        p->pods.n_masters > 0)
        return false;
    for (size_t i = 0; i < p->job->spec.n_groups; i++)
        is_down = is_down && (hvd_pass_set(p, i) != HVD_CHILD_OURS ||
                              p->owners.sets[i]->u.statefulset.replicas == 0);
    removal.name = map->meta.name;
    if ((!is_down && (!is_enough(p) || is_published(p))) || !hvd_contest_admit(p, &removal))
        return false;
    if (is_down && p->pods.n_workers == 0)
        hvd_write_delete_for(p, map, HVD_REPAIR_IMMUTABLE);
    return true;
}

/* The stage (0, 1, 2) that the pod's annotation records for the published list, and its time. */
static int told_stage(const char *seen, uint64_t hash, int64_t *at_ms)
{
    char *end = NULL;
    long stage;

    *at_ms = 0;
    if (!seen || strtoull(seen, &end, 16) != hash || *end != '-')
        return 0;
    stage = strtol(end + 1, &end, 10);
    if (stage < 1 || stage > TOLD_TWICE || *end != '-')
        return 0;
    *at_ms = strtoll(end + 1, NULL, 10);
    return (int)stage;
}

void hvd_ensure_master_told(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    struct hvd_jb jb = {0};
    char told[TOLD_SIZE];
    uint64_t hash;
    int64_t at_ms;
    cJSON *root;
    int stage;

    if (p->st || !pod || pod->meta.is_deleting || pod->u.pod.phase > HVD_POD_RUNNING ||
        !is_published(p))
        return;
    hash = p->child[HVD_KIND_CONFIGMAP]->u.configmap.data_hash;
    stage = told_stage(pod->u.pod.hosts_seen, hash, &at_ms);
    if (stage == TOLD_TWICE)
        return;
    if (stage == 1 && p->now_ms >= at_ms && p->now_ms < at_ms + TOLD_AGAIN_MS) {
        hvd_plan_wake(p->plan, at_ms + TOLD_AGAIN_MS);
        return;
    }
    told_text(hash, stage + 1, p->now_ms, told);
    root = merge_patch(&jb, pod);
    hvd_jb_str(&jb, hvd_jb_object(&jb, (cJSON *)hvd_json_get(root, "metadata"), "annotations"),
               HVD_ANNOTATION_HOSTS, told);
    send_patch(p, &jb, pod, root,
               &(struct hvd_patch){.repair = HVD_REPAIR_HOSTS_SEEN, .value = hash});
}

void hvd_ensure_master(struct hvd_pass *p)
{
    const struct child child = find(p, HVD_KIND_JOB);

    if (child.state == HVD_CHILD_ALIEN)
        report_alien(p, &child);
    if (child.state == HVD_CHILD_OURS) {
        hvd_held_release(p, child.object);
        hvd_fields_repair_job(p, child.object);
    }
    /* Without the Secret that the workers were made with, the master could not reach them. */
    if (child.state == HVD_CHILD_MISSING && p->pods.n_masters == 0 && is_enough(p) &&
        is_published(p) && can_launch(p) && !hvd_trace_asks_first(p))
        create(p, &child);
}
