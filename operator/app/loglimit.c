/*
 * Keeps a repeated failure from filling the log. A small table holds recent messages, by a hash of
 * the message and the object. Objects that share a bucket replace each other, which lets a line too
 * many pass but never loses the first one. Numbers and error texts do not make a difference. One
 * thread, the event loop's.
 */
#include "operator/app/loglimit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "operator/core/view/hash.h"

#define MAX_FIELDS 12

static bool is_identity(const char *key)
{
    static const char *const keys[] = {"job", "resource", "kind", "name", "state", "lease"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static uint64_t key_of(const struct hvd_log_record *record)
{
    uint64_t key = hvd_hash_number(HVD_HASH_START, record->level);

    key = hvd_hash_text(key, record->subsystem);
    key = hvd_hash_text(key, record->msg);
    for (size_t i = 0; i < record->n_fields; i++)
        if (is_identity(record->fields[i].key))
            key = hvd_hash_text(hvd_hash_text(key, record->fields[i].key), record->fields[i].value);
    return key ? key : 1;
}

/* Passes the record with an additional field to the inner sink. */
static void pass_on(const struct hvd_loglimit *limit, const struct hvd_log_record *record,
                    unsigned n_suppressed)
{
    struct hvd_log_field fields[MAX_FIELDS];
    struct hvd_log_record longer = *record;
    char count[16];

    if (!n_suppressed || record->n_fields >= MAX_FIELDS) {
        hvd_log_fields(limit->_inner, record);
        return;
    }
    (void)snprintf(count, sizeof(count), "%u", n_suppressed);
    if (record->n_fields)
        memcpy(fields, record->fields, record->n_fields * sizeof(fields[0]));
    fields[record->n_fields] = (struct hvd_log_field){"suppressed", count};
    longer.fields = fields;
    longer.n_fields++;
    hvd_log_fields(limit->_inner, &longer);
}

static void take(void *ctx, const struct hvd_log_record *record)
{
    struct hvd_loglimit *limit = ctx;
    uint64_t key = key_of(record);
    size_t i = key % HVD_LOGLIMIT_BUCKETS;
    int64_t now_ms = limit->_now_ms();
    unsigned n_suppressed = 0;

    if (record->level == HVD_LOG_DEBUG) {
        hvd_log_fields(limit->_inner, record);
        return;
    }
    if (limit->_buckets[i].key != key ||
        now_ms - limit->_buckets[i].begin_ms >= HVD_LOGLIMIT_WINDOW_MS) {
        if (limit->_buckets[i].key == key)
            n_suppressed = limit->_buckets[i].n_suppressed;
        limit->_buckets[i].key = key;
        limit->_buckets[i].begin_ms = now_ms;
        limit->_buckets[i].n = 0;
        limit->_buckets[i].n_suppressed = 0;
    }
    if (limit->_buckets[i].n++ >= HVD_LOGLIMIT_BURST) {
        limit->_buckets[i].n_suppressed++;
        limit->n_suppressed++;
        return;
    }
    pass_on(limit, record, n_suppressed);
}

void hvd_loglimit_init(struct hvd_loglimit *limit, const struct hvd_log *inner,
                       int64_t (*now_ms)(void))
{
    *limit = (struct hvd_loglimit){._inner = inner, ._now_ms = now_ms};
    limit->log = (struct hvd_log){inner ? inner->level : HVD_LOG_ERROR, take, limit};
}
