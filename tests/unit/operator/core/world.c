/*
 * A cluster in memory for tests of reconcile: see world.h. Objects are cJSON, changed by cJSON's
 * own merge and JSON patches; the operator sees them through hvd_job_decode and hvd_observe only.
 */
#include "tests/unit/support.h"

#include "tests/unit/operator/core/world_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/children/children.h"
#include "operator/core/observe/observe.h"
#include "operator/core/reconcile.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/repair.h"

#define MAX_ROUNDS 200

void world_stamp(struct world *w, cJSON *object, bool is_new)
{
    struct hvd_jb jb = {0};
    cJSON *meta = hvd_jb_ensure_object(&jb, object, "metadata");
    char time[HVD_RFC3339_SIZE];

    w->serial++;
    if (is_new) {
        hvd_jb_fmt(&jb, meta, "uid", "uid-%d", w->serial);
        hvd_rfc3339_format(w->now_ms / 1000, time);
        hvd_jb_str(&jb, meta, "creationTimestamp", time);
    }
    hvd_jb_fmt(&jb, meta, "resourceVersion", "%d", w->serial);
    assert_false(jb.failed);
}

/* RFC 7386, into target. */
static void merge(cJSON *target, const cJSON *patch)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, patch)
    {
        cJSON *old = cJSON_GetObjectItemCaseSensitive(target, item->string);

        if (cJSON_IsObject(item) && cJSON_IsObject(old)) {
            merge(old, item);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(target, item->string);
        if (cJSON_IsObject(item))
            merge(cJSON_AddObjectToObject(target, item->string), item);
        else if (!cJSON_IsNull(item))
            cJSON_AddItemToObject(target, item->string, cJSON_Duplicate(item, true));
    }
}

/* One step (test, replace, add, remove) of RFC 6902 on members of objects; false if a test fails,
 * or the version is another one. */
static bool json_step(cJSON *target, const cJSON *step)
{
    const char *at = hvd_json_str(step, "path");
    const cJSON *value = hvd_json_get(step, "value");
    char key[64];

    for (;;) {
        size_t n = 0;

        assert_true(*at++ == '/');
        for (; *at != '\0' && *at != '/'; at++) {
            bool is_slash = at[0] == '~' && at[1] == '1';

            if (is_slash)
                key[n++] = '/';
            else
                key[n++] = *at;
            at += is_slash;
        }
        key[n] = '\0';
        if (*at == '\0')
            break;
        target = cJSON_GetObjectItemCaseSensitive(target, key);
        assert_non_null(target);
    }
    if (strcmp(hvd_json_str(step, "op"), "test") == 0 || strcmp(key, "resourceVersion") == 0)
        return cJSON_Compare(cJSON_GetObjectItemCaseSensitive(target, key), value, true);
    cJSON_DeleteItemFromObjectCaseSensitive(target, key);
    if (strcmp(hvd_json_str(step, "op"), "remove") == 0)
        return true;
    if (cJSON_IsArray(target) && strcmp(key, "-") == 0)
        return cJSON_AddItemToArray(target, cJSON_Duplicate(value, true));
    return cJSON_AddItemToObject(target, key, cJSON_Duplicate(value, true));
}

static bool json_patch(cJSON *target, const cJSON *patch)
{
    const cJSON *step = NULL;

    cJSON_ArrayForEach(step, patch)
    {
        if (!json_step(target, step))
            return false;
    }
    return true;
}

void world_init(struct world *w, const char *spec)
{
    cJSON *job;

    hvd_json_use_base_memory();
    *w = (struct world){.now_ms = 1700000000000, .actions_left = -1};
    w->keeps_no_spec = getenv("WORLD_KEEPS_NO_SPEC") != NULL;
    w->objects = cJSON_CreateArray();
    w->events = cJSON_CreateArray();
    w->topology = cJSON_CreateObject();
    w->gone = cJSON_CreateObject();
    job = world_put(w, "{\"kind\":\"HorovodJob\",\"metadata\":{\"name\":\"digits\",\"namespace\":"
                       "\"default\",\"generation\":1}}");
    cJSON_AddItemToObject(job, "spec", cJSON_Parse(spec));
}

void world_fini(struct world *w)
{
    cJSON_Delete(w->objects);
    cJSON_Delete(w->events);
    cJSON_Delete(w->topology);
    cJSON_Delete(w->gone);
    hvd_repairs_fini(&w->repairs);
}

