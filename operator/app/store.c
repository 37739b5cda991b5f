/*
 * The cache. Records (one per child or pod) are found by kind, namespace and name and belong to the
 * entry of their job. The entry is what the queue holds and reconcile sees. Resource versions are
 * compared as numbers, so that a late watch event does not undo the answer to our own write. Pure
 * but for the allocator.
 */
#include "operator/app/store.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/version.h"
#include "operator/app/history.h"
#include "operator/core/children/owner.h"
#include "operator/core/observe/observe.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/view/packed.h"
#include "operator/core/writes/kept.h"
#include "operator/core/writes/repair.h"

struct hvd_record {
    struct hvd_index_node node;
    struct hvd_entry *entry;
    uint32_t at; /* among the entry's records */
    uint32_t n;  /* bytes of the object */
    unsigned round;
    uint8_t kind;
    bool is_seen : 1;     /* the job was reconciled since the object changed */
    bool is_retired : 1;  /* gone, and out of the index, but not seen yet */
    bool is_doubtful : 1; /* its watch no longer shows it */
    bool is_stale : 1;    /* its version belongs to a history that the server has lost */
    char packed[];        /* the object */
};

static struct hvd_entry *entry_at(const struct hvd_index_node *node)
{
    return node ? (struct hvd_entry *)((char *)node - offsetof(struct hvd_entry, node)) : NULL;
}

static struct hvd_record *record_at(const struct hvd_index_node *node)
{
    return node ? (struct hvd_record *)((char *)node - offsetof(struct hvd_record, node)) : NULL;
}

static struct hvd_index_key key_of_entry(const struct hvd_index_node *node)
{
    const char *ns =
        (const char *)node - offsetof(struct hvd_entry, node) + offsetof(struct hvd_entry, _texts);

    return (struct hvd_index_key){HVD_KIND_HOROVODJOB, ns, ns + strlen(ns) + 1};
}

static struct hvd_index_key key_of_record(const struct hvd_index_node *node)
{
    const struct hvd_record *record = record_at(node);

    return (struct hvd_index_key){record->kind, record->entry->_texts, record->packed};
}

static void unpack(const struct hvd_record *record, struct hvd_object *out)
{
    const char *ns = record->entry->_texts;
    const struct hvd_packed_key key = {(enum hvd_kind)record->kind, ns, ns + strlen(ns) + 1};

    hvd_packed_unpack(record->packed, &key, out);
    out->meta.is_doubtful = record->is_doubtful;
    if (record->is_retired)
        out->u.pod.is_ready = false;
}

void hvd_store_init(struct hvd_store *store, struct hvd_queue *queue, hvd_store_changed_fn changed,
                    void *ctx)
{
    *store = (struct hvd_store){.entries = {.key_of = key_of_entry},
                                .records = {.key_of = key_of_record},
                                .queue = queue,
                                .changed = changed,
                                .ctx = ctx};
}

static struct hvd_entry *find_entry(const struct hvd_store *store, const char *ns, const char *name)
{
    const struct hvd_index_key key = {HVD_KIND_HOROVODJOB, ns, name};

    return entry_at(hvd_index_find(&store->entries, &key));
}

void hvd_store_told(struct hvd_store *store, enum hvd_kind kind, const char *version)
{
    unsigned long long number = hvd_version_number(version);

    if (number > store->told[kind])
        store->told[kind] = number;
}

/* Whether an unknown object of that version must have ended already. */
static bool is_over(const struct hvd_store *store, enum hvd_kind kind, const char *version)
{
    unsigned long long number = hvd_version_number(version);

    return number && number <= store->told[kind];
}

static void touch(struct hvd_store *store, struct hvd_entry *entry)
{
    store->changed(store->ctx, entry);
}

/* ---- entries ---- */

struct hvd_entry *hvd_store_entry_of(struct hvd_queue_item *item)
{
    return (struct hvd_entry *)((char *)item - offsetof(struct hvd_entry, item));
}

struct hvd_entry *hvd_store_next(const struct hvd_store *store, struct hvd_entry *entry)
{
    return entry_at(entry ? hvd_index_next(&store->entries, &entry->node)
                          : hvd_index_first(&store->entries));
}

static void count_job(struct hvd_store *store, const struct hvd_entry *entry, bool is_added)
{
    const enum hvd_job_state state = entry->job.status.state;
    const size_t one = is_added ? 1 : (size_t)-1;

    if (!entry->has_job || (unsigned)state >= HVD_N_JOB_STATES)
        return;
    store->n_by_state[state] += one;
    if (!entry->job.spec.is_foreign && (state <= HVD_JOB_STARTING || state == HVD_JOB_RESTARTING))
        store->n_starting += one;
}

