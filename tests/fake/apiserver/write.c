/*
 * Writes, as the real server judges them. Its admission of templates is not imitated: what would be
 * refused there is made to fail here by a fault.
 */
#include "tests/fake/apiserver/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "tests/fake/apiserver/answer.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/patch.h"

#define MAX_DATA ((size_t)1 << 20) /* of a Secret or ConfigMap */

/* ---- what is refused ---- */

static size_t data_size(const cJSON *doc)
{
    const cJSON *item = NULL;
    size_t size = 0;

    cJSON_ArrayForEach(item, hvd_json_get(doc, "data"))
    {
        size += strlen(item->string) + (item->valuestring ? strlen(item->valuestring) : 0);
    }
    return size;
}

static bool is_same(const cJSON *a, const cJSON *b, const char *path)
{
    const cJSON *x = hvd_json_at(a, path);
    const cJSON *y = hvd_json_at(b, path);

    return (!x && !y) || (x && y && cJSON_Compare(x, y, true));
}

/* Whether anything of spec but these keys differs. */
static bool spec_differs_but(const cJSON *a, const cJSON *b, const char *const *but)
{
    const cJSON *sides[2] = {hvd_json_get(a, "spec"), hvd_json_get(b, "spec")};

    for (int side = 0; side < 2; side++) {
        const cJSON *item = NULL;

        cJSON_ArrayForEach(item, sides[side])
        {
            bool may = false;

            for (size_t i = 0; but[i]; i++)
                may = may || strcmp(but[i], item->string) == 0;
            if (!may && !cJSON_Compare(item, hvd_json_get(sides[!side], item->string), true))
                return true;
        }
    }
    return false;
}

/* Why the object may not become doc; NULL: it may. */
static const char *refuse_change(const struct fake_object *object, const cJSON *doc)
{
    static const char *const of_set[] = {"replicas",
                                         "ordinals",
                                         "template",
                                         "updateStrategy",
                                         "minReadySeconds",
                                         "revisionHistoryLimit",
                                         "persistentVolumeClaimRetentionPolicy",
                                         NULL};
    const cJSON *was = object->now->doc;
    const char *name = object->kind->name;

    if (strcmp(name, "StatefulSet") == 0 && spec_differs_but(was, doc, of_set))
        return "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', "
               "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
               "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    if (strcmp(name, "Job") == 0 && !is_same(was, doc, "spec.template") &&
        !hvd_json_true(was, "spec.suspend"))
        return "spec.template: Invalid value: field is immutable";
    if ((strcmp(name, "Secret") == 0 || strcmp(name, "ConfigMap") == 0) &&
        hvd_json_true(was, "immutable") && !is_same(was, doc, "data"))
        return "data: Forbidden: field is immutable when `immutable` is set";
    return NULL;
}

static bool refuse_size(struct fake_answer *answer, const struct fake_request *request,
                        const cJSON *doc)
{
    if ((strcmp(request->kind->name, "Secret") != 0 &&
         strcmp(request->kind->name, "ConfigMap") != 0) ||
        data_size(doc) <= MAX_DATA)
        return false;
    fake_answer_invalid(answer, request, "data: Too long: may not be more than 1048576 bytes");
    return true;
}

/* ---- create ---- */

static void generate_name(struct fake_store *store, cJSON *meta)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    const char *prefix = hvd_json_str(meta, "generateName");
    uint64_t x = ++store->n_uids * 6364136223846793005u + 1442695040888963407u;
    char name[300];
    char tail[6] = "";

    for (int i = 0; i < 5; i++) {
        tail[i] = letters[(x >> 33) % (sizeof(letters) - 1)];
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    (void)snprintf(name, sizeof(name), "%s%s", prefix ? prefix : "", tail);
    fake_set_str(meta, "name", name);
}

/* What the real server fills in, as far as the operator or its tests look at it. */
static void set_defaults(const struct fake_kind *kind, cJSON *doc)
{
    if (kind->has_status && !kind->is_custom && strcmp(kind->name, "Node") != 0)
        cJSON_DeleteItemFromObjectCaseSensitive(doc, "status");
    if (kind->is_custom)
        cJSON_DeleteItemFromObjectCaseSensitive(doc, "status");
    if (strcmp(kind->name, "Pod") == 0)
        fake_set_str(fake_object_at(doc, "status"), "phase", "Pending");
}

