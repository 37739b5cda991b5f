/*
 * All objects, and for each kind the log of what happened, from which watches are fed. Every
 * version of an object is printed once; lists, watches and answers copy that text.
 */
#include "tests/fake/apiserver/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/must.h"

#define CORE "/api/v1"

/* clang-format off */
const struct fake_kind fake_kinds[FAKE_N_KINDS] = {
    /* name, api_version, root, resource, namespaced, status, generation, custom, returns deleted */
    {"HorovodJob", "horovod.io/v1beta1", "/apis/horovod.io/v1beta1", "horovodjobs", true, true, true, true, false},
    {"Secret", "v1", CORE, "secrets", true, false, false, false, false},
    {"Service", "v1", CORE, "services", true, true, false, false, true},
    {"StatefulSet", "apps/v1", "/apis/apps/v1", "statefulsets", true, true, true, false, false},
    {"ConfigMap", "v1", CORE, "configmaps", true, false, false, false, false},
    {"Job", "batch/v1", "/apis/batch/v1", "jobs", true, true, true, false, false},
    {"Pod", "v1", CORE, "pods", true, true, true, false, true},
    {"Event", "v1", CORE, "events", true, false, false, false, false},
    {"Lease", "coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1", "leases", true, false, false, false, false},
    {"PodGroup", "scheduling.volcano.sh/v1beta1", "/apis/scheduling.volcano.sh/v1beta1", "podgroups", true, true, true, true, false},
    {"PodGroup", "scheduling.x-k8s.io/v1alpha1", "/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", true, true, true, true, false},
    {"Node", "v1", CORE, "nodes", false, true, false, false, false},
    {"Namespace", "v1", CORE, "namespaces", false, true, false, false, false},
};
/* clang-format on */

size_t fake_kind_index(const struct fake_kind *kind)
{
    return (size_t)(kind - fake_kinds);
}

const struct fake_kind *fake_kind_at(const char *root, const char *resource)
{
    for (size_t i = 0; i < FAKE_N_KINDS; i++)
        if (strcmp(fake_kinds[i].root, root) == 0 && strcmp(fake_kinds[i].resource, resource) == 0)
            return &fake_kinds[i];
    return NULL;
}

const struct fake_kind *fake_kind_named(const char *api_version, const char *name)
{
    for (size_t i = 0; i < FAKE_N_KINDS; i++)
        if (strcmp(fake_kinds[i].name, name) == 0 &&
            (!api_version || strcmp(fake_kinds[i].api_version, api_version) == 0))
            return &fake_kinds[i];
    return NULL;
}

const struct fake_kind *fake_kind_of_resource(const char *resource)
{
    for (size_t i = 0; i < FAKE_N_KINDS; i++)
        if (strcmp(fake_kinds[i].resource, resource) == 0)
            return &fake_kinds[i];
    return NULL;
}

const char *fake_kind_group_resource(const struct fake_kind *kind)
{
    static char text[128];
    const char *slash = strchr(kind->api_version, '/');

    (void)snprintf(text, sizeof(text), "%s%s%.*s", kind->resource, slash ? "." : "",
                   slash ? (int)(slash - kind->api_version) : 0, kind->api_version);
    return text;
}

/* ---- versions ---- */

struct fake_version *fake_version_ref(struct fake_version *version)
{
    version->n_refs++;
    return version;
}

void fake_version_unref(struct fake_version *version)
{
    if (!version || --version->n_refs)
        return;
    cJSON_Delete(version->doc);
    cJSON_Delete(version->labels);
    cJSON_free(version->text);
    cJSON_free(version->meta);
    free(version->key);
    free(version);
}