/* Drops the entry's job. */
static void drop_job(struct hvd_store *store, struct hvd_entry *entry)
{
    count_job(store, entry, false);
    store->n_stray += entry->has_job ? entry->n_objects : 0;
    hvd_specs_drop(store, entry);
    hvd_slab_give(&store->slab, entry->job_block, entry->job_size);
    entry->job = (struct hvd_job){0};
    entry->job_block = NULL;
    entry->job_size = 0;
    entry->has_job = false;
}

static size_t size_of_entry(size_t n_ns, size_t n_name)
{
    return sizeof(struct hvd_entry) + 2 * (n_ns + n_name);
}

static void drop_entry(struct hvd_store *store, struct hvd_entry *entry)
{
    const char *name = entry->_texts + strlen(entry->_texts) + 1;

    hvd_slab_give(&store->slab, entry,
                  size_of_entry((size_t)(name - entry->_texts), strlen(name) + 1));
}

static size_t size_of_list(size_t capacity)
{
    return capacity * sizeof(struct hvd_record *);
}

static void free_entry(struct hvd_store *store, struct hvd_entry *entry)
{
    hvd_index_remove(&store->entries, &entry->node);
    hvd_queue_forget(store->queue, &entry->item);
    hvd_waiters_unlink(entry);
    drop_job(store, entry);
    hvd_notes_drop_failures(entry);
    hvd_notes_drop_gone(entry);
    hvd_repairs_fini(&entry->repairs);
    hvd_notes_drop_lost(entry);
    hvd_slab_give(&store->slab, entry->records, size_of_list(entry->capacity));
    drop_entry(store, entry);
}

bool hvd_store_collect(struct hvd_store *store, struct hvd_entry *entry)
{
    if (entry->has_job || entry->n_objects)
        return false;
    free_entry(store, entry);
    return true;
}

static struct hvd_entry *new_entry(struct hvd_store *store, const char *ns, const char *name)
{
    size_t n_ns = strlen(ns) + 1, n_name = strlen(name) + 1;
    struct hvd_entry *entry = hvd_slab_take(&store->slab, size_of_entry(n_ns, n_name));

    if (!entry)
        return NULL;
    *entry = (struct hvd_entry){.repairs.slab = &store->slab};
    memcpy(entry->_texts, ns, n_ns);
    memcpy(entry->_texts + n_ns, name, n_name);
    entry->key = entry->_texts + n_ns + n_name;
    (void)snprintf(entry->_texts + n_ns + n_name, n_ns + n_name, "%s/%s", ns, name);
    return entry;
}

/* The entry of the job, created when there is none. NULL: out of memory. */
static struct hvd_entry *get_entry(struct hvd_store *store, const char *ns, const char *name)
{
    struct hvd_entry *entry = find_entry(store, ns, name);

    if (entry)
        return entry;
    entry = new_entry(store, ns, name);
    if (!entry)
        return NULL;
    if (hvd_index_add(&store->entries, &entry->node) != HVD_OK) {
        drop_entry(store, entry);
        return NULL;
    }
    if (hvd_queue_reserve(store->queue) != HVD_OK) {
        hvd_index_remove(&store->entries, &entry->node);
        drop_entry(store, entry);
        return NULL;
    }
    return entry;
}

/* ---- jobs ---- */

static void drop_foreign(struct hvd_store *store, struct hvd_entry *entry);

/* The source of an object. */
enum source {
    OF_WATCH,
    OF_ANSWER, /* to a request of ours */
    OF_READ,   /* likewise, for the text of a spec */
};

/* Whether the entry has that version of the job, or a newer one. */
static bool knows_job(const struct hvd_entry *entry, const struct hvd_job *job)
{
    return entry->has_job && !entry->is_stale &&
           (hvd_str_equal(entry->job.resource_version, job->resource_version) ||
            hvd_version_is_older(job->resource_version, entry->job.resource_version));
}

