/*
 * Ranks for test_frozen.py to stop: mpi_frozen WHAT. Each says on standard output which process it
 * is, works until it fails or, with "leave", until it shuts down, and says what it was told.
 *
 *     large   16 MiB in one tensor, again and again
 *     small   an element, with a pause
 *     sets    1 MiB in the process set of the even ranks, or the odd ones
 *     making  process sets of all ranks but one, made and removed, again and again; with
 * VICTIM_CALL the rank in VICTIM waits before a call as below, one behind those of horovod_init
 *     init    as small; in horovod_init the rank in VICTIM waits for a signal before the call of
 * MPI that VICTIM_CALL counts, from 0 on, of those that wait for all ranks; with VICTIM_OWNS the
 * program initialises MPI itself leave   a little, then horovod_shutdown; the rank in VICTIM waits
 * for a signal before
 */
#include <horovod/horovod.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LARGE ((int64_t)4 << 20) /* elements */
#define MEDIUM ((int64_t)256 << 10)
#define LITTLE 20 /* steps */
#define RANKS_MAX 64
#define LAST_MS 100 /* after the shutdown, in which what is left behind may do harm */

static void pause_ms(long ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};

    nanosleep(&time, NULL);
}

static void say(const char *what, const char *text)
{
    printf("%s %s\n", what, text);
    fflush(stdout);
}

static void say_who(const char *what, int rank)
{
    char text[64];

    snprintf(text, sizeof(text), "%d %d", rank, (int)getpid());
    say(what, text);
}

/* --- The calls of MPI within horovod_init that wait for all ranks -------------------------------
 */

static int n_calls;

/* Stops this process before one of them. */
static void count_call(const char *name)
{
    const char *victim = getenv("VICTIM");
    const char *call = getenv("VICTIM_CALL");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (!victim || !call || !rank || strcmp(victim, rank) != 0 || n_calls++ != atoi(call))
        return;
    say_who(name, atoi(rank));
    say_who("stays", atoi(rank));
    raise(SIGSTOP);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int rc = PMPI_Init_thread(argc, argv, required, provided);
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    say_who("inside", rank ? atoi(rank) : -1);
    return rc;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    count_call("MPI_Comm_dup");
    return PMPI_Comm_dup(comm, out);
}

/* The signatures are MPI's. NOLINTNEXTLINE(readability-function-size) */
int MPI_Gather(const void *from, int n, MPI_Datatype type, void *to, int n_to, MPI_Datatype type_to,
               int root, MPI_Comm comm)
{
    count_call("MPI_Gather");
    return PMPI_Gather(from, n, type, to, n_to, type_to, root, comm);
}

int MPI_Bcast(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    count_call("MPI_Bcast");
    return PMPI_Bcast(data, n, type, root, comm);
}

int MPI_Comm_split_type(MPI_Comm comm, int split, int key, MPI_Info info, MPI_Comm *out)
{
    count_call("MPI_Comm_split_type");
    return PMPI_Comm_split_type(comm, split, key, info, out);
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *out)
{
    count_call("MPI_Comm_split");
    return PMPI_Comm_split(comm, colour, key, out);
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count_call("MPI_Allreduce");
    return PMPI_Allreduce(from, to, n, type, op, comm);
}

/* NOLINTNEXTLINE(readability-function-size) */
int MPI_Allgather(const void *from, int n, MPI_Datatype type, void *to, int n_to,
                  MPI_Datatype type_to, MPI_Comm comm)
{
    count_call("MPI_Allgather");
    return PMPI_Allgather(from, n, type, to, n_to, type_to, comm);
}

/* NOLINTNEXTLINE(readability-function-size) */
int MPI_Iallgatherv(const void *from, int n, MPI_Datatype type, void *to, const int ns[],
                    const int displs[], MPI_Datatype type_to, MPI_Comm comm, MPI_Request *request)
{
    count_call("MPI_Iallgatherv");
    return PMPI_Iallgatherv(from, n, type, to, ns, displs, type_to, comm, request);
}

