/*
 * Packs projections, of which an operator keeps one for every child and pod there is. A table names
 * the fields of each kind: one that is not in it is lost. Pure.
 *
 *   name \0  group group ...
 *   a group: a byte with a bit for each of up to eight fields, the first the lowest, and behind it
 *            those whose bit is set; the others are false, 0 or NULL, as most of them are
 *   a truth: its bit alone
 *   a number: its bits from the lowest on, seven to a byte, zigzag, the last byte below 128
 *   a string: the number of an equal one that stands before it, or FRESH and its bytes \0
 */
#include "operator/core/view/packed.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum field_type {
    TEXT,
    BOOL,
    INT, /* and enums */
    LONG,
    HASH,
};

struct field {
    uint16_t offset;
    uint8_t type;
};

/* clang-format off */
#define FIELD(type, path) {offsetof(struct hvd_object, path), type}
#define N(fields) (sizeof(fields) / sizeof((fields)[0]))

static const struct field
    of_all[] = {FIELD(TEXT, meta.uid), FIELD(TEXT, meta.resource_version),
                FIELD(TEXT, meta.owner_kind), FIELD(TEXT, meta.owner_name),
                FIELD(TEXT, meta.owner_uid), FIELD(INT, meta.role), FIELD(LONG, meta.created_s),
                FIELD(BOOL, meta.is_deleting), FIELD(LONG, meta.deletion_s),
                FIELD(TEXT, meta.finalizers), FIELD(BOOL, meta.has_owners), FIELD(BOOL, meta.is_in_sight),
                FIELD(INT, meta.lost_labels),
                FIELD(TEXT, meta.made_for), FIELD(INT, meta.noted)},
    of_service[] = {FIELD(BOOL, u.service.is_headless), FIELD(BOOL, u.service.has_address),
                    FIELD(BOOL, u.service.publishes_not_ready),
                    FIELD(BOOL, u.service.selects_job)},
    of_statefulset[] = {FIELD(LONG, u.statefulset.replicas),
                        FIELD(BOOL, u.statefulset.is_on_delete),
                        FIELD(BOOL, u.statefulset.is_shifted), FIELD(BOOL, u.statefulset.is_unseen),
                        FIELD(INT, u.statefulset.altered.field),
                        FIELD(TEXT, u.statefulset.altered.value),
                        FIELD(HASH, u.statefulset.revision),
                        FIELD(LONG, u.statefulset.generation),
                        FIELD(TEXT, u.statefulset.spec_hash)},
    of_configmap[] = {FIELD(HASH, u.configmap.data_hash), FIELD(BOOL, u.configmap.is_immutable),
                    FIELD(BOOL, u.configmap.is_shadowed), FIELD(TEXT, u.configmap.end)},
    of_job[] = {FIELD(INT, u.job.attempt), FIELD(TEXT, u.job.workers),
                FIELD(TEXT, u.job.scaled_down),
                FIELD(HASH, u.job.workers_hash),
                FIELD(BOOL, u.job.is_held), FIELD(INT, u.job.set_by_others),
                FIELD(BOOL, u.job.is_complete), FIELD(BOOL, u.job.is_failed),
                FIELD(LONG, u.job.failed_s), FIELD(TEXT, u.job.message),
                FIELD(BOOL, u.job.is_unseen), FIELD(TEXT, u.job.manager),
                FIELD(INT, u.job.altered.field), FIELD(TEXT, u.job.altered.value)},
    of_podgroup[] = {FIELD(TEXT, u.podgroup.spec_hash), FIELD(HASH, u.podgroup.fields[0]),
                     FIELD(HASH, u.podgroup.fields[1]), FIELD(HASH, u.podgroup.fields[2]),
                     FIELD(HASH, u.podgroup.fields[3]), FIELD(HASH, u.podgroup.fields[4]),
                     FIELD(BOOL, u.podgroup.is_pending)},
    of_pod[] = {FIELD(INT, u.pod.phase), FIELD(BOOL, u.pod.is_orphan),
                FIELD(BOOL, u.pod.is_ready), FIELD(TEXT, u.pod.trouble),
                FIELD(INT, u.pod.stage), FIELD(LONG, u.pod.stage_s), FIELD(TEXT, u.pod.stage_container),
                FIELD(TEXT, u.pod.hosts_seen), FIELD(TEXT, u.pod.reason),
                FIELD(TEXT, u.pod.message), FIELD(TEXT, u.pod.disruption), FIELD(LONG, u.pod.disrupted_s), FIELD(TEXT, u.pod.node),
                FIELD(TEXT, u.pod.ip), FIELD(TEXT, u.pod.topology), FIELD(LONG, u.pod.started_s),
                FIELD(HASH, u.pod.revision), FIELD(LONG, u.pod.deleted_s), FIELD(LONG, u.pod.grace_s),
                FIELD(LONG, u.pod.going_ms), FIELD(BOOL, u.pod.is_killed),
                FIELD(BOOL, u.pod.has_failed), FIELD(BOOL, u.pod.is_init), FIELD(INT, u.pod.exit_code),
                FIELD(INT, u.pod.exit_signal), FIELD(LONG, u.pod.ended_s), FIELD(LONG, u.pod.own_ended_s),
                FIELD(INT, u.pod.restarts), FIELD(TEXT, u.pod.container),
                FIELD(TEXT, u.pod.container_reason), FIELD(TEXT, u.pod.last_line),
                FIELD(TEXT, u.pod.last_lines), FIELD(TEXT, u.pod.memory_limit),
                FIELD(TEXT, u.pod.left), FIELD(LONG, u.pod.deadline_s)};

