#ifndef HVD_TESTS_UNIT_OPERATOR_CORE_WORLD_H
#define HVD_TESTS_UNIT_OPERATOR_CORE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/writes/repair.h"

#define WORLD_FAILURES 8 /* at the same time */

/*
 * A cluster in memory: an API server that honours preconditions, the controllers of StatefulSet,
 * Job and garbage, a gang scheduler that holds pods until their group is complete, and a kubelet
 * that makes pods Ready. It carries out plans as the shell does.
 */
struct world {
    cJSON *objects; /* owned array */
    cJSON *events;  /* owned array, in order of arrival */
    int64_t now_ms;
    int64_t status_written_ms;
    size_t n_starting;          /* other jobs that start */
    int64_t wake_at_ms;         /* of the latest pass */
    int serial;                 /* uids and resourceVersions */
    int n_writes;               /* requests that changed something */
    int n_sent;                 /* requests that would change something, whatever came of them */
    const cJSON *lost;          /* of the status, what the API server does not keep; borrowed */
    struct hvd_repairs repairs; /* what the shell keeps */
    int n_conflicts;
    int n_located;      /* nodes that were read */
    int n_looked;       /* objects that were looked for by name */
    int n_read;         /* specs that were read */
    bool keeps_no_spec; /* the shell has the text of the spec for the pass after it was read only */
    bool has_spec;      /* which is the next one */
    cJSON *gone;        /* owned; what the operator knows to be gone: kinds by name */
    cJSON *topology;    /* owned; what they said, by name */
    int actions_left;   /* the operator dies after so many actions; -1: never */
    bool is_dead;
    bool is_kubelet_off; /* pods stay Pending */
    bool is_full;        /* the scheduler has tried to place new pods, in vain */
    struct hvd_failure failures[WORLD_FAILURES];
    char failure_text[WORLD_FAILURES][128];
    size_t n_failures;
    const char *refuse_kind; /* creates of this kind answer 422 */
    const char *deny_kind;   /* writes of this kind are denied by a webhook; "": of all */
    const char *unread_kind; /* reads of this kind are refused ("Event": those that tell of ends) */
    int n_unread;            /* so many were */
    bool has_waits;          /* what is denied waits; else each pass tries it again */
    unsigned deny_from;      /* such a denial or refusal is told of from then on (told_from) */
    bool is_leaving;         /* the namespace is being deleted: creates and events answer 403 */
    bool is_status_denied;   /* patches of the job's status are */
    const char *alter_kind;  /* a webhook patches objects of this kind while they are made */
    const char *alter_patch;
    const char *deny_pods_of;     /* of this kind; its controller cannot make any pod */
    bool is_mute;                 /* without a word in the events */
    enum hvd_failure_type trace;  /* what the events tell of a Job that is gone; 0: nothing */
    const char *trace_text;       /* the words in them */
    const cJSON *trace_events;    /* or the list itself; borrowed, NULL: the two above */
    int n_traced;                 /* how often somebody asked for them */
    const char *pod_words;        /* what events tell of pods that are slow */
    int n_explained;              /* how often somebody asked why */
    struct hvd_settings settings; /* of the operator */
    int32_t free_port;            /* that the shell would offer */
    int64_t going_ms;     /* when the shell saw pods being deleted; 0: their stamps alone count */
    const char *lost_pod; /* its node does not answer: it stays terminating until it is killed */
};

/* A world with one HorovodJob default/digits of this spec (JSON). With WORLD_KEEPS_NO_SPEC in the
 * environment keeps_no_spec is set: all that holds must hold then, too. */
void world_init(struct world *w, const char *spec);
void world_fini(struct world *w);

/* The object of that kind and name; NULL if none. Borrowed. */
cJSON *world_find(const struct world *w, const char *kind, const char *name);

/* Adds a copy of the object (JSON text), with a uid and a resourceVersion. */
cJSON *world_put(struct world *w, const char *text);

/* A write that the operator may make to an object, by what it repairs. */
struct world_write {
    const char *kind;
    enum hvd_repair repair;
    bool is_once; /* nobody can undo it: a further one is about another object, or an end */
};

/* All of them: a test in which the operator makes another one fails. Ends with NULL. */
extern const struct world_write world_writes[];

/* Edits a label as a user would; value NULL removes it. Without the job's the watch says DELETED.
 */
void world_label(struct world *w, const char *kind, const char *name, const char *label,
                 const char *value);

/* The operator starts anew: what no watch shows it, it has not seen. */
void world_restart(struct world *w);

/* Removes an object as a user would. */
void world_remove(struct world *w, const char *kind, const char *name);

/* Another writer's finalizer holds the object when it is deleted; it lets it go. */
void world_hold(struct world *w, const char *kind, const char *name);
void world_release(struct world *w, const char *kind, const char *name);

/* Another writer patches an object by a merge patch; false if there is nothing to change. */
bool world_patch(struct world *w, const char *kind, const char *name, const char *patch);

/* The job's spec changes by a merge patch. */
void world_edit(struct world *w, const char *spec_patch);

/* A world with a short-form job of two workers and these further members of spec, settled. */
void world_start(struct world *w, const char *more);

/* Kind and name of each child of the job that world_start makes. */
#define WORLD_CHILDREN 5
extern const char *const world_children[WORLD_CHILDREN][2];

/* Fails the test if the job is in another state. */
void world_is_state(const struct world *w, const char *state);

/* One pass of the operator; returns how many actions it planned. */
size_t world_pass(struct world *w);

/* One round of the controllers and the kubelet; true if something changed. */
bool world_controllers(struct world *w);

/* Passes and controllers until nothing happens any more. Fails the test if that never comes. */
void world_settle(struct world *w);

/* The master's pod ends with that exit code and last words. */
void world_end_master(struct world *w, int exit_code, const char *message);

/* The container of a worker's pod ends like that, and is started again. */
void world_end_worker(struct world *w, const char *pod, int exit_code, const char *reason);

/* How many events have this reason. */
int world_events(const struct world *w, const char *reason);

/* Text at a path of the job's status; "" if none. */
const char *world_status(const struct world *w, const char *path);

/* Status ("True", ...) and message of a condition of the job; "" if it is absent. */
const char *world_condition(const struct world *w, const char *type);
const char *world_condition_text(const struct world *w, const char *type, const char *field);

/* A text of everything that must be the same after any crash: children, conditions, events. */
char *world_digest(const struct world *w);

/* Runs n passes ten seconds apart, each until the controllers have nothing more to do. */
void world_pass_on(struct world *w, int n);

#endif
