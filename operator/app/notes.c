/*
 * Facts about a job's children beside those of the watches: which requests about them failed, and
 * which are known to be gone. Both are bounded for each job, whatever others do to its objects.
 * Pure but for the allocator and the times of the facts.
 */
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/store.h"
#include "operator/core/view/view.h"
#include "operator/core/writes/kept.h"

/* ---- failures ---- */

static void free_failure(struct hvd_failure *failure)
{
    hvd_free((void *)failure->name);
    hvd_free((void *)failure->message);
    hvd_free((void *)failure->uid);
}

/* The last one takes its place; an empty list uses no memory. */
static void remove_failure(struct hvd_entry *entry, size_t at)
{
    free_failure(&entry->failures[at]);
    entry->failures[at] = entry->failures[--entry->n_failures];
    if (entry->n_failures)
        return;
    hvd_free(entry->failures);
    entry->failures = NULL;
}

/* The failure of the child; NULL: none. */
struct hvd_failure *hvd_notes_failure(const struct hvd_entry *entry, enum hvd_kind kind,
                                      const char *name)
{
    for (size_t i = 0; i < entry->n_failures; i++) {
        if (entry->failures[i].kind == kind && strcmp(entry->failures[i].name, name) == 0)
            return &entry->failures[i];
    }
    return NULL;
}

void hvd_notes_drop_failure(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    const struct hvd_failure *failure = hvd_notes_failure(entry, kind, name);

    if (failure)
        remove_failure(entry, (size_t)(failure - entry->failures));
}

static void drop_oldest_failure(struct hvd_entry *entry)
{
    const struct hvd_failure *oldest = &entry->failures[0];

    for (size_t i = 1; i < entry->n_failures; i++) {
        if (entry->failures[i].at_ms < oldest->at_ms)
            oldest = &entry->failures[i];
    }
    hvd_notes_drop_failure(entry, oldest->kind, oldest->name);
}

/* Copies the beginning of the message without cutting a character in two. */
static char *copy_message(const char *message)
{
    size_t len = strnlen(message, HVD_ENTRY_MESSAGE_MAX + 1);
    char *copy;

    if (len > HVD_ENTRY_MESSAGE_MAX) {
        len = HVD_ENTRY_MESSAGE_MAX;
        while (len > 0 && ((unsigned char)message[len] & 0xC0) == 0x80)
            len--;
    }
    copy = hvd_strndup(message, len);
    if (copy)
        hvd_str_disarm(copy);
    return copy;
}

/* How often it has failed in a row, including this time. */
static unsigned count_failures(const struct hvd_entry *entry, const struct hvd_failure *failure)
{
    const struct hvd_failure *known = hvd_notes_failure(entry, failure->kind, failure->name);

    if (!known || known->type != failure->type)
        return 1;
    /* This failure is reported at once, and the earlier ones were not reported: it is the first of
     * its row. */
    if (failure->told_from < known->told_from && known->n < known->told_from)
        return 1;
    return known->n < UINT_MAX ? known->n + 1 : known->n;
}

/* Makes room for another one. NULL: out of memory. */
static struct hvd_failure *add_failure(struct hvd_entry *entry)
{
    struct hvd_failure *grown;

    if (entry->n_failures == HVD_ENTRY_FAILURES_MAX)
        drop_oldest_failure(entry);
    grown = hvd_realloc(entry->failures, entry->n_failures + 1, sizeof(grown[0]));
    if (!grown)
        return NULL;
    entry->failures = grown;
    return &grown[entry->n_failures++];
}

hvd_status_t hvd_notes_set_failure(struct hvd_entry *entry, const struct hvd_failure *failure)
{
    struct hvd_failure copy = *failure, *kept;

    copy.n = count_failures(entry, failure);
    copy.name = hvd_strdup(failure->name);
    copy.message = failure->message ? copy_message(failure->message) : NULL;
    copy.uid = failure->uid ? hvd_strdup(failure->uid) : NULL;
    if (!copy.name || (failure->message && !copy.message) || (failure->uid && !copy.uid)) {
        free_failure(&copy);
        return HVD_ERR_NOMEM;
    }
    kept = hvd_notes_failure(entry, failure->kind, failure->name);
    if (kept)
        free_failure(kept);
    else
        kept = add_failure(entry);
    if (!kept) {
        free_failure(&copy);
        return HVD_ERR_NOMEM;
    }
    *kept = copy;
    return HVD_OK;
}

