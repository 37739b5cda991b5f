/*
 * What is remembered of a job's children beside what the watches show: which requests about them
 * failed, and which are known to be gone. Both are bounded for each job, whatever somebody does to
 * its objects. Pure but for the allocator.
 */
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/app/store.h"

/* ---- failures ---- */

static void free_failure(struct hvd_failure *failure)
{
    hvd_free((void *)failure->name);
    hvd_free((void *)failure->message);
    hvd_free((void *)failure->uid);
}

void hvd_entry_drop_failure(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    for (size_t i = 0; i < entry->n_failures; i++) {
        if (entry->failures[i].kind != kind || strcmp(entry->failures[i].name, name) != 0)
            continue;
        free_failure(&entry->failures[i]);
        entry->failures[i] = entry->failures[--entry->n_failures];
        return;
    }
}

static void drop_oldest_failure(struct hvd_entry *entry)
{
    const struct hvd_failure *oldest = &entry->failures[0];

    for (size_t i = 1; i < entry->n_failures; i++) {
        if (entry->failures[i].at_ms < oldest->at_ms)
            oldest = &entry->failures[i];
    }
    hvd_entry_drop_failure(entry, oldest->kind, oldest->name);
}

/* A copy of the beginning of the message; a character is not cut in two. */
static char *copy_message(const char *message)
{
    size_t len = strnlen(message, HVD_ENTRY_MESSAGE_MAX + 1);

    if (len > HVD_ENTRY_MESSAGE_MAX) {
        len = HVD_ENTRY_MESSAGE_MAX;
        while (len > 0 && ((unsigned char)message[len] & 0xC0) == 0x80)
            len--;
    }
    return hvd_strndup(message, len);
}

/* How often it has failed so by now, this time included. */
static unsigned count_failures(const struct hvd_entry *entry, const struct hvd_failure *failure)
{
    for (size_t i = 0; i < entry->n_failures; i++) {
        const struct hvd_failure *known = &entry->failures[i];

        if (known->type == failure->type && known->kind == failure->kind &&
            strcmp(known->name, failure->name) == 0) {
            /* Told at once, after some of which nothing was told: the first of its row. */
            if (failure->told_from < known->told_from && known->n < known->told_from)
                return 1;
            return known->n < UINT_MAX ? known->n + 1 : known->n;
        }
    }
    return 1;
}

hvd_status_t hvd_entry_set_failure(struct hvd_entry *entry, const struct hvd_failure *failure)
{
    struct hvd_failure copy = *failure;
    struct hvd_failure *grown;

    grown = hvd_realloc(entry->failures, entry->n_failures + 1, sizeof(struct hvd_failure));
    if (!grown)
        return HVD_ERR_NOMEM;
    entry->failures = grown;
    copy.n = count_failures(entry, failure);
    copy.name = hvd_strdup(failure->name);
    copy.message = failure->message ? copy_message(failure->message) : NULL;
    copy.uid = failure->uid ? hvd_strdup(failure->uid) : NULL;
    if (!copy.name || (failure->message && !copy.message) || (failure->uid && !copy.uid)) {
        free_failure(&copy);
        return HVD_ERR_NOMEM;
    }
    hvd_entry_drop_failure(entry, failure->kind, failure->name);
    if (entry->n_failures == HVD_ENTRY_FAILURES_MAX)
        drop_oldest_failure(entry);
    entry->failures[entry->n_failures++] = copy;
    return HVD_OK;
}

void hvd_entry_drop_answer(struct hvd_entry *entry, const char *uid)
{
    for (size_t i = 0; uid && i < entry->n_failures; i++) {
        if (entry->failures[i].type != HVD_FAILURE_NO_PODS ||
            !hvd_str_equal(entry->failures[i].uid, uid))
            continue;
        free_failure(&entry->failures[i]);
        entry->failures[i] = entry->failures[--entry->n_failures];
        return;
    }
}

void hvd_entry_drop_failures(struct hvd_entry *entry)
{
    for (size_t i = 0; i < entry->n_failures; i++)
        free_failure(&entry->failures[i]);
    hvd_free(entry->failures);
    entry->failures = NULL;
    entry->n_failures = 0;
}

/* ---- what is known to be gone, the oldest first ---- */

static void remove_gone(struct hvd_entry *entry, size_t at)
{
    hvd_free((void *)entry->gone[at].name);
    entry->n_gone--;
    memmove(&entry->gone[at], &entry->gone[at + 1], (entry->n_gone - at) * sizeof(entry->gone[0]));
}

void hvd_entry_unnote_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    for (size_t i = 0; i < entry->n_gone; i++) {
        if (entry->gone[i].kind != kind || strcmp(entry->gone[i].name, name) != 0)
            continue;
        remove_gone(entry, i);
        return;
    }
}

hvd_status_t hvd_entry_note_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name)
{
    struct hvd_gone *grown = hvd_realloc(entry->gone, entry->n_gone + 1, sizeof(struct hvd_gone));
    char *copy;

    if (!grown)
        return HVD_ERR_NOMEM;
    entry->gone = grown;
    copy = hvd_strdup(name);
    if (!copy)
        return HVD_ERR_NOMEM;
    hvd_entry_unnote_gone(entry, kind, name);
    if (entry->n_gone == HVD_ENTRY_GONE_MAX)
        remove_gone(entry, 0);
    entry->gone[entry->n_gone++] = (struct hvd_gone){kind, copy};
    return HVD_OK;
}

void hvd_entry_drop_gone(struct hvd_entry *entry)
{
    for (size_t i = 0; i < entry->n_gone; i++)
        hvd_free((void *)entry->gone[i].name);
    hvd_free(entry->gone);
    entry->gone = NULL;
    entry->n_gone = 0;
}