bool world_is(const cJSON *object, const char *path, const char *text)
{
    const char *found = hvd_json_str(object, path);

    return found && strcmp(found, text) == 0;
}

cJSON *world_find(const struct world *w, const char *kind, const char *name)
{
    cJSON *object = NULL;

    cJSON_ArrayForEach(object, w->objects)
    {
        if (world_is(object, "kind", kind) && world_is(object, "metadata.name", name))
            return object;
    }
    return NULL;
}

cJSON *world_put(struct world *w, const char *text)
{
    cJSON *object = cJSON_Parse(text);

    assert_non_null(object);
    world_stamp(w, object, true);
    cJSON_AddItemToArray(w->objects, object);
    return object;
}

static bool is_held(const cJSON *object)
{
    return cJSON_GetArraySize(hvd_json_at(object, "metadata.finalizers")) > 0;
}

/* The object stays, as one that is to go once grace_s is over; false if it was already. */
static bool mark_deleted(struct world *w, cJSON *object, int64_t grace_s)
{
    struct hvd_jb jb = {0};
    cJSON *meta = cJSON_GetObjectItem(object, "metadata");
    char time[HVD_RFC3339_SIZE];

    if (hvd_json_str(meta, "deletionTimestamp") &&
        hvd_json_int(meta, "deletionGracePeriodSeconds", 0) <= grace_s)
        return false;
    hvd_rfc3339_format(w->now_ms / 1000 + grace_s, time);
    hvd_jb_str(&jb, meta, "deletionTimestamp", time);
    hvd_jb_int(&jb, meta, "deletionGracePeriodSeconds", grace_s);
    world_stamp(w, object, false);
    return true;
}

bool world_delete(struct world *w, cJSON *object)
{
    if (is_held(object))
        return mark_deleted(w, object, 0);
    world_drop(w, object);
    return true;
}

/* A controller deletes a pod: at once, unless a finalizer holds it or nobody on its node answers.
 * False if nothing changes. */
bool world_delete_pod(struct world *w, cJSON *pod)
{
    bool is_lost = w->lost_pod && strcmp(hvd_json_str(pod, "metadata.name"), w->lost_pod) == 0;

    if (is_lost || is_held(pod))
        return mark_deleted(w, pod, 30);
    world_drop(w, pod);
    return true;
}

void world_hold(struct world *w, const char *kind, const char *name)
{
    cJSON *object = world_find(w, kind, name);
    struct hvd_jb jb = {0};

    assert_non_null(object);
    hvd_jb_str(&jb, hvd_jb_array(&jb, cJSON_GetObjectItem(object, "metadata"), "finalizers"), NULL,
               "example.com/hold");
    assert_false(jb.failed);
    world_stamp(w, object, false);
}

void world_release(struct world *w, const char *kind, const char *name)
{
    cJSON *object = world_find(w, kind, name);

    assert_non_null(object);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(object, "metadata"), "finalizers");
    world_stamp(w, object, false);
    if (hvd_json_at(object, "metadata.deletionTimestamp"))
        world_drop(w, object);
}

void world_remove(struct world *w, const char *kind, const char *name)
{
    cJSON *object = world_find(w, kind, name);

    assert_non_null(object);
    (void)world_delete(w, object);
}

/* What the operator knows of an object that its watch does not show: "doubtful", "found" by a look,
 * or nothing. */
#define SIGHT "sight"

static bool has_label(const cJSON *object, const char *label)
{
    return hvd_json_get(hvd_json_at(object, "metadata.labels"), label) != NULL;
}

static void set_sight(cJSON *object, const char *sight)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, SIGHT);
    if (sight && !has_label(object, HVD_LABEL_JOB))
        cJSON_AddStringToObject(object, SIGHT, sight);
}

void world_label(struct world *w, const char *kind, const char *name, const char *label,
                 const char *value)
{
    cJSON *object = world_find(w, kind, name);
    cJSON *labels = (cJSON *)hvd_json_at(object, "metadata.labels");

    assert_non_null(labels);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, label);
    if (value)
        cJSON_AddStringToObject(labels, label, value);
    set_sight(object, "doubtful");
    world_stamp(w, object, false);
}

