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
 * Writes that somebody undoes. Each write names the thing that it sets (an object and one of the
 * fields below) and the value. The shell records which writes succeeded; one that is needed again
 * with the same value was undone by another writer, and waits: 1 s after the first, twice as long
 * after each further one, at most 5 minutes (repair.c has the exceptions). A value that differs is
 * a new intention and goes at once. What was not needed for 10 minutes is forgotten.
 *
 * 256 writes of a job have such records, 192 of them to pods. None is given up before its time:
 * further writes share one backoff (crowd.h).
 *
 * The log is kept in memory by the shell, one for each job. Of an earlier operator's log no more is
 * known than what the condition Contested holds: the first write that is in it goes at once, and
 * the next one waits for the longest time.
 */
struct hvd_repair_record {
    uint64_t key;      /* of the object and the field */
    uint64_t value;    /* a hash of what was set */
    int64_t last_ms;   /* when it was set last */
    char *text;        /* owned: what is changed and by whom; NULL: nobody had to ask yet */
    uint16_t n;        /* how often that value was set in a row */
    uint8_t repair;    /* enum hvd_repair */
    bool is_announced; /* the event about it was written */
    bool is_refused;   /* the API server's own rules refused it the last time */
    bool is_of_pod;
};

/* Zeroed: empty. */
struct hvd_repairs {
    struct hvd_repair_record *records; /* owned */
    struct hvd_slab *slab;             /* where they are, borrowed; NULL: in the heap */
    uint32_t n;
    uint32_t room;               /* so many records have room */
    int64_t since_ms;            /* when the log was begun; 0: it was not */
    struct hvd_crowd *crowd;     /* owned: of all writes that have no record; NULL: none */
    char *carried;               /* owned: what an earlier operator has reported; NULL: nothing */
    struct hvd_denials *denials; /* owned: of writes that are denied (denial.h); NULL: none */
};

/* The repair that a creation or deletion of an object of that kind is. */
enum hvd_repair hvd_repair_of_existence(enum hvd_kind kind);

/* Begins the log of the job at now_ms (the server's), unless it is begun. A lack of memory loses
 * what an earlier operator has reported. */
void hvd_repairs_begin(struct hvd_repairs *repairs, const struct hvd_job *job, int64_t now_ms);

/* Records that the write was accepted at now_ms (the server's). Actions that are no repairs are
 * ignored, and so is a lack of memory: then the next one does not wait. */
void hvd_repairs_note(struct hvd_repairs *repairs, const struct hvd_action *action, int64_t now_ms);

/* The same of one that the API server's own rules refused. */
void hvd_repairs_note_refused(struct hvd_repairs *repairs, const struct hvd_action *action,
                              int64_t now_ms);

/* Records the answer to HVD_ACTION_ATTRIBUTE: the object with its managedFields, NULL if it is gone
 * or cannot be read. HVD_ERR_NOMEM. */
hvd_status_t hvd_repairs_attribute(struct hvd_repairs *repairs, const struct hvd_action *action,
                                   const cJSON *object);

/* Forgets that the object of that kind and name was made, and that its creation was denied: it is
 * gone for a cause that is no other writer's. */
void hvd_repairs_forget(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name);

/* Forgets that it was made, unless another writer is known to undo that: it may be gone for such a
 * cause. */
void hvd_repairs_excuse(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name);

/* Records that an event was written; those that are about no repair are ignored. */
void hvd_repairs_announced(struct hvd_repairs *repairs, const struct hvd_action *action);

/* Frees the records of what was not needed for 10 minutes. */
void hvd_repairs_prune(struct hvd_repairs *repairs, int64_t now_ms);

/* Frees what it owns and empties the log. */
void hvd_repairs_fini(struct hvd_repairs *repairs);

#endif