/* Replaces the known job; *job is moved from. */
static hvd_status_t take_job(struct hvd_store *store, struct hvd_entry *entry, struct hvd_job *job)
{
    const bool is_first = !entry->has_job;
    size_t size = hvd_job_size(job);
    void *block;

    entry->job_round = store->rounds[HVD_KIND_HOROVODJOB];
    if (knows_job(entry, job)) {
        hvd_job_fini(job);
        return HVD_OK;
    }
    block = size <= UINT32_MAX ? hvd_slab_take(&store->slab, size) : NULL;
    if (!block)
        return HVD_ERR_NOMEM;
    if (!entry->has_job || !hvd_str_equal(entry->job.uid, job->uid))
        hvd_notes_drop_failures(entry);
    else if (entry->job.generation != job->generation)
        hvd_notes_drop_failures_of_spec(entry);
    if (!hvd_str_equal(entry->job.uid, job->uid))
        hvd_notes_drop_lost(entry);
    else if (!entry->is_stale && store->replaced)
        store->replaced(store->ctx, &entry->job, job);
    drop_job(store, entry);
    hvd_job_move(job, block, &entry->job);
    entry->job_block = block;
    entry->job_size = (uint32_t)size;
    entry->has_job = true;
    entry->is_stale = false;
    store->n_stray -= entry->n_objects;
    count_job(store, entry, true);
    if (is_first)
        drop_foreign(store, entry);
    touch(store, entry);
    return HVD_OK;
}

/* Files the job and the text of its spec, which is stored apart. *job is moved from. */
static hvd_status_t file_job(struct hvd_store *store, struct hvd_job *job, enum source source)
{
    struct hvd_entry *entry = get_entry(store, job->namespace, job->name);
    char *text = job->spec.text;
    bool is_new, is_wanted;
    hvd_status_t st;

    if (!entry)
        return HVD_ERR_NOMEM;
    is_new = !knows_job(entry, job);
    /* Another spec has another generation. */
    is_wanted = is_new || (source == OF_READ && entry->job.generation == job->generation &&
                           hvd_str_equal(entry->job.uid, job->uid));
    job->spec.text = NULL;
    st = take_job(store, entry, job);
    if (st == HVD_OK && is_wanted)
        st = hvd_specs_hold(store, entry, text, source == OF_READ);
    hvd_free(text);
    if (st != HVD_OK)
        touch(store, entry); /* this ends it if it is empty */
    return st;
}

static hvd_status_t put_job(struct hvd_store *store, const cJSON *object, enum source source,
                            struct hvd_err *err)
{
    struct hvd_job job = {0};
    const struct hvd_entry *entry;
    hvd_status_t st = hvd_job_decode(object, &job, err);

    if (st != HVD_OK)
        return st;
    entry = find_entry(store, job.namespace, job.name);
    if (source != OF_WATCH && (!entry || !entry->has_job) &&
        is_over(store, HVD_KIND_HOROVODJOB, job.resource_version)) {
        hvd_job_fini(&job);
        return HVD_OK;
    }
    if (entry && entry->lost && hvd_str_equal(entry->job.uid, job.uid))
        st = hvd_kept_decode(object, entry->lost, &job, err);
    if (st == HVD_OK)
        st = file_job(store, &job, source);
    if (st != HVD_OK)
        hvd_err_set(err, st, 0, "a HorovodJob: out of memory");
    hvd_job_fini(&job);
    return st;
}

static void remove_job(struct hvd_store *store, struct hvd_entry *entry)
{
    drop_job(store, entry);
    entry->is_foreign_told = false;
    entry->status_written_ms = 0;
    hvd_notes_drop_failures(entry);
    hvd_notes_drop_gone(entry);
    hvd_repairs_fini(&entry->repairs);
    hvd_notes_drop_lost(entry);
    drop_foreign(store, entry);
    touch(store, entry);
}

/* ---- children and pods ---- */

static size_t size_of(size_t n_packed)
{
    return offsetof(struct hvd_record, packed) + n_packed;
}

static void unlink_record(struct hvd_store *store, struct hvd_record *record)
{
    struct hvd_entry *entry = record->entry;
    struct hvd_record *last = entry->records[--entry->n_objects];

    store->n_stray -= !entry->has_job;
    last->at = record->at;
    entry->records[last->at] = last;
}

static hvd_status_t grow_list(struct hvd_store *store, struct hvd_entry *entry)
{
    uint32_t capacity = entry->capacity < 32 ? entry->capacity + 4 : entry->capacity * 2;
    struct hvd_record **grown = hvd_slab_take(&store->slab, size_of_list(capacity));

    if (!grown)
        return HVD_ERR_NOMEM;
    if (entry->n_objects)
        memcpy(grown, entry->records, size_of_list(entry->n_objects));
    hvd_slab_give(&store->slab, entry->records, size_of_list(entry->capacity));
    entry->records = grown;
    entry->capacity = capacity;
    return HVD_OK;
}