/* Takes doc, and writes the new resource version into it. */
static struct fake_version *new_version(struct fake_store *store, const struct fake_object *object,
                                        cJSON *doc)
{
    struct fake_version *version = fake_new(sizeof(*version));
    cJSON *meta = fake_object_at(doc, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(meta, "labels");
    char number[24];

    version->n_refs = 1;
    version->number = ++store->number;
    version->kind = object->kind;
    version->key = fake_copy(object->key);
    version->doc = doc;
    (void)snprintf(number, sizeof(number), "%" PRIu64, version->number);
    fake_set_str(meta, "resourceVersion", number);
    if (labels)
        version->labels = fake_must(cJSON_Duplicate(labels, true));
    version->text = fake_must(cJSON_PrintUnformatted(doc));
    version->len = strlen(version->text);
    return version;
}

static void make_meta(struct fake_version *version)
{
    cJSON *doc = version->doc ? version->doc : fake_must(cJSON_Parse(version->text));

    version->meta =
        fake_must(cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(doc, "metadata")));
    version->meta_len = strlen(version->meta);
    if (doc != version->doc)
        cJSON_Delete(doc);
}

void fake_version_put(struct hvd_buf *out, struct fake_version *version, enum fake_form form)
{
    if (form == FAKE_FORM_META) {
        if (!version->meta)
            make_meta(version);
        fake_puts(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\","
                       "\"metadata\":");
        fake_add(out, version->meta, version->meta_len);
        fake_puts(out, "}");
    } else if (form == FAKE_FORM_ITEM && !version->kind->is_custom) {
        fake_add(out, version->text, version->len);
    } else {
        fake_printf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",", version->kind->name,
                    version->kind->api_version);
        fake_add(out, version->text + 1, version->len - 1);
    }
}

/* ---- the log ---- */

static void forget_events(struct fake_log *log, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fake_version_unref(log->events[i].was);
        fake_version_unref(log->events[i].now);
    }
    if (!n)
        return;
    log->forgotten = log->events[n - 1].number;
    log->n -= n;
    memmove(log->events, log->events + n, log->n * sizeof(log->events[0]));
}

static void tell(struct fake_store *store, struct fake_object *object, struct fake_version *was,
                 struct fake_version *now, bool is_deleted)
{
    struct fake_log *log = &store->logs[fake_kind_index(now->kind)];
    struct fake_event event = {now->number, was ? fake_version_ref(was) : NULL,
                               fake_version_ref(now), is_deleted};

    if (store->max_events && log->n >= store->max_events)
        forget_events(log, log->n / 2);
    if (log->n == log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : 256;
        log->events = fake_must(realloc(log->events, log->capacity * sizeof(event)));
    }
    log->events[log->n++] = event;
    store->changed(store->ctx, object, &event);
}

void fake_compact(struct fake_store *store)
{
    for (size_t i = 0; i < FAKE_N_KINDS; i++) {
        forget_events(&store->logs[i], store->logs[i].n);
        store->logs[i].forgotten = store->number;
    }
}

/* ---- objects ---- */

static char *make_key(const struct fake_kind *kind, const char *ns, const char *name)
{
    struct hvd_buf key = fake_buf();

    fake_printf(&key, "%s/%s", kind->is_namespaced && ns ? ns : "", name);
    return hvd_buf_take(&key);
}

struct fake_object *fake_find(struct fake_store *store, const struct fake_kind *kind,
                              const char *ns, const char *name)
{
    char *key = make_key(kind, ns, name);
    struct fake_object *object = NULL;

    HASH_FIND_STR(store->objects[fake_kind_index(kind)], key, object);
    free(key);
    return object;
}

size_t fake_count(const struct fake_store *store, const struct fake_kind *kind)
{
    return HASH_COUNT(store->objects[fake_kind_index(kind)]);
}

const char *fake_meta(const struct fake_object *object, const char *key)
{
    const char *text = hvd_json_str(hvd_json_get(object->now->doc, "metadata"), key);

    return text ? text : "";
}

static struct fake_owner *owner_of_uid(struct fake_store *store, const char *uid, bool makes)
{
    struct fake_owner *owner = NULL;

