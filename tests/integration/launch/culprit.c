/*
 * culprit CAUSE RANK [ELEMENTS]: ranks reduce for ever, until that rank does what the cause says.
 * "between" is the end behind a first job, where the others begin a second one with all ranks;
 * "aside" the same, where they begin one among themselves. "still" is SIGSTOP before horovod_init,
 * "init" in MPI_Init, "late" a rank that comes to horovod_init long after the others. With
 * CULPRIT_MPI the program has initialised MPI before that. The others end as programs do: they
 * write what they were told and exit with 1, after horovod_shutdown with CULPRIT_OTHERS=shutdown,
 * and with 0 after that with CULPRIT_OTHERS=handle.
 */
#include <horovod/horovod.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 16
#define STEPS_BEFORE 5
#define STEPS_MAX 10000000
#define RANKS_MAX 16
#define LATE_S 20 /* longer than it takes horovodrun to find ranks that wait for ever */

/* Whether this rank is to do so. */
static int is_asked(const char *what)
{
    const char *who = getenv("CULPRIT_RANK");
    const char *cause = getenv("CULPRIT_CAUSE");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return who && cause && rank && strcmp(cause, what) == 0 && strcmp(rank, who) == 0;
}

/* In place of MPI's own, which libhorovod calls. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    if (is_asked("init"))
        (void)raise(SIGSTOP);
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Finalize(void)
{
    if (is_asked("stays"))
        (void)raise(SIGSTOP);
    if (is_asked("lingers"))
        (void)sleep(LATE_S);
    return PMPI_Finalize();
}

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

/* A second job that the culprit does not come to. */
static int end_between(int culprit)
{
    const int is_culprit = horovod_rank() == culprit;

    horovod_shutdown_job();
    if (is_culprit)
        horovod_shutdown();
    return is_culprit ? 3 : !horovod_init(NULL, 0, NULL, NULL, 0);
}

/* A second job that the culprit has no part in; one of the others comes late. */
static int go_on_without(int culprit)
{
    int others[RANKS_MAX] = {0};
    int n = 0;
    const int rank = horovod_rank();

    for (int i = 0; i < horovod_size() && n < RANKS_MAX; i++)
        if (i != culprit)
            others[n++] = i;
    horovod_shutdown_job();
    if (n > 0 && rank == others[0])
        (void)sleep(LATE_S);
    if (rank != culprit && !horovod_init(others, n, NULL, NULL, 0))
        return 1;
    horovod_shutdown();
    return 0;
}

/* What the others make of the error that they get. */
static int end_aborted(const char *others)
{
    const bool is_handled = strcmp(others, "handle") == 0;

    if (is_handled || strcmp(others, "shutdown") == 0)
        horovod_shutdown();
    return is_handled ? 0 : 1;
}

int main(void)
{
    const char *who = getenv("CULPRIT_RANK");
    const char *cause = getenv("CULPRIT_CAUSE");
    const char *others = getenv("CULPRIT_OTHERS");
    float data[ELEMENTS] = {0};
    int level = 0;

    if (is_asked("absent"))
        return 0;
    if (getenv("CULPRIT_MPI"))
        (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (is_asked("still"))
        (void)raise(SIGSTOP);
    if (is_asked("late"))
        (void)sleep(LATE_S);
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    if (who && cause && strcmp(cause, "between") == 0)
        return end_between(atoi(who));
    if (who && cause && strcmp(cause, "aside") == 0)
        return go_on_without(atoi(who));
    if (cause && (strcmp(cause, "late") == 0 || strcmp(cause, "stays") == 0 ||
                  strcmp(cause, "lingers") == 0)) {
        horovod_shutdown();
        return 0;
    }
    for (int64_t step = 0; step < STEPS_MAX; step++) {
        if (step == STEPS_BEFORE)
            (void)fprintf(stderr, "under way\n");
        if (step == STEPS_BEFORE && who && cause && horovod_rank() == atoi(who))
            fail(cause);
        if (reduce(data, step))
            return end_aborted(others ? others : "");
    }
    horovod_shutdown();
    return 0;
}