static hvd_status_t link_record(struct hvd_store *store, struct hvd_record *record,
                                struct hvd_entry *entry)
{
    if (entry->n_objects == entry->capacity && grow_list(store, entry) != HVD_OK)
        return HVD_ERR_NOMEM;
    record->at = entry->n_objects;
    record->entry = entry;
    entry->records[entry->n_objects++] = record;
    store->n_stray += !entry->has_job;
    return HVD_OK;
}

static void drop_record(struct hvd_store *store, struct hvd_record *record)
{
    if (record)
        hvd_slab_give(&store->slab, record, size_of(record->n));
}

static void free_record(struct hvd_store *store, struct hvd_record *record)
{
    unlink_record(store, record);
    if (!record->is_retired)
        hvd_index_remove(&store->records, &record->node);
    drop_record(store, record);
}

/* Whether a worker has an outcome that no pass has read: a StatefulSet replaces it within
 * milliseconds. */
static bool has_unread_outcome(const struct hvd_store *store, const struct hvd_record *record)
{
    struct hvd_object object;

    if (!store->keeps_ends || record->is_seen || record->kind != HVD_KIND_POD)
        return false;
    unpack(record, &object);
    return object.meta.role == HVD_ROLE_WORKER &&
           (object.u.pod.phase == HVD_POD_FAILED || object.u.pod.has_failed ||
            object.u.pod.disruption);
}

static void retire_record(struct hvd_store *store, struct hvd_record *record)
{
    hvd_index_remove(&store->records, &record->node);
    record->is_retired = true;
    touch(store, record->entry);
}

/* Frees the record of an object that no longer exists; jobs may wait for its name. */
static void end_record(struct hvd_store *store, struct hvd_record *record)
{
    if (record->kind != HVD_KIND_POD)
        hvd_waiters_wake(store, record->kind, record->entry->_texts, record->packed);
    free_record(store, record);
}

static void remove_record(struct hvd_store *store, struct hvd_record *record)
{
    struct hvd_entry *entry = record->entry;

    if (has_unread_outcome(store, record)) {
        retire_record(store, record);
        return;
    }
    end_record(store, record);
    touch(store, entry);
}

void hvd_store_looked(struct hvd_store *store, struct hvd_entry *entry)
{
    bool is_changed = false;

    for (size_t i = entry->n_objects; i > 0; i--) {
        struct hvd_record *record = entry->records[i - 1];

        record->is_seen = true;
        if (!record->is_retired && (entry->has_job || !record->is_doubtful))
            continue;
        end_record(store, record);
        is_changed = true;
    }
    if (is_changed)
        touch(store, entry);
}

static struct hvd_record *find_record(const struct hvd_store *store, enum hvd_kind kind,
                                      const char *ns, const char *name)
{
    const struct hvd_index_key key = {kind, ns, name};

    return record_at(hvd_index_find(&store->records, &key));
}

const struct hvd_object *hvd_store_find(struct hvd_store *store, enum hvd_kind kind, const char *ns,
                                        const char *name)
{
    const struct hvd_record *record = find_record(store, kind, ns, name);

    if (!record)
        return NULL;
    unpack(record, &store->found);
    return &store->found;
}

const struct hvd_object **hvd_store_entry_objects(const struct hvd_entry *entry)
{
    const size_t n = entry->n_objects;
    const struct hvd_object **objects =
        hvd_malloc(n + 1, sizeof(void *) + sizeof(struct hvd_object));
    struct hvd_object *object = (struct hvd_object *)(objects + n);

    for (size_t i = 0; i < n && objects; i++) {
        unpack(entry->records[i], &object[i]);
        objects[i] = &object[i];
    }
    return objects;
}

bool hvd_store_entry_has(const struct hvd_entry *entry, enum hvd_kind kind)
{
    for (size_t i = 0; i < entry->n_objects; i++) {
        if (entry->records[i]->kind == kind)
            return true;
    }
    return false;
}

bool hvd_store_entry_any(const struct hvd_entry *entry, hvd_entry_is_one_fn is_one)
{
    bool is_found = false;

    for (size_t i = 0; i < entry->n_objects && !is_found; i++) {
        struct hvd_object object;

        unpack(entry->records[i], &object);
        is_found = is_one(&object);
    }
    return is_found;
}