    HASH_FIND_STR(store->owners, uid, owner);
    if (owner || !makes)
        return owner;
    owner = fake_new(sizeof(*owner));
    owner->uid = fake_copy(uid);
    HASH_ADD_KEYPTR(hh, store->owners, owner->uid, strlen(owner->uid), owner);
    return owner;
}

struct fake_object *fake_children(struct fake_store *store, const char *uid)
{
    struct fake_owner *owner = owner_of_uid(store, uid, false);

    return owner ? owner->objects : NULL;
}

static void leave_owner(struct fake_store *store, struct fake_object *object)
{
    struct fake_owner *owner = object->owner;

    if (!owner)
        return;
    DL_DELETE(owner->objects, object);
    object->owner = NULL;
    if (owner->objects)
        return;
    HASH_DEL(store->owners, owner);
    free(owner->uid);
    free(owner);
}

/* Files the object under its first owner. */
static void join_owner(struct fake_store *store, struct fake_object *object)
{
    const cJSON *refs = hvd_json_at(object->now->doc, "metadata.ownerReferences");
    const char *uid = hvd_json_str(cJSON_GetArrayItem(refs, 0), "uid");

    if (object->owner && uid && strcmp(object->owner->uid, uid) == 0)
        return;
    leave_owner(store, object);
    if (!uid)
        return;
    object->owner = owner_of_uid(store, uid, true);
    DL_APPEND(object->owner->objects, object);
}

bool fake_exists(struct fake_store *store, const char *api_version, const char *kind,
                 const char *ns, const char *name, const char *uid)
{
    const struct fake_kind *k = kind ? fake_kind_named(api_version, kind) : NULL;
    const struct fake_object *object = k && name ? fake_find(store, k, ns, name) : NULL;

    if (!k)
        return true; /* not ours to judge: the real collector would look it up */
    return object && uid && strcmp(fake_meta(object, "uid"), uid) == 0;
}

static void stamp(struct fake_store *store, const struct fake_kind *kind, cJSON *doc)
{
    cJSON *meta = fake_object_at(doc, "metadata");
    time_t now = fake_unix_s();
    char text[64];
    struct tm tm;

    (void)snprintf(text, sizeof(text), "%08x-%04x-4000-8000-%012" PRIx64, (unsigned)now,
                   (unsigned)fake_kind_index(kind), ++store->n_uids);
    fake_set_str(meta, "uid", text);
    (void)gmtime_r(&now, &tm);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    fake_set_str(meta, "creationTimestamp", text);
    if (kind->has_generation)
        fake_set_int(meta, "generation", 1);
    cJSON_DeleteItemFromObjectCaseSensitive(meta, "deletionTimestamp");
    cJSON_DeleteItemFromObjectCaseSensitive(doc, "kind");
    cJSON_DeleteItemFromObjectCaseSensitive(doc, "apiVersion");
}

struct fake_object *fake_create(struct fake_store *store, const struct fake_kind *kind, cJSON *doc)
{
    struct fake_object *object = fake_new(sizeof(*object));
    const char *ns = hvd_json_str(doc, "metadata.namespace");

    stamp(store, kind, doc);
    object->kind = kind;
    object->key = make_key(kind, ns, hvd_json_str(doc, "metadata.name"));
    object->name = strchr(object->key, '/') + 1;
    object->now = new_version(store, object, doc);
    HASH_ADD_KEYPTR(hh, store->objects[fake_kind_index(kind)], object->key, strlen(object->key),
                    object);
    join_owner(store, object);
    tell(store, object, NULL, object->now, false);
    return object;
}

/* target[key] becomes what it is in source, or goes. */
static void take_over(cJSON *target, const cJSON *source, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(source, key);

    if (item)
        fake_set(target, key, cJSON_Duplicate(item, true));
    else
        cJSON_DeleteItemFromObjectCaseSensitive(target, key);
}

