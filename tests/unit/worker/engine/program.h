#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAM_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/engine/programs.h"

/* What the generator, the oracle and the run of random programs share. */

#define TENSORS_MAX 40
#define ROUNDS_MAX 4
#define RANKS_MAX 64
#define SETS_MAX 3
#define ACTORS_MAX 2
#define ROWS_MAX 6
#define COLUMNS_MAX 5
#define TEXT_MAX 512

/* A process set; number 0 is the whole job. */
struct program_set {
    uint32_t id; /* as the engine numbers it */
    int n;
    int ranks[RANKS_MAX]; /* of the job, by rank of the set */
};

/* A tensor as a round has it: what every rank asks for, and who asks for something else. */
struct program_tensor {
    enum hvd_op op;
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    int set;
    int root; /* of the set */
    int64_t columns;
    int64_t rows;    /* uneven ones: of rank r it is (rows + r) % (ROWS_MAX + 1) */
    double prescale; /* 2 or 1, and then postscale is 0.5 or 1 */
    int odd_rank;    /* of the set: disagrees; -1: nobody */
    int odd_about;   /* 0 type, 1 shape, 2 root or reduction */
    uint64_t absent; /* ranks that leave it out of a round that ends with a join */
    bool is_rough;   /* values whose sum depends on the order of the ranks */
    bool is_in_place;
    bool is_odd_in_group; /* another one of its group has an odd rank */
};

/* Tensors that are submitted at once: one, or a group that completes together. */
struct program_unit {
    int first;
    int n;
};

struct program_submitted {
    int64_t handle;
    void *input;
    void *output;
    struct hvd_device_port *device; /* where it is; NULL: on the host */
    void *device_input;             /* what the engine sees of it then */
    void *device_output;
    struct hvd_device_event *ready; /* says that the input is there */
    size_t bytes;
    bool is_submitted;
    bool is_ended;
};

/* Who submits: a rank, or one of a rank's threads, each with units of its own. */
struct program_actor {
    struct program_run *run;
    int rank;
    int number; /* among those of the rank */
    int round;
    int n_order;
    int order[TENSORS_MAX]; /* of units */
    int n_next;             /* units submitted in the round */
    int n_open;             /* tensors submitted and not ended */
    int64_t join;           /* handle; 0: not joined */
    bool has_joined;        /* in this round, and it is over */
};

struct program_run {
    const struct program_options *options;
    uint64_t random;
    int n_sets;
    struct program_set sets[SETS_MAX];
    int n_tensors;
    int n_units;
    int n_rounds;
    struct program_unit units[TENSORS_MAX];
    struct program_tensor tensors[ROUNDS_MAX][TENSORS_MAX];
    bool ends_with_join[ROUNDS_MAX];
    int last_joined[ROUNDS_MAX];     /* as the first rank to end says; -1: nobody has */
    struct program_submitted *state; /* [rank * TENSORS_MAX + tensor], of its round */
    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    struct hvd_device_port *devices[RANKS_MAX]; /* NULL: none */
    struct hvd_transport *movers[RANKS_MAX];    /* of devices with collectives of their own */
    struct hvd_sim *inner;                      /* what these move over */
    int n_actors;                               /* of each rank */
    struct program_actor actors[RANKS_MAX][ACTORS_MAX];
    int n_ended;
    int victim;      /* -1: nobody is lost and nobody leaves early */
    bool leaves;     /* the victim shuts down instead of dying */
    int lost_after;  /* tensors that have ended */
    uint64_t die_at; /* instead: an event of the transport; 0: not so */
    bool is_lost;
    bool has_undertaker;
    pthread_t undertaker;    /* shuts a dead rank down, so that its threads end */
    int n_over;              /* ranks whose actors have ended */
    bool is_down[RANKS_MAX]; /* has called for the shutdown */
    char problem[TEXT_MAX];
};

/* A number below n, the next one of the seed's. */
int program_below(struct program_run *r, int n);

/* Remembers the first thing that was not as it should be. */
__attribute__((format(printf, 2, 3))) void program_blame(struct program_run *r, const char *fmt,
                                                         ...);

/* Makes the program of the options' seed. */
void program_make(struct program_run *r);

/* The order in which an actor submits its units of the round that it is in: the shared one, with
 * neighbours exchanged within windows. */
void program_make_order(struct program_run *r, struct program_actor *a);

/* --- Devices ---------------------------------------------------------------------------------- */

/* A device for each rank; after that, the memory of tensors, once their engines are gone. */
void program_open_devices(struct program_run *r);
void program_close_devices(struct program_run *r);

/* Whether a tensor is on devices in the round that somebody is in. */
bool program_is_on_device(const struct program_run *r, int round, int tensor);

/* Takes a tensor to the rank's device: the submission is about the memory there from now on. */
void program_load(struct program_run *r, int rank, struct program_submitted *s,
                  struct hvd_submission *submission);

/* Brings back what came of it, as if it had been on the host. output may be NULL. */
void program_unload(struct program_submitted *s, struct horovod_output *output);

/* Frees what the device has of it. */
void program_drop(struct program_submitted *s);

/* --- The oracle ------------------------------------------------------------------------------- */

/* The tensor in the round that somebody is in. */
const struct program_tensor *program_tensor_of(const struct program_run *r, int round, int tensor);

/* A rank of the job within the set of a tensor; -1 when it is not in it. */
int program_place(const struct program_run *r, const struct program_tensor *t, int rank);

/* How many rows the rank of that place in the set submits. */
int64_t program_rows(const struct program_run *r, const struct program_tensor *t, int place);

/* How many rows go from one place to another in an alltoall. */
int64_t program_split(const struct program_tensor *t, int from, int to);

/* Fills an input. */
void program_fill(const struct program_run *r, const struct program_tensor *t, int place,
                  enum hvd_dtype dtype, void *data, int64_t count);

/* Judges how a tensor ended on a rank, its values and who is named. output: of the library. */
void program_judge(struct program_run *r, const struct program_actor *a, int tensor,
                   hvd_status_t st, const char *text, const struct horovod_output *output);

/* Whether the victim is dead or has called for the shutdown. */
bool program_is_lost(struct program_run *r);

/* Whether a failure is what a rank that is lost or leaves brings about. */
bool program_may_fail(struct program_run *r, int rank, hvd_status_t st, const char *text);

#endif
