#ifndef HVD_WORKER_ENGINE_ENGINE_INTERNAL_H
#define HVD_WORKER_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker/core/negotiate.h"
#include "worker/core/plan.h"
#include "worker/core/table.h"
#include "worker/engine/engine.h"

/* A thread in hvd_engine_wait or hvd_engine_shutdown, on its stack. */
struct hvd_waiter {
    struct hvd_waiter *next;
    pthread_cond_t cond;
    const struct hvd_entry *entry; /* NULL: waits for the end of the job */
};

/* A tensor from submission to the end of its wait. */
struct hvd_entry {
    struct hvd_entry *next; /* in the list that holds it: queue, todo */
    int64_t handle;
    struct hvd_request request; /* the name is at `name` */
    struct hvd_collective move;
    struct horovod_output *output; /* allgather; owned until taken */
    struct hvd_waiter *waiter;     /* guarded by mu; NULL: nobody waits yet */
    atomic_bool is_done;           /* set under mu, last */
    hvd_status_t status;           /* final once is_done */
    char *message;                 /* the reason of a failure; owned, may be NULL */
    char name[];
};

/* First in, first out. */
struct hvd_entry_list {
    struct hvd_entry *first;
    struct hvd_entry *last;
};

/* Handles to entries; a handle holds a generation, so that an old one is not taken for a new one.
 */
struct hvd_handles {
    struct hvd_handle_slot *slots; /* owned */
    uint32_t n_slots;
    uint32_t first_free; /* index + 1; 0: none */
};

#define HVD_MOVING_MAX 8

struct hvd_engine {
    struct hvd_topology topology;      /* constant */
    struct hvd_engine_options options; /* constant */
    pthread_t owner;                   /* constant: who made it; drives alone if thread_bound */
    pthread_t background;
    bool has_background; /* guarded by the caller of shutdown */
    bool is_crowded;     /* constant: more ranks on this host than processors, so never spin */

    pthread_mutex_t mu; /* never held while calling a log or the transport, but for listen, wake */
    /* guarded by mu */
    struct hvd_handles handles;
    struct hvd_table *table;     /* submitted, not in a plan yet */
    struct hvd_entry_list queue; /* in the table, not sent yet */
    struct hvd_waiter *waiters;
    bool is_driven;          /* some thread runs step(): it owns the section below */
    pthread_cond_t *sleeper; /* the driver sleeps on it; signal to hand it work */
    bool is_asleep;          /* the driver sleeps in the transport; wake it to hand it work */
    pthread_cond_t background_cond;
    bool must_stop;  /* the background thread */
    bool is_leaving; /* shutdown was called here */
    bool is_ended;   /* nothing may be submitted: `cause` says why */
    char *cause;     /* owned; NULL when there was no memory for it */
    /* set under mu, read anywhere */
    atomic_size_t n_queued;
    atomic_size_t n_outstanding; /* submitted and not done */
    atomic_size_t n_waiters;
    atomic_bool is_over; /* every rank has left, or nothing can be heard of them any more */

    /* the driver's */
    struct hvd_transport *transport;
    struct hvd_negotiator *negotiator; /* rank 0 */
    struct hvd_buf requests;
    struct hvd_entry_list todo; /* in the agreed order, not started */
    struct hvd_entry *moving[HVD_MOVING_MAX];
    int n_moving;
    struct horovod_output *orphans; /* of aborted allgathers; owned */
    bool is_leave_sent;
    bool is_down;    /* the plan said so */
    bool is_aborted; /* the peers cannot be counted on */
    int64_t next_stall_check_ns;
};

/* --- handles.c: caller holds mu --------------------------------------------------------------- */

/* Gives the entry a handle (entry->handle). HVD_ERR_NOMEM. */
hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry);

/* The entry of a handle; NULL when it is not one of ours or was removed. */
struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle);

/* Forgets the entry; its handle is unknown from then on. */
void hvd_handles_remove(struct hvd_handles *h, const struct hvd_entry *entry);

/* Some entry that has a handle; NULL when there is none. */
struct hvd_entry *hvd_handles_any(const struct hvd_handles *h);

/* Frees the table, not the entries. */
void hvd_handles_fini(struct hvd_handles *h);

/* --- progress.c: caller is the driver and does not hold mu ------------------------------------ */

/* Does what can be done now; whether anything happened. */
bool hvd_progress_step(struct hvd_engine *e);

/* Appends to a list. */
void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry);

/* Removes the first one; NULL when the list is empty. */
struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list);

/* --- drive.c ---------------------------------------------------------------------------------- */

/* Nanoseconds of a clock that never jumps. */
int64_t hvd_now_ns(void);

/* A condition whose timed waits use that clock. HVD_ERR_SYSTEM. */
hvd_status_t hvd_cond_init(pthread_cond_t *cond);

/* Waits until the waiter's entry is done, or the job is over for a waiter without entry; drives
 * when nobody else does. Caller holds mu, and holds it afterwards. */
void hvd_drive_wait(struct hvd_engine *e, struct hvd_waiter *waiter);

/* One step when nobody drives and this thread may. Caller holds mu, and holds it afterwards. */
bool hvd_drive_once(struct hvd_engine *e);

/* Whether this thread may drive. */
bool hvd_drive_allowed(const struct hvd_engine *e);

/* Tells whoever drives, or should, that there is work. Caller holds mu. */
void hvd_drive_kick(struct hvd_engine *e);

/* The background thread's function; arg is the engine. */
void *hvd_drive_background(void *arg);

#endif
