#ifndef HVD_TESTS_BENCH_STEP_H
#define HVD_TESTS_BENCH_STEP_H

/*
 * What the step benchmark needs of a runtime: one table of functions per runtime. A step submits
 * every tensor once, without waiting in between, and then waits for all of them; the same source
 * drives every runtime, so that only what is behind this table differs.
 */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor of float32. Everything is the caller's and stays until forget(). */
struct step_tensor {
    const char *name;
    float *input;
    float *output;
    size_t n;
    bool is_average; /* else the sum */
};

/* Functions return NULL, or a sentence on what failed that is valid until the next call. */
struct step_port {
    /* Joins the job, as the environment says now. MPI is initialised. */
    const char *(*init)(void);
    /* Makes what can be reused by every step over these tensors, in this order. */
    const char *(*prepare)(const struct step_tensor *tensors, size_t n_tensors);
    /* One step over the tensors that were prepared. */
    const char *(*step)(void);
    /* Frees what prepare made. */
    void (*forget)(void);
    /* Leaves the job; init may follow. */
    void (*shutdown)(void);
};

/* libhorovod. */
extern const struct step_port step_ours;

/* The symbol of a peer's shared object. */
#define STEP_PEER_SYMBOL "step_peer"

#ifdef __cplusplus
}
#endif

#endif