void world_restart(struct world *w)
{
    cJSON *object = NULL;

    cJSON_ArrayForEach(object, w->objects)
    {
        set_sight(object, NULL);
        cJSON_DeleteItemFromObjectCaseSensitive(object, WORLD_RELEASED);
    }
    cJSON_Delete(w->gone);
    w->gone = cJSON_CreateObject();
    w->n_failures = 0;
    w->status_written_ms = 0;
}

static void note_gone(struct world *w, const struct hvd_action *action)
{
    const int64_t gone_s = w->now_ms / 1000;

    cJSON_DeleteItemFromObjectCaseSensitive(w->gone, action->name);
    cJSON_AddNumberToObject(w->gone, action->name, (double)((int64_t)action->kind + 100 * gone_s));
}

/* The pods of the Job whose uid ends the selector. */
static bool search(struct world *w, const struct hvd_action *action)
{
    cJSON *object = NULL;

    cJSON_ArrayForEach(object, w->objects)
    {
        const cJSON *owner = cJSON_GetArrayItem(hvd_json_at(object, "metadata.ownerReferences"), 0);

        if (world_is(object, "kind", "Pod") && owner &&
            hvd_str_has_suffix(action->body, hvd_json_str(owner, "uid")))
            set_sight(object, "found");
    }
    note_gone(w, action);
    return true;
}

bool world_patch(struct world *w, const char *kind, const char *name, const char *patch)
{
    cJSON *object = world_find(w, kind, name);
    cJSON *before = cJSON_Duplicate(object, true);
    cJSON *change = cJSON_Parse(patch);
    bool is_same;

    assert_non_null(change);
    if (object)
        merge(object, change);
    is_same = !object || cJSON_Compare(before, object, true);
    if (!is_same)
        world_stamp(w, object, false);
    cJSON_Delete(before);
    cJSON_Delete(change);
    return !is_same;
}

void world_edit(struct world *w, const char *spec_patch)
{
    cJSON *job = world_find(w, "HorovodJob", "digits");
    cJSON *patch = cJSON_Parse(spec_patch);
    struct hvd_jb jb = {0};

    merge(cJSON_GetObjectItem(job, "spec"), patch);
    hvd_jb_int(&jb, cJSON_GetObjectItem(job, "metadata"), "generation",
               hvd_json_int(job, "metadata.generation", 0) + 1);
    world_stamp(w, job, false);
    cJSON_Delete(patch);
}

/* The operator's requests. */

static void remember(struct world *w, const struct hvd_action *action, enum hvd_failure_type type)
{
    struct hvd_failure *failure = &w->failures[w->n_failures];
    char *text = w->failure_text[w->n_failures++];

    assert_true(w->n_failures < WORLD_FAILURES);
    (void)snprintf(text, 128, "%s", action->name);
    *failure = (struct hvd_failure){.type = type,
                                    .kind = action->kind,
                                    .name = text,
                                    .message = "no such field \"imag\"",
                                    .at_ms = w->now_ms};
}

/* Forgets the failure of that object, as after a success; returns how often it has failed. */
static unsigned forget(struct world *w, const struct hvd_action *action)
{
    for (size_t i = 0; i < w->n_failures; i++) {
        if (w->failures[i].kind != action->kind || strcmp(w->failures[i].name, action->name) != 0)
            continue;
        const unsigned n = w->failures[i].n;
        w->failures[i] = w->failures[--w->n_failures];
        memmove(w->failure_text[i], w->failure_text[w->n_failures], 128);
        w->failures[i].name = w->failure_text[i];
        return n;
    }
    return 0;
}

/* The write waits for its next try. */
static void put_off(struct world *w, const struct hvd_action *action)
{
    const cJSON *meta = cJSON_GetObjectItem(world_find(w, "HorovodJob", "digits"), "metadata");
    const cJSON *generation = cJSON_GetObjectItem(meta, "generation");
    const struct hvd_attempted_write write =
        hvd_denials_write(action->kind, action->name, action->repair, action->value,
                          generation ? (int64_t)generation->valuedouble : 0);

    if (!w->has_waits)
        return;
    assert_int_equal(hvd_denials_note(&w->repairs.denials, &write, w->now_ms, 0), HVD_OK);
}