bool hvd_store_entry_may_start(const struct hvd_entry *entry)
{
    const struct hvd_job_spec *spec = &entry->job.spec;
    int64_t n_missing = 0;

    for (size_t i = 0; i < spec->n_groups; i++)
        n_missing += spec->groups[i].n_enough;
    for (size_t i = 0; i < entry->n_objects && n_missing > 0; i++) {
        struct hvd_object object;

        if (entry->records[i]->kind != HVD_KIND_POD)
            continue;
        unpack(entry->records[i], &object);
        n_missing -= object.u.pod.is_ready;
    }
    return n_missing <= 0;
}

/* A child of ours that appears ends the conflict about its name; a pod, the cause that kept it from
 * being made. */
static void drop_failure_of_ours(struct hvd_entry *entry, const struct hvd_object *object)
{
    if (object->kind == HVD_KIND_POD)
        hvd_notes_drop_answer(entry, object->meta.owner_uid);
    if (entry->has_job && object->kind != HVD_KIND_POD && hvd_owner_is_job(&entry->job, object))
        hvd_notes_drop_failure(entry, object->kind, object->meta.name);
}

static struct hvd_record *new_record(struct hvd_store *store, const struct hvd_object *object)
{
    char room[1024]; /* enough in most cases */
    size_t n = hvd_packed_pack(object, room, sizeof(room));
    struct hvd_record *record = n < UINT32_MAX ? hvd_slab_take(&store->slab, size_of(n)) : NULL;

    if (!record)
        return NULL;
    *record = (struct hvd_record){.kind = (uint8_t)object->kind, .n = (uint32_t)n};
    if (n <= sizeof(room))
        memcpy(record->packed, room, n);
    else
        (void)hvd_packed_pack(object, record->packed, n);
    return record;
}

/* Creates a record and files it under its job. */
static hvd_status_t add_record(struct hvd_store *store, const struct hvd_object *object,
                               struct hvd_record **out)
{
    const struct hvd_meta *meta = &object->meta;
    struct hvd_entry *entry = get_entry(store, meta->namespace, meta->job);
    struct hvd_record *record = entry ? new_record(store, object) : NULL;
    hvd_status_t st = record ? link_record(store, record, entry) : HVD_ERR_NOMEM;

    if (st == HVD_OK) {
        st = hvd_index_add(&store->records, &record->node);
        if (st != HVD_OK)
            unlink_record(store, record);
    }
    if (st != HVD_OK) {
        drop_record(store, record);
        if (entry)
            (void)hvd_store_collect(store, entry);
        return st;
    }
    drop_failure_of_ours(entry, object);
    hvd_notes_unnote_gone(entry, object->kind, object->meta.name);
    *out = record;
    return HVD_OK;
}

/* Replaces a record by another of the same name. */
static void replace_record(struct hvd_store *store, struct hvd_record *old,
                           struct hvd_record *record)
{
    record->entry = old->entry;
    record->at = old->at;
    record->round = old->round;
    record->entry->records[record->at] = record;
    if (!record->is_retired)
        hvd_index_replace(&store->records, &old->node, &record->node);
    drop_record(store, old);
}

/* Records a change of the object. */
static hvd_status_t change_record(struct hvd_store *store, struct hvd_record *old,
                                  const struct hvd_object *object)
{
    struct hvd_record *record = new_record(store, object);

    if (!record)
        return HVD_ERR_NOMEM;
    replace_record(store, old, record);
    touch(store, record->entry);
    return HVD_OK;
}

/* Whether the object is the known version, or an older one of that name. */
static bool is_known(const struct hvd_meta *known, const struct hvd_meta *meta)
{
    return hvd_str_equal(known->resource_version, meta->resource_version) ||
           hvd_version_is_older(meta->resource_version, known->resource_version);
}

/* The watch shows a missing object again. */
static void trust_record(struct hvd_store *store, struct hvd_record *record)
{
    if (!record->is_doubtful)
        return;
    record->is_doubtful = false;
    touch(store, record->entry);
}

/* Whether the controller has the kind of our objects' controllers. */
static bool has_our_kind_of_owner(enum hvd_kind kind, const char *owner_kind)
{
    if (kind == HVD_KIND_POD)
        return hvd_str_equal(owner_kind, hvd_kind_info(HVD_KIND_STATEFULSET)->kind) ||
               hvd_str_equal(owner_kind, hvd_kind_info(HVD_KIND_JOB)->kind);
    return hvd_str_equal(owner_kind, hvd_kind_info(HVD_KIND_HOROVODJOB)->kind);
}