static void keep_fixed(const struct fake_object *object, cJSON *doc, enum fake_part part)
{
    static const char *const fixed[] = {"name",       "namespace",       "uid",
                                        "generation", "resourceVersion", "creationTimestamp"};
    const cJSON *was = object->now->doc;
    cJSON *meta = fake_object_at(doc, "metadata");

    cJSON_DeleteItemFromObjectCaseSensitive(doc, "kind");
    cJSON_DeleteItemFromObjectCaseSensitive(doc, "apiVersion");
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        take_over(meta, hvd_json_get(was, "metadata"), fixed[i]);
    if (part == FAKE_PART_BOTH)
        return;
    take_over(meta, hvd_json_get(was, "metadata"), "deletionTimestamp");
    if (!object->kind->has_status)
        return;
    if (part == FAKE_PART_MAIN) {
        take_over(doc, was, "status");
        return;
    }
    take_over(doc, was, "spec");
    if (object->kind->is_custom)
        take_over(doc, was, "metadata");
}

/* Whether anything but metadata and status differs. */
static bool differs_in_substance(const cJSON *a, const cJSON *b)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, a)
    {
        if (strcmp(item->string, "metadata") == 0 || strcmp(item->string, "status") == 0)
            continue;
        if (!cJSON_Compare(item, cJSON_GetObjectItemCaseSensitive(b, item->string), true))
            return true;
    }
    cJSON_ArrayForEach(item, b)
    {
        if (strcmp(item->string, "metadata") != 0 && strcmp(item->string, "status") != 0 &&
            !cJSON_GetObjectItemCaseSensitive(a, item->string))
            return true;
    }
    return false;
}

static bool is_finished(const cJSON *doc)
{
    const cJSON *meta = hvd_json_get(doc, "metadata");

    return hvd_json_str(meta, "deletionTimestamp") &&
           cJSON_GetArraySize(hvd_json_get(meta, "finalizers")) == 0 &&
           hvd_json_int(meta, "deletionGracePeriodSeconds", 0) == 0;
}

bool fake_update(struct fake_store *store, struct fake_object *object, cJSON *doc,
                 enum fake_part part)
{
    struct fake_version *was = object->now;
    cJSON *meta;

    keep_fixed(object, doc, part);
    if (cJSON_Compare(was->doc, doc, true)) {
        cJSON_Delete(doc);
        return true;
    }
    meta = fake_object_at(doc, "metadata");
    if (object->kind->has_generation && differs_in_substance(was->doc, doc))
        fake_set_int(meta, "generation", hvd_json_int(meta, "generation", 0) + 1);
    object->now = new_version(store, object, doc);
    cJSON_Delete(was->doc);
    was->doc = NULL;
    join_owner(store, object);
    tell(store, object, was, object->now, false);
    fake_version_unref(was);
    if (!is_finished(object->now->doc))
        return true;
    fake_remove(store, object);
    return false;
}

void fake_remove(struct fake_store *store, struct fake_object *object)
{
    struct fake_version *was = object->now;
    struct fake_version *end =
        new_version(store, object, fake_must(cJSON_Duplicate(was->doc, true)));

    HASH_DEL(store->objects[fake_kind_index(object->kind)], object);
    leave_owner(store, object);
    object->now = end;
    tell(store, object, was, end, true);
    fake_version_unref(was);
    fake_version_unref(end);
    free(object->key);
    free(object);
}

void fake_store_fini(struct fake_store *store)
{
    for (size_t i = 0; i < FAKE_N_KINDS; i++) {
        struct fake_object *object, *next;

        HASH_ITER(hh, store->objects[i], object, next)
        {
            HASH_DEL(store->objects[i], object);
            leave_owner(store, object);
            fake_version_unref(object->now);
            free(object->key);
            free(object);
        }
        forget_events(&store->logs[i], store->logs[i].n);
        free(store->logs[i].events);
    }
}