/* Whether a webhook denies the write. */
static bool is_denied(struct world *w, const struct hvd_action *action)
{
    const char *kind = hvd_kind_info(action->kind)->kind;
    bool is_denied = w->deny_kind && (strcmp(w->deny_kind, kind) == 0 || !*w->deny_kind);
    unsigned n = 0;

    for (size_t i = 0; i < w->n_failures; i++) {
        if (w->failures[i].kind == action->kind && strcmp(w->failures[i].name, action->name) == 0)
            n = w->failures[i].n;
    }
    forget(w, action);
    if (!is_denied)
        return false;
    remember(w, action, HVD_FAILURE_DENIED);
    w->failures[w->n_failures - 1].message = "admission webhook \"a\" denied the request: no";
    w->failures[w->n_failures - 1].n = n + 1;
    w->failures[w->n_failures - 1].told_from = w->deny_from;
    put_off(w, action);
    return true;
}

/* Whether the API server refuses the status; the failure counts how often it did so in a row. */
static bool is_status_denied(struct world *w, const struct hvd_action *action)
{
    struct hvd_failure before = {0};

    for (size_t i = 0; i < w->n_failures; i++) {
        if (w->failures[i].type == HVD_FAILURE_STATUS)
            before = w->failures[i];
    }
    forget(w, action);
    if (!w->is_status_denied)
        return false;
    remember(w, action, HVD_FAILURE_STATUS);
    w->failures[w->n_failures - 1].message = "admission webhook \"a\" denied the request: no";
    w->failures[w->n_failures - 1].value = action->value;
    w->failures[w->n_failures - 1].n = before.n + 1;
    put_off(w, action);
    return true;
}

/* Whether the read is refused; the failure counts how often it was so in a row. */
static bool is_unread(struct world *w, const struct hvd_action *action)
{
    const bool is_trace = action->type == HVD_ACTION_TRACE;
    const char *kind = is_trace ? "Event" : hvd_kind_info(action->kind)->kind;
    unsigned n = 0;

    if (action->type != HVD_ACTION_LOOK && action->type != HVD_ACTION_LOCATE &&
        action->type != HVD_ACTION_READ_SPEC && !is_trace)
        return false;
    w->n_looked += action->type == HVD_ACTION_LOOK;
    for (size_t i = 0; i < w->n_failures; i++) {
        const struct hvd_failure *known = &w->failures[i];

        if ((known->type == HVD_FAILURE_UNREAD || known->type == HVD_FAILURE_UNTRACED) &&
            known->kind == action->kind && strcmp(known->name, action->name) == 0)
            n = forget(w, action);
    }
    if (!w->unread_kind || strcmp(w->unread_kind, kind) != 0)
        return false;
    w->n_unread++;
    remember(w, action, is_trace ? HVD_FAILURE_UNTRACED : HVD_FAILURE_UNREAD);
    w->failures[w->n_failures - 1].n = n + 1;
    w->failures[w->n_failures - 1].told_from = w->deny_from;
    return true;
}

static bool look(struct world *w, const struct hvd_action *action)
{
    cJSON *object = world_find(w, hvd_kind_info(action->kind)->kind, action->name);
    struct hvd_object found = {0};

    forget(w, action);
    if (action->body)
        return search(w, action);
    if (object)
        assert_int_equal(hvd_observe(action->kind, object, &found, NULL), HVD_OK);
    if (hvd_str_equal(found.meta.job, "digits"))
        set_sight(object, "found");
    else
        note_gone(w, action);
    forget(w, action);
    if (object && action->kind == HVD_KIND_POD && !hvd_str_equal(found.meta.job, "digits"))
        remember(w, action, HVD_FAILURE_FOREIGN);
    hvd_observe_object_fini(&found);
    return true;
}

/* The events of a controller that cannot make pods. */
static bool explain(struct world *w, const struct hvd_action *action)
{
    const char *kind = hvd_kind_info(action->kind)->kind;

    forget(w, action);
    remember(w, action, HVD_FAILURE_NO_PODS);
    w->failures[w->n_failures - 1].message =
        !w->is_mute && w->deny_pods_of && strcmp(w->deny_pods_of, kind) == 0
            ? "forbidden: exceeded quota"
            : NULL;
    if (action->kind == HVD_KIND_POD)
        w->failures[w->n_failures - 1].message = w->pod_words;
    w->failures[w->n_failures - 1].question = action->question;
    w->n_explained++;
    return true;
}

/* The events about a Job that is gone. */
static bool trace(struct world *w, const struct hvd_action *action)
{
    world_read_events(w, action);
    forget(w, action);
    remember(w, action, w->trace ? w->trace : HVD_FAILURE_NO_TRACE);
    w->failures[w->n_failures - 1].message = w->trace_text;
    w->n_traced++;
    return true;
}