/* Whether it is a master's Job or a StatefulSet without a controller that was made for a job of
 * ours, according to its template. */
static bool is_released(const struct hvd_object *object)
{
    return (object->kind == HVD_KIND_JOB || object->kind == HVD_KIND_STATEFULSET) &&
           !object->meta.owner_kind && object->meta.made_for;
}

/*
 * Anybody may give an object our labels and an owner reference, so other objects must cost nothing.
 * Without a controlling job, only objects in the way of an existing job are filed. Of a job's own,
 * only its parts are filed, with sets of former groups, which must be removed. Before its job
 * exists, an object's owner reference is believed. Pods that the job's StatefulSet would adopt
 * stay, and so do objects that lost their owner: no watch would report them again, and an answer
 * counts as older than the watch.
 */
static bool is_of_interest(const struct hvd_store *store, const struct hvd_object *object)
{
    const struct hvd_meta *meta = &object->meta;
    const struct hvd_entry *entry =
        meta->job ? find_entry(store, meta->namespace, meta->job) : NULL;
    const bool has_job = entry && entry->has_job;

    if (!meta->job)
        return false;
    if (object->kind == HVD_KIND_POD)
        return has_job || object->u.pod.is_orphan || hvd_look_is_adoptable(object) ||
               has_our_kind_of_owner(object->kind, meta->owner_kind);
    if (!has_job)
        return has_our_kind_of_owner(object->kind, meta->owner_kind) || is_released(object);
    return hvd_owner_has_name(&entry->job, object->kind, meta->name) ||
           (object->kind == HVD_KIND_STATEFULSET && hvd_owner_is_job(&entry->job, object));
}

/* Drops objects that were in the way of a former job, or were believed until this one came. */
static void drop_foreign(struct hvd_store *store, struct hvd_entry *entry)
{
    struct hvd_object object;

    for (size_t i = entry->n_objects; i > 0; i--) {
        unpack(entry->records[i - 1], &object);
        if (!is_of_interest(store, &object))
            free_record(store, entry->records[i - 1]);
    }
}

/* Files the object. */
static hvd_status_t take_object(struct hvd_store *store, const struct hvd_object *object)
{
    const struct hvd_meta *meta = &object->meta;
    struct hvd_record *record = find_record(store, object->kind, meta->namespace, meta->name);
    const bool is_wanted = is_of_interest(store, object);
    struct hvd_object known;
    hvd_status_t st;

    if (record) {
        bool is_same;

        unpack(record, &known);
        record->round = store->rounds[object->kind];
        if (!record->is_stale && is_known(&known.meta, meta)) {
            if (!hvd_version_is_older(meta->resource_version, known.meta.resource_version))
                trust_record(store, record);
            return HVD_OK;
        }
        is_same = hvd_str_equal(known.meta.uid, meta->uid);
        if (is_wanted && hvd_str_equal(known.meta.job, meta->job) &&
            (is_same || !has_unread_outcome(store, record))) {
            if (!is_same)
                drop_failure_of_ours(record->entry, object);
            return change_record(store, record, object);
        }
        remove_record(store, record);
    }
    if (!is_wanted)
        return HVD_OK;
    st = add_record(store, object, &record);
    if (st != HVD_OK)
        return st;
    record->round = store->rounds[object->kind];
    touch(store, record->entry);
    return HVD_OK;
}

/*
 * Whether an answer is older than the state of its watch: the watch has since reported a later
 * version of the object, or its end. Such an answer does not even settle a doubt. The watch reports
 * nothing about objects without our label. An answer without a version is about an object that was
 * already gone.
 */
static bool is_behind(struct hvd_store *store, const struct hvd_object *object)
{
    const struct hvd_meta *meta = &object->meta;
    const struct hvd_record *record;

    if (!meta->resource_version || !*meta->resource_version)
        return true;
    if (!meta->is_in_sight || !is_over(store, object->kind, meta->resource_version))
        return false;
    record = find_record(store, object->kind, meta->namespace, meta->name);
    return !record || record->is_doubtful;
}