void fake_write_create(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_store *store = &request->conn->server->store;
    struct fake_object *object;
    cJSON *doc, *meta;

    if (!cJSON_IsObject(request->doc)) {
        fake_answer_fail(answer, request, 400, NULL, "the body is not a JSON object");
        return;
    }
    doc = fake_must(cJSON_Duplicate(request->doc, true));
    meta = fake_object_at(doc, "metadata");
    if (!hvd_json_str(meta, "name") && hvd_json_str(meta, "generateName"))
        generate_name(store, meta);
    if (request->kind->is_namespaced && request->ns)
        fake_set_str(meta, "namespace", request->ns);
    if (!hvd_json_str(meta, "name")) {
        fake_answer_invalid(answer, request,
                            "metadata.name: Required value: name or generateName is required");
    } else if (refuse_size(answer, request, doc)) {
        /* answered */
    } else if (fake_find(store, request->kind, request->ns, hvd_json_str(meta, "name"))) {
        fake_answer_exists(answer, request);
    } else {
        set_defaults(request->kind, doc);
        object = fake_create(store, request->kind, doc);
        fake_answer_object(answer, request, 201, object->now);
        return;
    }
    cJSON_Delete(doc);
}

/* ---- update and patch ---- */

/* Compares versions and uids that the new document names; true when answered with a refusal. */
static bool refuse_stale(struct fake_answer *answer, const struct fake_request *request,
                         const struct fake_object *object, const cJSON *doc)
{
    const char *version = hvd_json_str(doc, "metadata.resourceVersion");
    const char *uid = hvd_json_str(doc, "metadata.uid");
    char why[256];

    if (version && *version && strcmp(version, fake_meta(object, "resourceVersion")) != 0) {
        fake_answer_conflict(answer, request);
        return true;
    }
    if (uid && *uid && strcmp(uid, fake_meta(object, "uid")) != 0) {
        (void)snprintf(why, sizeof(why),
                       "metadata.uid: Invalid value: \"%.80s\": field is immutable", uid);
        fake_answer_invalid(answer, request, why);
        return true;
    }
    return false;
}

/* Takes doc. */
static void replace(struct fake_answer *answer, const struct fake_request *request,
                    struct fake_object *object, cJSON *doc)
{
    bool is_status = strcmp(request->subresource, "status") == 0;
    const char *why = is_status ? NULL : refuse_change(object, doc);
    struct fake_version *version;

    if (refuse_stale(answer, request, object, doc)) {
        cJSON_Delete(doc);
        return;
    }
    if (why) {
        fake_answer_invalid(answer, request, why);
        cJSON_Delete(doc);
        return;
    }
    if (!is_status && refuse_size(answer, request, doc)) {
        cJSON_Delete(doc);
        return;
    }
    version = fake_version_ref(object->now);
    if (fake_update(&request->conn->server->store, object, doc,
                    is_status ? FAKE_PART_STATUS : FAKE_PART_MAIN)) {
        fake_version_unref(version);
        version = fake_version_ref(object->now);
    }
    fake_answer_object(answer, request, 200, version);
    fake_version_unref(version);
}

static struct fake_object *find(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_object *object =
        fake_find(&request->conn->server->store, request->kind, request->ns, request->name);

    if (!object)
        fake_answer_not_found(answer, request);
    return object;
}

void fake_write_update(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_object *object = find(answer, request);

    if (!object)
        return;
    if (!cJSON_IsObject(request->doc)) {
        fake_answer_fail(answer, request, 400, NULL, "the body is not a JSON object");
        return;
    }
    replace(answer, request, object, fake_must(cJSON_Duplicate(request->doc, true)));
}

/* Writes the scale of a HorovodJob into doc. */
static void patch_scale(cJSON *doc, const cJSON *patch)
{
    const cJSON *replicas = hvd_json_at(patch, "spec.replicas");

    if (replicas)
        fake_set(fake_object_at(fake_object_at(doc, "spec"), "worker"), "replicas",
                 cJSON_Duplicate(replicas, true));
}

void fake_write_patch(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_object *object = find(answer, request);
    cJSON *doc;

    if (!object)
        return;
    if (!request->doc) {
        fake_answer_fail(answer, request, 400, NULL, "the body is not JSON");
        return;
    }
    doc = fake_must(cJSON_Duplicate(object->now->doc, true));
    if (hvd_str_has_prefix(request->content_type, "application/json-patch+json")) {
        if (!fake_json_patch(doc, request->doc)) {
            fake_answer_fail(answer, request, 422, NULL,
                             "the server rejected our request due to an error in our request");
            cJSON_Delete(doc);
            return;
        }
    } else if (hvd_str_has_prefix(request->content_type, "application/merge-patch+json") &&
               cJSON_IsObject(request->doc)) {
        if (strcmp(request->subresource, "scale") == 0)
            patch_scale(doc, request->doc);
        else
            fake_merge_patch(doc, request->doc);
    } else {
        fake_answer_fail(answer, request, 415, NULL,
                         "the body of the request was in an unknown format");
        cJSON_Delete(doc);
        return;
    }
    replace(answer, request, object, doc);
}