static bool create(struct world *w, const struct hvd_action *action, const char *body)
{
    const char *kind = hvd_kind_info(action->kind)->kind;
    const cJSON *job = world_find(w, "HorovodJob", "digits");
    const cJSON *found = world_find(w, kind, action->name);

    if (is_denied(w, action))
        return false;
    if (w->is_leaving) {
        remember(w, action, HVD_FAILURE_LEAVING);
        return false;
    }
    if (w->refuse_kind && strcmp(w->refuse_kind, kind) == 0) {
        remember(w, action, HVD_FAILURE_INVALID);
        return false;
    }
    if (found) {
        const cJSON *owner = cJSON_GetArrayItem(hvd_json_at(found, "metadata.ownerReferences"), 0);

        if (!owner || strcmp(hvd_json_str(owner, "uid"), hvd_json_str(job, "metadata.uid")) != 0)
            remember(w, action, HVD_FAILURE_FOREIGN);
        else
            set_sight((cJSON *)found, "found");
        return false;
    }
    world_put(w, body);
    if (w->alter_kind && strcmp(w->alter_kind, kind) == 0)
        (void)world_patch(w, kind, action->name, w->alter_patch);
    w->n_writes++;
    return true;
}

static void note_leaving(struct world *w)
{
    const struct hvd_action about = {.kind = HVD_KIND_EVENT, .name = (char *)""};

    forget(w, &about);
    remember(w, &about, HVD_FAILURE_LEAVING);
}

static bool event(struct world *w, const char *body)
{
    cJSON *made = cJSON_Parse(body);
    const cJSON *item = NULL;

    assert_non_null(made);
    if (w->is_leaving) { /* an event that is refused holds nothing up */
        cJSON_Delete(made);
        note_leaving(w);
        return true;
    }
    cJSON_ArrayForEach(item, w->events)
    {
        if (world_is(item, "metadata.name", hvd_json_str(made, "metadata.name"))) {
            cJSON_Delete(made);
            return true;
        }
    }
    cJSON_AddItemToArray(w->events, made);
    w->n_writes++;
    return true;
}

static bool meets(const cJSON *object, const cJSON *patch)
{
    const char *uid = hvd_json_str(patch, "metadata.uid");
    const char *version = hvd_json_str(patch, "metadata.resourceVersion");

    return (!uid || world_is(object, "metadata.uid", uid)) &&
           (!version || world_is(object, "metadata.resourceVersion", version));
}

/* Every patch names the uid and the version of what it was decided for: a late one of an operator
 * that leads no longer must not count. */
static void check_expects(const cJSON *object, const cJSON *patch)
{
    const char *uid = hvd_json_str(patch, "metadata.uid");
    const char *version = hvd_json_str(patch, "metadata.resourceVersion");
    const cJSON *step = NULL;

    cJSON_ArrayForEach(step, patch)
    {
        if (world_is(step, "path", "/metadata/uid"))
            uid = hvd_json_str(step, "value");
        if (world_is(step, "path", "/metadata/resourceVersion"))
            version = hvd_json_str(step, "value");
    }
    assert_non_null(uid);
    assert_true(version || !hvd_json_at(object, "metadata.resourceVersion"));
}

static bool patch_object(struct world *w, const struct hvd_action *action)
{
    cJSON *object = world_find(w, hvd_kind_info(action->kind)->kind, action->name);
    cJSON *patch = cJSON_Parse(action->body);
    const int64_t ended = world_ended(w);
    bool ok = object && patch;

    assert_non_null(patch);
    check_expects(object, patch);
    if (action->type == HVD_ACTION_PATCH_STATUS ? is_status_denied(w, action)
                                                : is_denied(w, action)) {
        cJSON_Delete(patch);
        return false;
    }
    if (ok && action->is_json_patch) {
        ok = json_patch(object, patch);
    } else if (ok && meets(object, patch)) {
        merge(object, patch);
    } else {
        ok = false;
    }
    cJSON_Delete(patch);
    if (ok) {
        world_stamp(w, object, false);
        world_check_ends(w, ended);
        w->n_writes++;
    } else {
        w->n_conflicts++;
    }
    return ok;
}