static hvd_status_t put(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                        enum source source, struct hvd_err *err)
{
    struct hvd_object projection = {0};
    hvd_status_t st;

    if (kind == HVD_KIND_HOROVODJOB)
        return put_job(store, object, source, err);
    st = hvd_observe(kind, object, &projection, err);
    if (st != HVD_OK)
        return st;
    st = hvd_history_note(store, &projection);
    if (st == HVD_OK && (source == OF_WATCH || !is_behind(store, &projection)))
        st = take_object(store, &projection);
    hvd_observe_object_fini(&projection);
    if (st != HVD_OK)
        hvd_err_set(err, st, 0, "%s: out of memory", hvd_kind_info(kind)->resource);
    return st;
}

hvd_status_t hvd_store_put(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                           struct hvd_err *err)
{
    return put(store, kind, object, OF_WATCH, err);
}

hvd_status_t hvd_store_put_answer(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                                  struct hvd_err *err)
{
    return put(store, kind, object, OF_ANSWER, err);
}

hvd_status_t hvd_store_put_made(struct hvd_store *store, const struct hvd_entry *entry,
                                enum hvd_kind kind, const cJSON *object, struct hvd_err *err)
{
    struct hvd_object made = {0};
    struct hvd_record *record;
    hvd_status_t st = entry->has_job ? hvd_observe(kind, object, &made, err) : HVD_ERR_STATE;

    if (st != HVD_OK)
        return entry->has_job ? st : hvd_store_put_answer(store, kind, object, err);
    st = hvd_history_note_made(&entry->job, &made);
    record = find_record(store, kind, made.meta.namespace, made.meta.name);
    if (record && made.meta.noted) /* the watch does not show which program made it */
        record->is_stale = true;
    if (st == HVD_OK && !is_behind(store, &made))
        st = take_object(store, &made);
    hvd_observe_object_fini(&made);
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "%s: out of memory", hvd_kind_info(kind)->kind);
}

hvd_status_t hvd_store_put_spec(struct hvd_store *store, const cJSON *object, struct hvd_err *err)
{
    return put(store, HVD_KIND_HOROVODJOB, object, OF_READ, err);
}

void hvd_store_remove(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                      const char *uid)
{
    if (kind == HVD_KIND_HOROVODJOB) {
        struct hvd_entry *entry = find_entry(store, ns, name);
        if (entry && entry->has_job && (!uid || hvd_str_equal(entry->job.uid, uid)))
            remove_job(store, entry);
    } else {
        const struct hvd_object *found = hvd_store_find(store, kind, ns, name);
        if (found && (!uid || hvd_str_equal(found->meta.uid, uid)))
            remove_record(store, find_record(store, kind, ns, name));
    }
}

/* Whether the end of an object is believed without a look: its job ends, or its owner has no place
 * for it any more. */
static bool is_end_expected(struct hvd_store *store, const struct hvd_entry *entry,
                            const struct hvd_object *object)
{
    const struct hvd_meta *meta = &object->meta;
    const struct hvd_object *owner;
    enum hvd_kind kind;

    if (!entry->has_job || entry->job.spec.is_foreign)
        return true;
    if (object->kind != HVD_KIND_POD || !meta->owner_kind ||
        (meta->role == HVD_ROLE_MASTER && object->u.pod.phase == HVD_POD_RUNNING))
        return false; /* a running master is deleted before it ends */
    kind = strcmp(meta->owner_kind, "Job") == 0 ? HVD_KIND_JOB : HVD_KIND_STATEFULSET;
    owner = hvd_store_find(store, kind, meta->namespace, meta->owner_name);
    return hvd_look_is_expected(
        owner && hvd_str_equal(owner->meta.uid, meta->owner_uid) ? owner : NULL, object);
}

/* The watch no longer shows the object. */
static void miss_record(struct hvd_store *store, struct hvd_record *record, bool is_deleting)
{
    struct hvd_entry *entry = record->entry;
    struct hvd_object object;

    unpack(record, &object);
    if (!is_deleting && !object.meta.is_deleting && !is_end_expected(store, entry, &object)) {
        record->is_doubtful = true;
        touch(store, entry);
        return;
    }
    /* If memory is too short for the record, the object is looked up. */
    if (entry->has_job && (object.kind == HVD_KIND_POD
                               ? object.meta.role == HVD_ROLE_MASTER
                               : hvd_owner_has_name(&entry->job, object.kind, object.meta.name)))
        (void)!hvd_notes_note_gone(entry, object.kind, object.meta.name);
    remove_record(store, record);
}

