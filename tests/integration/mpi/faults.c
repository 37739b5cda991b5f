/*
 * A rank ends badly, the others must be told soon: mpi_faults WHEN HOW VICTIM MILLISECONDS. They
 * say what they were told and after how long on standard output; test_faults.py judges.
 */
#include <horovod/horovod.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LARGE ((int64_t)1 << 20)

static struct {
    const char *when;
    const char *how;
    int victim;
    long ms;
} plan;

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void wait_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* The end of the victim. */
static void end_badly(void)
{
    if (strcmp(plan.how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(plan.how, "abort") == 0)
        abort();
    _exit(0);
}

static void *end_later(void *arg)
{
    (void)arg;
    wait_ms(plan.ms);
    end_badly();
    return NULL;
}

static horovod_status_t reduce(const char *name, float *data, int64_t n, horovod_reduce_op_t op,
                               horovod_error_t *err)
{
    return horovod_allreduce(
        data, data,
        HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = &n, .op = op),
        err);
}

/* Reduces until it fails. */
static horovod_status_t reduce_on(const char *name, int64_t n, horovod_reduce_op_t op,
                                  horovod_error_t *err)
{
    float *data = calloc((size_t)n, sizeof(*data));
    horovod_status_t st = HOROVOD_OK;

    while (data && st == HOROVOD_OK)
        st = reduce(name, data, n, op, err);
    free(data);
    return st;
}

/* The victim does not come to it; the others wait, or have nothing to do until it is gone. */
static horovod_status_t be_quiet(bool is_victim, horovod_error_t *err)
{
    float value = 1;

    if (is_victim) {
        wait_ms(plan.ms);
        end_badly();
    }
    if (strcmp(plan.when, "idle") == 0)
        wait_ms(plan.ms + 500);
    return reduce("missing", &value, 1, HOROVOD_SUM, err);
}

/* The victim goes on, but with other tensors. */
static horovod_status_t diverge(bool is_victim, horovod_error_t *err)
{
    float value = 1;

    return reduce(is_victim ? "other" : "missing", &value, 1, HOROVOD_SUM, err);
}

static horovod_status_t run(horovod_error_t *err)
{
    const bool is_victim = horovod_rank() == plan.victim;
    const bool is_adasum = strcmp(plan.when, "adasum") == 0;
    pthread_t thread;

    if (strcmp(plan.when, "diverging") == 0)
        return diverge(is_victim, err);
    if (strcmp(plan.when, "waiting") == 0 || strcmp(plan.when, "idle") == 0)
        return be_quiet(is_victim, err);
    if (is_victim && pthread_create(&thread, NULL, end_later, NULL) != 0)
        return HOROVOD_UNKNOWN_ERROR;
    return reduce_on("missing", strcmp(plan.when, "small") == 0 ? 1 : LARGE,
                     is_adasum ? HOROVOD_ADASUM : HOROVOD_SUM, err);
}

static void tell(const char *what, horovod_status_t st, double seconds, const char *message)
{
    printf("%s: %s after %.3f s: %s\n", what, horovod_status_name(st), seconds, message);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    horovod_error_t err = {0};

    if (argc != 5)
        return 2;
    plan.when = argv[1];
    plan.how = argv[2];
    plan.victim = atoi(argv[3]);
    plan.ms = atol(argv[4]);
    double since = now();
    if (!horovod_init(NULL, 0, NULL, NULL, 0)) {
        tell("init", horovod_init_error(&err), now() - since, err.message);
        horovod_shutdown();
        return 1;
    }
    float value = 1;
    if (reduce("before", &value, 1, HOROVOD_SUM, &err) != HOROVOD_OK)
        return 3;
    since = now();
    const int rank = horovod_rank();
    const horovod_status_t st = run(&err);
    tell("told", st, now() - since, err.message);
    since = now();
    horovod_shutdown();
    tell("down", HOROVOD_OK, now() - since, rank == plan.victim ? "the victim" : "another");
    return 0;
}