static bool delete_object(struct world *w, const struct hvd_action *action)
{
    cJSON *object = world_find(w, hvd_kind_info(action->kind)->kind, action->name);
    cJSON *options = cJSON_Parse(action->body);
    bool ok =
        !object || world_is(object, "metadata.uid", hvd_json_str(options, "preconditions.uid"));

    if (is_denied(w, action)) {
        ok = false;
    } else if (object && ok) {
        bool is_kill = cJSON_IsNumber(hvd_json_get(options, "gracePeriodSeconds"));

        if (action->kind == HVD_KIND_POD && !is_kill)
            (void)world_delete_pod(w, object);
        else
            (void)world_delete(w, object);
        w->n_writes++;
    }
    if (ok && action->kind != HVD_KIND_HOROVODJOB &&
        !world_find(w, hvd_kind_info(action->kind)->kind, action->name))
        note_gone(w, action);
    cJSON_Delete(options);
    return ok;
}

static bool create_secret(struct world *w, const struct hvd_job *job,
                          const struct hvd_action *action)
{
    const struct hvd_launch_key key = {"-----BEGIN EC PRIVATE KEY-----\nx\n",
                                       "ecdsa-sha2-nistp256 A"};
    char *body = NULL;
    bool ok;

    assert_int_equal(hvd_children_secret_encode(job, &key, &body, NULL), HVD_OK);
    ok = create(w, action, body);
    hvd_free(body);
    return ok;
}

static bool locate(struct world *w, const struct hvd_action *action)
{
    const cJSON *node = world_find(w, "Node", action->name);
    char *text = NULL;

    assert_int_equal(hvd_topology_text(hvd_json_at(node, "metadata.labels"), action->body, &text),
                     HVD_OK);
    cJSON_DeleteItemFromObjectCaseSensitive(w->topology, action->name);
    cJSON_AddStringToObject(w->topology, action->name, text);
    hvd_free(text);
    w->n_located++;
    return true;
}

static const char *find_place(void *ctx, const char *node, const char *keys)
{
    const struct world *w = ctx;

    (void)keys;
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(w->topology, node));
}

static bool attribute(struct world *w, const struct hvd_action *action)
{
    const cJSON *object = world_find(w, hvd_kind_info(action->kind)->kind, action->name);

    assert_int_equal(hvd_repairs_attribute(&w->repairs, action, object), HVD_OK);
    return true;
}

static bool is_write(const struct hvd_action *action)
{
    return action->type != HVD_ACTION_LOCATE && action->type != HVD_ACTION_EXPLAIN &&
           action->type != HVD_ACTION_LOOK && action->type != HVD_ACTION_ATTRIBUTE &&
           action->type != HVD_ACTION_READ_SPEC && action->type != HVD_ACTION_TRACE;
}

/* Every write has a repair, so that none can be repeated without a pause, and a row of its own. */
static void check_write(const struct hvd_action *action)
{
    const struct world_write *write = world_writes;
    const char *kind = hvd_kind_info(action->kind)->kind;

    while (write->kind && (write->repair != action->repair || strcmp(write->kind, kind) != 0))
        write++;
    if (!write->kind)
        fail_msg("no row in world_writes: %s, repair %d", kind, (int)action->repair);
}

static bool perform(struct world *w, const struct hvd_job *job, const struct hvd_action *action)
{
    if (is_write(action)) {
        w->n_sent++;
        if (action->type != HVD_ACTION_EVENT)
            check_write(action);
    }
    if (is_unread(w, action))
        return false;
    switch (action->type) {
    case HVD_ACTION_READ_SPEC:
        w->n_read++;
        w->has_spec = true;
        return true;
    case HVD_ACTION_ATTRIBUTE:
        return attribute(w, action);
    case HVD_ACTION_CREATE:
        return create(w, action, action->body);
    case HVD_ACTION_CREATE_SECRET:
        return create_secret(w, job, action);
    case HVD_ACTION_PATCH_STATUS:
        if (!w->is_status_denied)
            w->status_written_ms = w->now_ms;
        return patch_object(w, action);
    case HVD_ACTION_PATCH:
        return patch_object(w, action);
    case HVD_ACTION_DELETE:
        return delete_object(w, action);
    case HVD_ACTION_LOCATE:
        return locate(w, action);
    case HVD_ACTION_EXPLAIN:
        return explain(w, action);
    case HVD_ACTION_TRACE:
        return trace(w, action);
    case HVD_ACTION_LOOK:
        return look(w, action);
    case HVD_ACTION_EVENT:
        return event(w, action->body);
    }
    return false;
}