void hvd_store_miss(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                    const char *uid, bool is_deleting)
{
    struct hvd_record *record;
    struct hvd_object object;

    if (kind == HVD_KIND_HOROVODJOB) {
        hvd_store_remove(store, kind, ns, name, uid);
        return;
    }
    record = find_record(store, kind, ns, name);
    if (!record) {
        hvd_waiters_wake(store, kind, ns, name); /* for a foreign object without a record */
        return;
    }
    unpack(record, &object);
    if (hvd_str_equal(object.meta.uid, uid))
        miss_record(store, record, is_deleting);
}

bool hvd_store_knows(struct hvd_store *store, enum hvd_kind kind, const cJSON *object)
{
    const cJSON *meta = hvd_json_get(object, "metadata");
    const char *ns = hvd_json_str(meta, "namespace"), *name = hvd_json_str(meta, "name");
    const char *version = hvd_json_str(meta, "resourceVersion");
    const struct hvd_object *found;
    const struct hvd_entry *entry;

    if (!ns || !name)
        return false;
    if (kind == HVD_KIND_HOROVODJOB) {
        entry = find_entry(store, ns, name);
        return entry && entry->has_job && hvd_str_equal(entry->job.resource_version, version);
    }
    found = hvd_store_find(store, kind, ns, name);
    return found && hvd_str_equal(found->meta.resource_version, version);
}

void hvd_store_rewind(struct hvd_store *store, enum hvd_kind kind)
{
    struct hvd_entry *entry = hvd_store_next(store, NULL);

    store->told[kind] = 0;
    for (; entry; entry = hvd_store_next(store, entry)) {
        entry->is_stale |= kind == HVD_KIND_HOROVODJOB;
        for (size_t i = 0; i < entry->n_objects; i++)
            entry->records[i]->is_stale |= entry->records[i]->kind == kind;
    }
}

void hvd_store_begin(struct hvd_store *store, enum hvd_kind kind)
{
    store->rounds[kind]++;
}

static void end_jobs(struct hvd_store *store)
{
    struct hvd_index_node *node = hvd_index_first(&store->entries);

    while (node) {
        struct hvd_entry *entry = entry_at(node);
        node = hvd_index_next(&store->entries, node);
        if (entry->has_job && entry->job_round != store->rounds[HVD_KIND_HOROVODJOB])
            remove_job(store, entry);
    }
}

void hvd_store_end(struct hvd_store *store, enum hvd_kind kind)
{
    struct hvd_index_node *node = hvd_index_first(&store->records);

    if (kind == HVD_KIND_HOROVODJOB) {
        end_jobs(store);
        return;
    }
    while (node) {
        struct hvd_record *record = record_at(node);
        node = hvd_index_next(&store->records, node);
        if (record->kind == kind && record->round != store->rounds[kind])
            miss_record(store, record, false);
    }
}

static void tidy_record(struct hvd_store *store, struct hvd_record *record)
{
    const size_t size = size_of(record->n);
    struct hvd_record *moved;

    if (!hvd_slab_is_misplaced(&store->slab, record, size))
        return;
    moved = hvd_slab_take(&store->slab, size);
    if (!moved)
        return;
    memcpy(moved, record, size);
    replace_record(store, record, moved);
}

void hvd_store_tidy(struct hvd_store *store, int64_t now_ms)
{
    struct hvd_entry *entry = hvd_store_next(store, NULL);

    for (; entry; entry = hvd_store_next(store, entry)) {
        hvd_repairs_prune(&entry->repairs, now_ms);
        hvd_specs_tidy(store, entry);
        for (size_t i = 0; i < entry->n_objects; i++)
            tidy_record(store, entry->records[i]);
    }
}

void hvd_store_sweep(struct hvd_store *store, bool may_free)
{
    struct hvd_entry *entry = hvd_store_next(store, NULL), *next;
    const bool is_full = store->n_stray > HVD_STORE_STRAYS_MAX;

    for (; entry; entry = next) {
        next = hvd_store_next(store, entry);
        if (entry->has_job)
            continue;
        while (is_full && entry->n_objects)
            free_record(store, entry->records[entry->n_objects - 1]);
        if (!may_free)
            continue;
        hvd_store_looked(store, entry);
        (void)hvd_store_collect(store, entry);
    }
}

void hvd_store_fini(struct hvd_store *store)
{
    struct hvd_entry *entry = hvd_store_next(store, NULL), *next;

    for (; entry; entry = next) {
        next = hvd_store_next(store, entry);
        while (entry->n_objects)
            free_record(store, entry->records[entry->n_objects - 1]);
        free_entry(store, entry);
    }
    hvd_node_topology_fini(&store->topology);
    *store = (struct hvd_store){0};
}
