/*
 * Every kind of child from the API server, whatever it holds: projected or refused, without regard
 * to whether all of it is parsed or only what is read of it; and the same after it was packed.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/core/observe/observe.h"
#include "operator/core/view/packed.h"
#include "tests/fuzz/fuzz.h"

static void add(struct hvd_buf *out, const char *text)
{
    MUST(hvd_buf_printf(out, "%s%s\n", text ? "=" : "", text ? text : "") == HVD_OK);
}

static void add_number(struct hvd_buf *out, int64_t number)
{
    MUST(hvd_buf_printf(out, "%" PRId64 "\n", number) == HVD_OK);
}

static void add_meta(struct hvd_buf *out, const struct hvd_meta *meta)
{
    const char *const texts[] = {meta->namespace,  meta->name,      meta->uid,
                                 meta->job,        meta->owner_uid, meta->resource_version,
                                 meta->owner_kind, meta->owner_name};

    MUST(meta->namespace && meta->name && meta->uid);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        add(out, texts[i]);
    add_number(out, (int64_t)meta->role);
    add_number(out, meta->created_s);
    add_number(out, meta->is_deleting + 2 * meta->is_in_sight + 4 * meta->has_owners +
                        8 * meta->lost_labels);
}

static void add_pod(struct hvd_buf *out, const struct hvd_pod_view *pod)
{
    const char *const texts[] = {pod->trouble,   pod->hosts_seen, pod->reason,
                                 pod->message,   pod->disruption, pod->node,
                                 pod->ip,        pod->topology,   pod->container,
                                 pod->last_line, pod->last_lines, pod->container_reason};
    const int64_t numbers[] = {(int64_t)pod->phase, pod->is_ready,   pod->started_s, pod->deleted_s,
                               pod->is_killed,      pod->has_failed, pod->exit_code, pod->restarts,
                               pod->exit_signal,    pod->ended_s};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        add(out, texts[i]);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        add_number(out, numbers[i]);
}

static void add_child(struct hvd_buf *out, const struct hvd_object *object)
{
    switch (object->kind) {
    case HVD_KIND_SERVICE:
        add_number(out, object->u.service.is_headless + 2 * object->u.service.selects_job +
                            4 * object->u.service.publishes_not_ready +
                            8 * object->u.service.has_address);
        break;
    case HVD_KIND_STATEFULSET:
        add_number(out, object->u.statefulset.replicas);
        add_number(out, object->u.statefulset.is_shifted + 2 * object->u.statefulset.is_on_delete);
        add(out, object->u.statefulset.spec_hash);
        break;
    case HVD_KIND_CONFIGMAP:
        add_number(out, (int64_t)object->u.configmap.data_hash);
        add_number(out, object->u.configmap.is_shadowed + 2 * object->u.configmap.is_immutable);
        break;
    case HVD_KIND_JOB:
        add_number(out, object->u.job.attempt);
        add(out, object->u.job.workers);
        add_number(out, object->u.job.is_complete + 2 * object->u.job.is_failed +
                            4 * object->u.job.is_held);
        add_number(out, object->u.job.set_by_others);
        add_number(out, object->u.job.failed_s);
        add(out, object->u.job.message);
        break;
    case HVD_KIND_POD:
        add_pod(out, &object->u.pod);
        break;
    case HVD_KIND_VOLCANO_PODGROUP:
    case HVD_KIND_PLUGINS_PODGROUP:
        add(out, object->u.podgroup.spec_hash);
        add_number(out, object->u.podgroup.is_pending);
        for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
            add_number(out, (int64_t)object->u.podgroup.fields[i]);
        break;
    default:
        break;
    }
}

/* An object is told in the same way when it was packed. */
static void check_packed(const struct hvd_object *object, const struct hvd_buf *told)
{
    const struct hvd_packed_key place = {object->kind, object->meta.namespace, object->meta.job};
    size_t n = hvd_packed_pack(object, NULL, 0);
    char *packed = malloc(n);
    struct hvd_object unpacked;
    struct hvd_buf again;

    MUST(packed && hvd_packed_pack(object, packed, n) == n);
    hvd_packed_unpack(packed, &place, &unpacked);
    hvd_buf_init(&again, (size_t)16 << 20);
    add_meta(&again, &unpacked.meta);
    add_child(&again, &unpacked);
    MUST(again.len == told->len && memcmp(again.data, told->data, told->len) == 0);
    hvd_buf_fini(&again);
    free(packed);
}

/* All that is observed of the document as a text; empty when it is refused. */
static void tell(enum hvd_kind kind, const cJSON *document, struct hvd_buf *out)
{
    struct hvd_object object;
    struct hvd_err err = {0};

    hvd_buf_init(out, (size_t)16 << 20);
    if (hvd_observe(kind, document, &object, &err) != HVD_OK) {
        MUST(err.msg[0]);
        return;
    }
    add_meta(out, &object.meta);
    add_child(out, &object);
    check_packed(&object, out);
    hvd_observe_object_fini(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_buf whole, read;

    if (size < 1)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    hvd_json_use_base_memory();
    /* To its end, as the scanner: cJSON alone accepts what follows a document. */
    cJSON *strict = cJSON_ParseWithLengthOpts(text, size, NULL, true), *document = NULL;
    if (strict && hvd_json_parse(text, &document) != HVD_OK)
        document = NULL;
    cJSON_Delete(strict);
    const enum hvd_kind kind = (enum hvd_kind)(data[0] % HVD_N_KINDS);
    cJSON *parts = NULL;
    const hvd_status_t st = hvd_object_read(kind, (struct hvd_strview){text, size - 1}, &parts);
    MUST(!document || st == HVD_OK || fuzz_has_control(text, size - 1));
    if (document && st == HVD_OK && !hvd_object_trouble(parts)) {
        tell(kind, document, &whole);
        tell(kind, parts, &read);
        /* Nothing is read of events. Keys written with escapes or zero bytes are not looked for. */
        MUST(kind == HVD_KIND_EVENT || memchr(text, '\\', size - 1) ||
             memchr(text, '\0', size - 1) ||
             (whole.len == read.len &&
              (whole.len == 0 || memcmp(whole.data, read.data, whole.len) == 0)));
        hvd_buf_fini(&whole);
        hvd_buf_fini(&read);
    }
    hvd_json_drop(parts);
    cJSON_Delete(document);
    free(text);
    return 0;
}