/* What the shell remembers of an action that succeeded. */
static void remember_write(struct world *w, const struct hvd_action *action)
{
    if (action->type == HVD_ACTION_EVENT)
        hvd_repairs_announced(&w->repairs, action);
    else if (is_write(action))
        hvd_repairs_note(&w->repairs, action, w->now_ms);
}

static void carry_out(struct world *w, const struct hvd_job *job, const struct hvd_plan *plan)
{
    bool all_ok = true;

    for (size_t i = 0; i < plan->n_actions; i++) {
        if (w->actions_left == 0) {
            w->is_dead = true;
            return;
        }
        if (plan->actions[i].waits && !all_ok)
            return;
        if (w->actions_left > 0)
            w->actions_left--;
        if (perform(w, job, &plan->actions[i]))
            remember_write(w, &plan->actions[i]);
        else
            all_ok = false;
    }
}

static enum hvd_kind kind_of(const cJSON *object)
{
    for (int kind = 0; kind < HVD_N_KINDS; kind++) {
        const struct hvd_kind_info *info = hvd_kind_info((enum hvd_kind)kind);

        if (world_is(object, "kind", info->kind) &&
            (!hvd_json_get(object, "apiVersion") ||
             world_is(object, "apiVersion", info->api_version)))
            return (enum hvd_kind)kind;
    }
    return HVD_N_KINDS;
}

/* What is known to be gone, without what has appeared since. Borrowed. */
static size_t list_gone(const struct world *w, const struct hvd_object *objects, size_t n_objects,
                        struct hvd_gone *out)
{
    const cJSON *item;
    size_t n = 0;

    for (size_t i = 0; i < n_objects; i++) {
        item = hvd_json_get(w->gone, objects[i].meta.name);
        if (item && (int64_t)item->valuedouble % 100 == (int64_t)objects[i].kind)
            cJSON_DeleteItemFromObjectCaseSensitive(w->gone, objects[i].meta.name);
    }
    cJSON_ArrayForEach(item, w->gone)
    {
        out[n++] = (struct hvd_gone){.kind = (enum hvd_kind)((int64_t)item->valuedouble % 100),
                                     .at_s = (uint32_t)((int64_t)item->valuedouble / 100),
                                     .name = item->string};
        assert_true(n < WORLD_MAX_OBJECTS);
    }
    return n;
}

/* What a watch that selects by our label would have delivered. */
static size_t observe_all(const struct world *w, struct hvd_object *out)
{
    const cJSON *object = NULL;
    size_t n = 0;

    cJSON_ArrayForEach(object, w->objects)
    {
        if (kind_of(object) == HVD_KIND_HOROVODJOB || kind_of(object) == HVD_KIND_NODE)
            continue;
        assert_int_equal(hvd_observe(kind_of(object), object, &out[n], NULL), HVD_OK);
        if (out[n].kind == HVD_KIND_POD && out[n].u.pod.deleted_s)
            out[n].u.pod.going_ms = w->going_ms;
        if (hvd_json_get(object, WORLD_RELEASED) && !out[n].meta.owner_kind)
            out[n].u.pod.is_orphan = true;
        out[n].meta.is_doubtful = world_is(object, SIGHT, "doubtful");
        if (hvd_str_equal(out[n].meta.job, "digits") &&
            (out[n].meta.is_in_sight || hvd_json_get(object, SIGHT)))
            n++;
        else
            hvd_observe_object_fini(&out[n]);
        assert_true(n < WORLD_MAX_OBJECTS);
    }
    return n;
}

static void forget_spec(struct hvd_job *job)
{
    hvd_free(job->spec.text);
    job->spec.text = NULL;
}

/* The chart gives a right to each request of the plan. */
static void check_rights(const struct hvd_plan *plan)
{
    static const char *const verbs[] = {
        [HVD_ACTION_CREATE] = "create", [HVD_ACTION_CREATE_SECRET] = "create",
        [HVD_ACTION_PATCH] = "patch",   [HVD_ACTION_PATCH_STATUS] = NULL,
        [HVD_ACTION_DELETE] = "delete", [HVD_ACTION_LOCATE] = "get",
        [HVD_ACTION_EXPLAIN] = "list",  [HVD_ACTION_TRACE] = "list",
        [HVD_ACTION_LOOK] = "get",      [HVD_ACTION_READ_SPEC] = "get",
        [HVD_ACTION_ATTRIBUTE] = "get", [HVD_ACTION_EVENT] = "create",
    };

    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct hvd_action *action = &plan->actions[i];
        const bool is_event = action->type == HVD_ACTION_EVENT ||
                              action->type == HVD_ACTION_EXPLAIN ||
                              action->type == HVD_ACTION_TRACE;
        const char *verb =
            action->type == HVD_ACTION_LOOK && action->body ? "list" : verbs[action->type];

        if (verb && !hvd_kind_allows(is_event ? HVD_KIND_EVENT : action->kind, verb))
            fail_msg("the chart gives no right to %s %s", verb,
                     hvd_kind_info(action->kind)->resource);
    }
}

