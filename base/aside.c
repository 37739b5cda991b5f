/*
 * Each call has a lock and a condition. The last user frees them: the thread if the caller
 * abandoned the call, else the caller.
 */
#include "base/aside.h"

#include <pthread.h>
#include <time.h>

#include "base/mem.h"

struct hvd_aside {
    hvd_aside_fn fn;
    void *ctx;
    const char *name;
    pthread_t thread;
    hvd_status_t status; /* the thread's until it is done, as err */
    struct hvd_err err;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool is_done; /* guarded by mu, as what follows */
    bool is_left; /* the caller has abandoned the call */
};

static void destroy(struct hvd_aside *aside)
{
    pthread_cond_destroy(&aside->cond);
    pthread_mutex_destroy(&aside->mu);
    hvd_free(aside);
}

static void *run(void *arg)
{
    struct hvd_aside *aside = arg;

    pthread_setname_np(pthread_self(), aside->name);
    aside->status = aside->fn(aside->ctx, &aside->err);
    pthread_mutex_lock(&aside->mu);
    aside->is_done = true;
    const bool is_left = aside->is_left;
    pthread_cond_signal(&aside->cond);
    pthread_mutex_unlock(&aside->mu);
    if (is_left) {
        hvd_free(aside->ctx);
        destroy(aside);
    }
    return NULL;
}

static int init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

hvd_status_t hvd_aside_start(const char *name, hvd_aside_fn fn, void *ctx, struct hvd_aside **out)
{
    struct hvd_aside *aside = hvd_calloc(1, sizeof(*aside));

    if (!aside)
        return HVD_ERR_NOMEM;
    aside->fn = fn;
    aside->ctx = ctx;
    aside->name = name;
    if (pthread_mutex_init(&aside->mu, NULL) != 0) {
        hvd_free(aside);
        return HVD_ERR_SYSTEM;
    }
    if (init_cond(&aside->cond) != 0) {
        pthread_mutex_destroy(&aside->mu);
        hvd_free(aside);
        return HVD_ERR_SYSTEM;
    }
    if (pthread_create(&aside->thread, NULL, run, aside) != 0) {
        destroy(aside);
        return HVD_ERR_SYSTEM;
    }
    *out = aside;
    return HVD_OK;
}

bool hvd_aside_wait(struct hvd_aside *aside, int64_t ns)
{
    struct timespec at;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (at.tv_nsec + ns) / 1000000000;
    at.tv_nsec = (at.tv_nsec + ns) % 1000000000;
    pthread_mutex_lock(&aside->mu);
    while (!aside->is_done && rc == 0)
        rc = pthread_cond_timedwait(&aside->cond, &aside->mu, &at);
    const bool is_done = aside->is_done;
    pthread_mutex_unlock(&aside->mu);
    return is_done;
}

bool hvd_aside_end(struct hvd_aside *aside, hvd_status_t *status, struct hvd_err *err)
{
    const pthread_t thread = aside->thread;

    pthread_mutex_lock(&aside->mu);
    aside->is_left = !aside->is_done;
    const bool is_left = aside->is_left;
    pthread_mutex_unlock(&aside->mu);
    if (is_left) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    *status = aside->status;
    if (err && aside->status != HVD_OK)
        *err = aside->err;
    destroy(aside);
    return true;
}