void hvd_notes_drop_answer(struct hvd_entry *entry, const char *uid)
{
    for (size_t i = 0; uid && i < entry->n_failures; i++) {
        if (entry->failures[i].type != HVD_FAILURE_NO_PODS ||
            !hvd_str_equal(entry->failures[i].uid, uid))
            continue;
        remove_failure(entry, i);
        return;
    }
}

void hvd_notes_drop_failures(struct hvd_entry *entry)
{
    while (entry->n_failures)
        remove_failure(entry, entry->n_failures - 1);
}

void hvd_notes_drop_failures_of_spec(struct hvd_entry *entry)
{
    for (size_t i = entry->n_failures; i > 0; i--) {
        const enum hvd_failure_type type = entry->failures[i - 1].type;

        if (type != HVD_FAILURE_DENIED && type != HVD_FAILURE_STATUS)
            remove_failure(entry, i - 1);
    }
}

/* ---- objects known to be gone, oldest first ---- */

/* These names come and go with each job, so they are stored in the store's slab with everything
 * else. */
static struct hvd_slab *slab_of(const struct hvd_entry *entry)
{
    return entry->repairs.slab;
}

static void free_name(const struct hvd_entry *entry, const char *name)
{
    hvd_slab_give(slab_of(entry), (void *)name, strlen(name) + 1);
}

/* Makes room for another name. False: out of memory. */
static bool add_room(struct hvd_entry *entry)
{
    const uint32_t room = entry->n_gone + 1;
    struct hvd_gone *gone = hvd_slab_take(slab_of(entry), room * sizeof(gone[0]));

    if (!gone)
        return false;
    if (entry->n_gone)
        memcpy(gone, entry->gone, entry->n_gone * sizeof(gone[0]));
    hvd_slab_give(slab_of(entry), entry->gone, entry->gone_room * sizeof(gone[0]));
    entry->gone = gone;
    entry->gone_room = room;
    return true;
}

static void free_room(struct hvd_entry *entry)
{
    hvd_slab_give(slab_of(entry), entry->gone, entry->gone_room * sizeof(entry->gone[0]));
    entry->gone = NULL;
    entry->gone_room = 0;
}

static void remove_gone(struct hvd_entry *entry, size_t at)
{
    free_name(entry, entry->gone[at].name);
    entry->n_gone--;
    memmove(&entry->gone[at], &entry->gone[at + 1], (entry->n_gone - at) * sizeof(entry->gone[0]));
    if (!entry->n_gone)
        free_room(entry);
}

void hvd_notes_unnote_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    for (size_t i = 0; i < entry->n_gone; i++) {
        if (entry->gone[i].kind != kind || strcmp(entry->gone[i].name, name) != 0)
            continue;
        remove_gone(entry, i);
        return;
    }
}

hvd_status_t hvd_notes_note_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    const size_t size = strlen(name) + 1;
    char *copy = hvd_slab_take(slab_of(entry), size);

    if (!copy)
        return HVD_ERR_NOMEM;
    memcpy(copy, name, size);
    hvd_notes_unnote_gone(entry, kind, name);
    if (entry->n_gone == HVD_ENTRY_GONE_MAX)
        remove_gone(entry, 0);
    if (entry->n_gone == entry->gone_room && !add_room(entry)) {
        free_name(entry, copy);
        return HVD_ERR_NOMEM;
    }
    entry->gone[entry->n_gone++] = (struct hvd_gone){
        .kind = kind, .at_s = (uint32_t)(hvd_clock_ms() / 1000 + 1), .name = copy};
    return HVD_OK;
}

void hvd_notes_drop_gone(struct hvd_entry *entry)
{
    while (entry->n_gone)
        remove_gone(entry, entry->n_gone - 1);
}

/* ---- the status ---- */

void hvd_notes_drop_lost(struct hvd_entry *entry)
{
    cJSON_Delete(entry->lost);
    entry->lost = NULL;
}

hvd_status_t hvd_notes_put_status(struct hvd_store *store, struct hvd_entry *entry,
                                  const char *sent, const cJSON *object, struct hvd_err *err)
{
    const char *version = hvd_json_str(object, "metadata.resourceVersion");

    if (entry->has_job && hvd_kept_compare(sent, object, &entry->lost) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "a HorovodJob: out of memory");
    /* The watch may have shown this version, without the lost fields. */
    if (entry->lost && hvd_str_equal(entry->job.resource_version, version))
        entry->job.resource_version[0] = '\0';
    return hvd_store_put_answer(store, HVD_KIND_HOROVODJOB, object, err);
}
