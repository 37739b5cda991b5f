/*
 * culprit CAUSE RANK [ELEMENTS]: ranks reduce for ever, until that rank does what the cause says.
 * The others end as programs do: they write what they were told and exit with 1, after
 * horovod_shutdown with CULPRIT_OTHERS=shutdown.
 */
#include <horovod/horovod.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 16
#define STEPS_BEFORE 5
#define STEPS_MAX 10000000

static void fail(const char *cause)
{
    if (strcmp(cause, "kill") == 0)
        (void)raise(SIGKILL);
    else if (strcmp(cause, "segv") == 0)
        (void)raise(SIGSEGV);
    else if (strcmp(cause, "abort") == 0)
        abort();
    else if (strcmp(cause, "leave") == 0)
        exit(0);
    else if (strcmp(cause, "exit") == 0 || strcmp(cause, "shutdown") == 0) {
        (void)fprintf(stderr, "no data\n");
        if (strcmp(cause, "shutdown") == 0)
            horovod_shutdown();
        exit(3);
    }
}

static int reduce(float *data, int64_t step)
{
    const int64_t count = ELEMENTS;
    char name[64];
    horovod_error_t err = {0};
    const horovod_tensor_t tensor = {.size = sizeof(tensor),
                                     .name = name,
                                     .dtype = HOROVOD_FLOAT32,
                                     .op = HOROVOD_SUM,
                                     .ndim = 1,
                                     .shape = &count};

    (void)snprintf(name, sizeof(name), "gradient.%d", (int)(step % 4));
    if (horovod_allreduce(data, data, &tensor, &err) == HOROVOD_OK)
        return 0;
    (void)fprintf(stderr, "allreduce: %s\n", err.message);
    return 1;
}

int main(void)
{
    const char *who = getenv("CULPRIT_RANK");
    const char *cause = getenv("CULPRIT_CAUSE");
    const char *others = getenv("CULPRIT_OTHERS");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    float data[ELEMENTS] = {0};

    if (who && cause && rank && strcmp(cause, "absent") == 0 && strcmp(rank, who) == 0)
        return 0;
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    for (int64_t step = 0; step < STEPS_MAX; step++) {
        if (step == STEPS_BEFORE)
            (void)fprintf(stderr, "under way\n");
        if (step == STEPS_BEFORE && who && cause && horovod_rank() == atoi(who))
            fail(cause);
        if (reduce(data, step)) {
            if (others && strcmp(others, "shutdown") == 0)
                horovod_shutdown();
            return 1;
        }
    }
    horovod_shutdown();
    return 0;
}
