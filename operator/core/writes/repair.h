#ifndef HVD_OPERATOR_CORE_WRITES_REPAIR_H
#define HVD_OPERATOR_CORE_WRITES_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/kind.h"
#include "operator/core/pass/plan.h"

struct hvd_action;
struct hvd_crowd;
struct hvd_denials;
struct hvd_job;
struct hvd_slab;

/*
 * Writes that other writers undo. Each write names its target (an object and one of the fields
 * below) and the value. The shell records the successful writes. A write that is needed again with
 * the same value was undone by another writer, and waits: 1 s after the first, twice as long after
 * each further one, at most 5 minutes (repair.c has the exceptions). Another value is a new
 * intention and does not wait. A write that was not needed for 10 minutes is forgotten.
 *
 * 256 writes of a job have such records, 192 of them to pods. None is given up before its time:
 * further writes share one backoff (crowd.h).
 *
 * The shell keeps one log for each job in memory. Of a former operator's log only the content of
 * the condition Contested is known. The first write that it mentions is sent at once, and the next
 * one waits for the longest time.
 */
struct hvd_repair_record {
    uint64_t key;      /* of the object and the field */
    uint64_t value;    /* a hash of what was set */
    int64_t last_ms;   /* time of the last write */
    char *text;        /* owned: the change and its writer; NULL: not looked up yet */
    uint16_t n;        /* how often that value was set in a row */
    uint8_t repair;    /* enum hvd_repair */
    bool is_announced; /* the event about it was written */
    bool is_refused;   /* the API server's own rules rejected the last one */
    bool is_of_pod;
};

/* Zeroed: empty. */
struct hvd_repairs {
    struct hvd_repair_record *records; /* owned */
    struct hvd_slab *slab;             /* memory of the records, borrowed; NULL: the heap */
    uint32_t n;
    uint32_t room;               /* capacity in records */
    int64_t since_ms;            /* when the log was begun; 0: it was not */
    struct hvd_crowd *crowd;     /* owned: all writes without a record; NULL: none */
    char *carried;               /* owned: the report of a former operator; NULL: none */
    struct hvd_denials *denials; /* owned: denied writes (denial.h); NULL: none */
};

/* The repair for a creation or deletion of an object of that kind. */
enum hvd_repair hvd_repair_of_existence(enum hvd_kind kind);

/* Begins the log of the job at now_ms (the server's), unless it exists. Out of memory, it loses the
 * report of a former operator. */
void hvd_repairs_begin(struct hvd_repairs *repairs, const struct hvd_job *job, int64_t now_ms);

/* Records that the write was accepted at now_ms (the server's). Ignores actions that are no
 * repairs, and a lack of memory: then the next write does not wait. */
void hvd_repairs_note(struct hvd_repairs *repairs, const struct hvd_action *action, int64_t now_ms);

/* The same for a write that the API server's own rules rejected. */
void hvd_repairs_note_refused(struct hvd_repairs *repairs, const struct hvd_action *action,
                              int64_t now_ms);

/* Records the answer to HVD_ACTION_ATTRIBUTE: the object with its managedFields, NULL if it is gone
 * or cannot be read. HVD_ERR_NOMEM. */
hvd_status_t hvd_repairs_attribute(struct hvd_repairs *repairs, const struct hvd_action *action,
                                   const cJSON *object);

/* Forgets that the object of that kind and name was made, and that its creation was denied: no
 * other writer caused its end. */
void hvd_repairs_forget(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name);

/* Forgets that it was made, unless another writer is known to undo that and may have caused its
 * end. */
void hvd_repairs_excuse(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name);

/* Records that an event was written; ignores events about no repair. */
void hvd_repairs_announced(struct hvd_repairs *repairs, const struct hvd_action *action);

/* Frees the records of writes that were not needed for 10 minutes. */
void hvd_repairs_prune(struct hvd_repairs *repairs, int64_t now_ms);

/* Frees what it owns and empties the log. */
void hvd_repairs_fini(struct hvd_repairs *repairs);

#endif