static const struct {
    const struct field *fields;
    size_t n;
} of_kind[HVD_N_KINDS] = {
    [HVD_KIND_SERVICE] = {of_service, N(of_service)},
    [HVD_KIND_STATEFULSET] = {of_statefulset, N(of_statefulset)},
    [HVD_KIND_CONFIGMAP] = {of_configmap, N(of_configmap)},
    [HVD_KIND_JOB] = {of_job, N(of_job)},
    [HVD_KIND_POD] = {of_pod, N(of_pod)},
    [HVD_KIND_VOLCANO_PODGROUP] = {of_podgroup, N(of_podgroup)},
    [HVD_KIND_PLUGINS_PODGROUP] = {of_podgroup, N(of_podgroup)},
};
/* clang-format on */

_Static_assert(HVD_GANG_FIELDS == 5, "of_podgroup names each");

#define FRESH 126
#define KNOWN 7 /* strings before the first field */
#define TEXTS_MAX 64
#define GROUP 8 /* fields */

/* Each field may be a string, and the largest kind has room in both arrays. */
#define FIELDS_MAX (N(of_all) + N(of_pod))
_Static_assert(N(of_pod) >= N(of_job) && N(of_pod) >= N(of_statefulset) &&
                   N(of_pod) >= N(of_podgroup) && N(of_pod) >= N(of_service) &&
                   N(of_pod) >= N(of_configmap),
               "FIELDS_MAX is of the largest kind");
_Static_assert(KNOWN + FIELDS_MAX <= TEXTS_MAX && TEXTS_MAX < FRESH, "texts have room");
_Static_assert(3 + FIELDS_MAX <= HVD_OBJECT_TEXTS_MAX, "the texts of an object have room");

/* The strings that were met so far. */
struct seen {
    const char *texts[TEXTS_MAX];
    size_t n;
};

static void see(struct seen *seen, const char *text)
{
    seen->texts[seen->n++] = text;
}

/* Begins with the strings that are known before the first field is read. */
static struct seen begin(const char *name, const char *namespace, const char *job)
{
    struct seen seen = {.n = 0};

    see(&seen, name);
    see(&seen, namespace);
    see(&seen, job);
    see(&seen, "HorovodJob");
    see(&seen, "StatefulSet");
    see(&seen, "Job");
    see(&seen, "worker");
    return seen;
}

/* ---- packing ---- */

/* Counts the bytes, and writes them while there is room. */
struct writer {
    char *out;
    size_t room;
    size_t n;
};

static void put_byte(struct writer *w, unsigned byte)
{
    if (w->n < w->room)
        w->out[w->n] = (char)byte;
    w->n++;
}

static void put_bytes(struct writer *w, const char *text, size_t n)
{
    if (w->n <= w->room && n <= w->room - w->n)
        memcpy(w->out + w->n, text, n);
    w->n += n;
}

static void put_number(struct writer *w, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        put_byte(w, (unsigned)(number & 127) | 128);
    put_byte(w, (unsigned)number);
}

static void put_signed(struct writer *w, int64_t number)
{
    put_number(w, number < 0 ? ~((uint64_t)number << 1) : (uint64_t)number << 1);
}

static bool is_same(const char *seen, const char *text)
{
    return seen && *seen == *text && strcmp(seen, text) == 0;
}

static void put_text(struct writer *w, struct seen *seen, const char *text)
{
    size_t same = 0;

    while (same < seen->n && !is_same(seen->texts[same], text))
        same++;
    if (same < seen->n) {
        put_byte(w, (unsigned)same);
        return;
    }
    see(seen, text);
    put_byte(w, FRESH);
    put_bytes(w, text, strlen(text) + 1);
}

static void put_field(struct writer *w, struct seen *seen, const struct field *field,
                      const struct hvd_object *object)
{
    const void *at = (const char *)object + field->offset;

    switch ((enum field_type)field->type) {
    case TEXT:
        put_text(w, seen, *(char *const *)at);
        break;
    case BOOL:
        break;
    case INT:
        put_signed(w, *(const int32_t *)at);
        break;
    case LONG:
        put_signed(w, *(const int64_t *)at);
        break;
    case HASH:
        put_number(w, *(const uint64_t *)at);
        break;
    }
}