/* ---- delete ---- */

static void set_time(cJSON *meta, const char *key, int64_t grace_s)
{
    time_t when = fake_unix_s() + (time_t)grace_s;
    char text[32];
    struct tm tm;

    (void)gmtime_r(&when, &tm);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    fake_set_str(meta, key, text);
}

static void add_finalizer(cJSON *meta, const char *name)
{
    const cJSON *item = NULL;
    cJSON *list = fake_array_at(meta, "finalizers");

    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetStringValue((cJSON *)item), name) == 0)
            return;
    }
    (void)cJSON_AddItemToArray(list, fake_must(cJSON_CreateString(name)));
}

/* A pod that a kubelet has: it goes when the kubelet has ended it. */
static int64_t grace_of(const struct fake_object *object, const cJSON *options)
{
    const char *phase = hvd_json_str(object->now->doc, "status.phase");

    if (strcmp(object->kind->name, "Pod") != 0 ||
        !hvd_json_str(object->now->doc, "spec.nodeName") ||
        (phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)))
        return 0;
    return hvd_json_int(options, "gracePeriodSeconds",
                        hvd_json_int(object->now->doc, "spec.terminationGracePeriodSeconds", 30));
}

/* Marks the object, or removes it. True when it is gone. */
static bool delete_object(struct fake_server *server, struct fake_object *object,
                          const char *propagation, int64_t grace_s)
{
    const cJSON *old = hvd_json_get(object->now->doc, "metadata");
    bool waits = strcmp(propagation, "Background") != 0;
    bool is_marked = hvd_json_str(old, "deletionTimestamp") != NULL;
    cJSON *doc, *meta;

    if (!waits && grace_s == 0 && cJSON_GetArraySize(hvd_json_get(old, "finalizers")) == 0) {
        fake_remove(&server->store, object);
        return true;
    }
    if (is_marked && grace_s > 0)
        return false;
    doc = fake_must(cJSON_Duplicate(object->now->doc, true));
    meta = fake_object_at(doc, "metadata");
    if (!is_marked)
        set_time(meta, "deletionTimestamp", grace_s);
    fake_set_int(meta, "deletionGracePeriodSeconds", grace_s);
    if (waits)
        add_finalizer(meta, propagation[0] == 'F' ? "foregroundDeletion" : "orphan");
    return !fake_update(&server->store, object, doc, FAKE_PART_BOTH);
}

void fake_delete(struct fake_server *server, struct fake_object *object, const char *propagation)
{
    (void)delete_object(server, object, propagation, grace_of(object, NULL));
}

static bool refuse_delete(struct fake_answer *answer, const struct fake_request *request,
                          const struct fake_object *object)
{
    const char *version = hvd_json_str(request->doc, "preconditions.resourceVersion");
    const char *uid = hvd_json_str(request->doc, "preconditions.uid");
    char why[512];

    if (uid && strcmp(uid, fake_meta(object, "uid")) != 0)
        (void)snprintf(why, sizeof(why),
                       "the UID in the precondition (%.80s) does not match the UID in record "
                       "(%.80s). The object might have been deleted and then recreated",
                       uid, fake_meta(object, "uid"));
    else if (version && strcmp(version, fake_meta(object, "resourceVersion")) != 0)
        (void)snprintf(why, sizeof(why),
                       "the ResourceVersion in the precondition (%.40s) does not match the "
                       "ResourceVersion in record (%.40s). The object might have been modified",
                       version, fake_meta(object, "resourceVersion"));
    else
        return false;
    fake_answer_unmet(answer, request, why);
    return true;
}

void fake_write_delete(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_object *object = find(answer, request);
    const char *propagation = hvd_json_str(request->doc, "propagationPolicy");
    const struct fake_log *log = &request->conn->server->store.logs[fake_kind_index(request->kind)];
    char uid[64];
    bool is_gone;

    if (!object || refuse_delete(answer, request, object))
        return;
    if (!propagation)
        propagation = fake_query(request, "propagationPolicy");
    if (!propagation)
        propagation = strcmp(request->kind->name, "Job") == 0 ? "Orphan" : "Background";
    (void)snprintf(uid, sizeof(uid), "%s", fake_meta(object, "uid"));
    is_gone =
        delete_object(request->conn->server, object, propagation, grace_of(object, request->doc));
    if (!is_gone)
        fake_answer_object(answer, request, 200, object->now);
    else if (request->kind->returns_deleted)
        fake_answer_object(answer, request, 200, log->events[log->n - 1].now);
    else
        fake_answer_deleted(answer, request, uid);
}