/* --- Work ------------------------------------------------------------------------------------- */

/* Sums until it fails, or n_steps times. */
static horovod_status_t work(int64_t n, int set, long rest_ms, int n_steps, horovod_error_t *err)
{
    float *data = calloc((size_t)n, sizeof(*data));
    horovod_status_t st = data ? HOROVOD_OK : HOROVOD_UNKNOWN_ERROR;

    for (int i = 0; st == HOROVOD_OK && (n_steps == 0 || i < n_steps); i++) {
        st = horovod_allreduce(data, data,
                               HOROVOD_TENSOR(.name = "gradient", .dtype = HOROVOD_FLOAT32,
                                              .ndim = 1, .shape = &n, .op = HOROVOD_SUM,
                                              .process_set = set),
                               err);
        if (rest_ms > 0)
            pause_ms(rest_ms);
    }
    free(data);
    return st;
}

/* The set that this rank is in: of the even ones, or the odd ones. */
static int add_sets(void)
{
    int ranks[2][RANKS_MAX];
    int n[2] = {0, 0};
    int sets[2];

    for (int rank = 0; rank < horovod_size() && rank < RANKS_MAX; rank++)
        ranks[rank % 2][n[rank % 2]++] = rank;
    for (int i = 0; i < 2; i++)
        sets[i] = horovod_add_process_set(ranks[i], n[i]);
    return sets[horovod_rank() % 2];
}

/* Where the job has ended before there is a set, any tensor is told why. */
static horovod_status_t sum_in_set(int set, horovod_error_t *err)
{
    return set > 0 ? work(MEDIUM, set, 0, 0, err) : work(1, 0, 0, 1, err);
}

/* Sets of all ranks but one, until it fails; why, as any tensor is told. */
static horovod_status_t make_sets(horovod_error_t *err)
{
    const int size = horovod_size();
    int ranks[RANKS_MAX];
    int id = 0;

    for (int left_out = 0; id >= 0; left_out = (left_out + 1) % size) {
        int n = 0;
        for (int rank = 0; rank < size && n < RANKS_MAX; rank++)
            if (rank != left_out)
                ranks[n++] = rank;
        id = horovod_add_process_set(ranks, n);
        if (id >= 0)
            id = horovod_remove_process_set(id);
    }
    return work(1, 0, 0, 1, err);
}

static horovod_status_t live(const char *what, horovod_error_t *err)
{
    const char *victim = getenv("VICTIM");
    horovod_status_t st;

    if (strcmp(what, "large") == 0)
        return work(LARGE, 0, 0, 0, err);
    if (strcmp(what, "small") == 0 || strcmp(what, "init") == 0)
        return work(1, 0, 5, 0, err);
    if (strcmp(what, "sets") == 0)
        return sum_in_set(add_sets(), err);
    if (strcmp(what, "making") == 0)
        return make_sets(err);
    st = work(1, 0, 0, LITTLE, err);
    if (st == HOROVOD_OK && victim && atoi(victim) == horovod_rank()) {
        say_who("stays", horovod_rank());
        raise(SIGSTOP);
    }
    return st;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    horovod_error_t err = {0};

    if (argc != 2)
        return 2;
    if (getenv("VICTIM_OWNS")) {
        int provided;
        PMPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    }
    say_who("begin", rank ? atoi(rank) : -1);
    if (!horovod_init(NULL, 0, NULL, NULL, 0)) {
        (void)horovod_init_error(&err);
        say("told", err.message);
        say("down", "");
        fflush(stdout);
        _exit(1); /* what was left behind in MPI is not waited for */
    }
    say_who("here", horovod_rank());
    const horovod_status_t st = live(argv[1], &err);
    if (st != HOROVOD_OK)
        say("told", err.message);
    horovod_shutdown();
    if (st != HOROVOD_OK)
        pause_ms(LAST_MS);
    say("down", "");
    return st == HOROVOD_OK ? 0 : 1;
}