static size_t decide_once(struct world *w, bool *has_looked)
{
    struct hvd_object objects[WORLD_MAX_OBJECTS];
    const struct hvd_object *pointers[WORLD_MAX_OBJECTS];
    struct hvd_gone gone[WORLD_MAX_OBJECTS];
    struct hvd_job job = {0};
    struct hvd_plan plan = {0};
    const struct hvd_topology_source topology = {find_place, w};
    struct hvd_view view = {.job = &job,
                            .topology = &topology,
                            .objects = pointers,
                            .failures = w->failures,
                            .n_failures = w->n_failures,
                            .repairs = &w->repairs,
                            .lost = w->lost,
                            .monotonic_ms = w->now_ms,
                            .status_written_ms = w->status_written_ms,
                            .n_starting = 1 + w->n_starting,
                            .settings = &w->settings,
                            .free_port = w->free_port};
    const cJSON *object = world_find(w, "HorovodJob", "digits");
    size_t n_actions;

    *has_looked = false;
    w->wake_at_ms = 0;
    if (!object)
        return 0;
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    hvd_repairs_begin(&w->repairs, &job, w->now_ms);
    if (w->keeps_no_spec && !w->has_spec)
        forget_spec(&job);
    w->has_spec = false;
    view.n_objects = observe_all(w, objects);
    for (size_t i = 0; i < view.n_objects; i++)
        pointers[i] = &objects[i];
    view.gone = gone;
    view.n_gone = list_gone(w, objects, view.n_objects, gone);
    assert_int_equal(hvd_reconcile(&view, w->now_ms, &plan, NULL), HVD_OK);
    check_rights(&plan);
    n_actions = plan.n_actions;
    *has_looked = n_actions && (plan.actions[0].type == HVD_ACTION_LOOK ||
                                plan.actions[0].type == HVD_ACTION_READ_SPEC);
    w->wake_at_ms = plan.wake_at_ms;
    carry_out(w, &job, &plan);
    hvd_plan_fini(&plan);
    for (size_t i = 0; i < view.n_objects; i++)
        hvd_observe_object_fini(&objects[i]);
    hvd_job_fini(&job);
    return n_actions;
}

size_t world_pass(struct world *w)
{
    bool has_looked = true;
    size_t n_actions = 0;

    /* What was looked for is in the view at once. */
    for (int round = 0; has_looked && !w->is_dead; round++) {
        assert_true(round < 6);
        n_actions = decide_once(w, &has_looked);
    }
    return n_actions;
}

/* Whether the first status of the job is still to come. */
static bool is_first_due(const struct world *w)
{
    return w->wake_at_ms != 0 && !*world_status(w, "state");
}

void world_settle(struct world *w)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        size_t n = world_pass(w);

        if (w->is_dead)
            return;
        w->now_ms += 2000;
        if (!world_controllers(w) && n == 0 && !is_first_due(w))
            return;
    }
    fail_msg("the world does not settle");
}

const char *const world_children[WORLD_CHILDREN][2] = {{"Secret", "digits-ssh"},
                                                       {"Service", "digits"},
                                                       {"ConfigMap", "digits-hosts"},
                                                       {"StatefulSet", "digits-worker"},
                                                       {"Job", "digits-master"}};

void world_start(struct world *w, const char *more)
{
    char spec[1024];

    (void)snprintf(spec, sizeof(spec),
                   "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":2}%s}",
                   more);
    world_init(w, spec);
    world_settle(w);
}

void world_is_state(const struct world *w, const char *state)
{
    assert_string_equal(world_status(w, "state"), state);
}

void world_pass_on(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        (void)world_pass(w);
        while (world_controllers(w))
            (void)world_pass(w);
        w->now_ms += 10000;
    }
}