static bool is_set(const struct field *field, const struct hvd_object *object)
{
    const void *at = (const char *)object + field->offset;

    switch ((enum field_type)field->type) {
    case TEXT:
        return *(char *const *)at != NULL;
    case BOOL:
        return *(const bool *)at;
    case INT:
        return *(const int32_t *)at != 0;
    case LONG:
        return *(const int64_t *)at != 0;
    case HASH:
        break;
    }
    return *(const uint64_t *)at != 0;
}

static void put_fields(struct writer *w, struct seen *seen, const struct field *fields, size_t n,
                       const struct hvd_object *object)
{
    for (size_t at = 0; at < n; at += GROUP) {
        unsigned bits = 0;

        for (size_t i = at; i < n && i < at + GROUP; i++)
            bits |= (unsigned)is_set(&fields[i], object) << (i - at);
        put_byte(w, bits);
        for (size_t i = at; i < n && i < at + GROUP; i++) {
            if (bits >> (i - at) & 1)
                put_field(w, seen, &fields[i], object);
        }
    }
}

size_t hvd_packed_pack(const struct hvd_object *object, char *out, size_t room)
{
    const struct hvd_meta *meta = &object->meta;
    struct seen seen = begin(meta->name, meta->namespace, meta->job);
    struct writer w = {out, room, 0};

    put_bytes(&w, meta->name, strlen(meta->name) + 1);
    put_fields(&w, &seen, of_all, N(of_all), object);
    put_fields(&w, &seen, of_kind[object->kind].fields, of_kind[object->kind].n, object);
    return w.n;
}

/* ---- unpacking ---- */

static uint64_t get_number(const char **at)
{
    uint64_t number = 0;
    unsigned char byte;

    for (unsigned shift = 0;; shift += 7) {
        byte = (unsigned char)*(*at)++;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
}

static int64_t get_signed(const char **at)
{
    uint64_t number = get_number(at);

    return (int64_t)(number & 1 ? ~(number >> 1) : number >> 1);
}

static char *get_text(const char **at, struct seen *seen)
{
    unsigned code = (unsigned char)*(*at)++;
    const char *text = *at;

    if (code != FRESH)
        return (char *)seen->texts[code];
    see(seen, text);
    *at += strlen(text) + 1;
    return (char *)text;
}

static void get_field(const char **at, struct seen *seen, const struct field *field,
                      struct hvd_object *object)
{
    void *to = (char *)object + field->offset;

    switch ((enum field_type)field->type) {
    case TEXT:
        *(char **)to = get_text(at, seen);
        break;
    case BOOL:
        *(bool *)to = true;
        break;
    case INT:
        *(int32_t *)to = (int32_t)get_signed(at);
        break;
    case LONG:
        *(int64_t *)to = get_signed(at);
        break;
    case HASH:
        *(uint64_t *)to = get_number(at);
        break;
    }
}

/* Reads the fields whose bits are set; the object is zeroed. */
static void get_fields(const char **at, struct seen *seen, const struct field *fields, size_t n,
                       struct hvd_object *object)
{
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++, bits >>= 1) {
        if (i % GROUP == 0)
            bits = (unsigned char)*(*at)++;
        if (bits & 1)
            get_field(at, seen, &fields[i], object);
    }
}

void hvd_packed_unpack(const char *packed, const struct hvd_packed_key *key, struct hvd_object *out)
{
    struct seen seen = begin(packed, key->namespace, key->job);
    const char *at = packed + strlen(packed) + 1;

    *out = (struct hvd_object){.kind = key->kind};
    out->meta.name = (char *)packed;
    out->meta.namespace = (char *)key->namespace;
    out->meta.job = (char *)key->job;
    get_fields(&at, &seen, of_all, N(of_all), out);
    get_fields(&at, &seen, of_kind[key->kind].fields, of_kind[key->kind].n, out);
}

/* ---- the strings ---- */

static size_t add_texts(struct hvd_object *object, const struct field *fields, size_t n,
                        char **out[])
{
    size_t n_texts = 0;

    for (size_t i = 0; i < n; i++)
        if (fields[i].type == TEXT)
            out[n_texts++] = (char **)((char *)object + fields[i].offset);
    return n_texts;
}

size_t hvd_packed_texts(struct hvd_object *object, char **out[HVD_OBJECT_TEXTS_MAX])
{
    size_t n = 0;

    out[n++] = &object->meta.name;
    out[n++] = &object->meta.namespace;
    out[n++] = &object->meta.job;
    n += add_texts(object, of_all, N(of_all), out + n);
    return n + add_texts(object, of_kind[object->kind].fields, of_kind[object->kind].n, out + n);
}
