/*
 * The MPI transport. Control messages are point-to-point on one duplicated communicator, data moves
 * in nonblocking collectives on another, so every function returns at once. All calls come from one
 * thread at a time (the engine's driver), which is why MPI_THREAD_SERIALIZED is enough when MPI is
 * ours. Errors are returned by MPI (MPI_ERRORS_RETURN) and converted here.
 *
 * A tensor of more elements than an int counts goes in several MPI calls. They are all started at
 * once: MPI wants the collectives of a communicator in the same order on every rank, and only the
 * start of a tensor is ordered.
 */
#include "worker/transport/mpi.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define TAG 1
#define HOST_LEN 64
#define MESSAGE_LEN_MAX (1 << 30)
#define CHUNK_DEFAULT ((int64_t)1 << 27) /* at most 1 GiB in one MPI call */

/* A control message on its way out. */
struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    char data[];
};

/* The MPI calls of one collective. */
struct move {
    struct move *next; /* among the abandoned */
    int n_requests;
    int *counts_displs; /* of an allgather in one call; owned */
    MPI_Request requests[];
};

struct mpi_transport {
    struct hvd_transport base; /* first */
    MPI_Comm control;
    MPI_Comm data;
    bool owns_mpi;
    int64_t chunk_elements;
    struct outgoing *outgoing;
    struct move *abandoned; /* MPI may still use them: freed at the end */
    char *hosts;            /* on rank 0: HOST_LEN bytes a rank */
    struct hvd_inbound incoming;
    MPI_Request incoming_request; /* MPI_REQUEST_NULL: nothing is coming in */
};

static struct mpi_transport *self(struct hvd_transport *t)
{
    return (struct mpi_transport *)t;
}

/* Converts an MPI error; `what` is the call that failed. */
static hvd_status_t fail(struct hvd_err *err, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    int error_class = 0;

    MPI_Error_class(rc, &error_class);
    MPI_Error_string(rc, text, &len);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, error_class, "%s: %.*s", what, len, text);
}

/* --- Control messages ------------------------------------------------------------------------- */

static hvd_status_t reap_outgoing(struct mpi_transport *m, struct hvd_err *err)
{
    for (struct outgoing **at = &m->outgoing; *at;) {
        struct outgoing *o = *at;
        int done = 0;
        int rc = MPI_Test(&o->request, &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            return fail(err, rc, "MPI_Test of a control message");
        if (!done) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        hvd_free(o);
    }
    return HVD_OK;
}

static hvd_status_t mpi_send(struct hvd_transport *t, int to, const void *data, size_t len,
                             struct hvd_err *err)
{
    struct mpi_transport *m = self(t);

    if (len > MESSAGE_LEN_MAX)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "a control message of %zu bytes", len);
    struct outgoing *o = hvd_malloc(sizeof(*o) + len, 1);
    if (!o)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message to rank %d", to);
    memcpy(o->data, data, len);
    int rc = MPI_Isend(o->data, (int)len, MPI_BYTE, to, TAG, m->control, &o->request);
    if (rc != MPI_SUCCESS) {
        hvd_free(o);
        return HVD_WRAP(err, fail(err, rc, "MPI_Isend"), "message to rank %d", to);
    }
    o->next = m->outgoing;
    m->outgoing = o;
    return reap_outgoing(m, err);
}

/* Looks for a message and starts to receive it. */
static hvd_status_t begin_incoming(struct mpi_transport *m, struct hvd_err *err)
{
    MPI_Message message;
    MPI_Status status;
    int found = 0;
    int len = 0;
    int rc = MPI_Improbe(MPI_ANY_SOURCE, TAG, m->control, &found, &message, &status);

    if (rc != MPI_SUCCESS)
        return fail(err, rc, "MPI_Improbe");
    if (!found)
        return HVD_INPROGRESS;
    MPI_Get_count(&status, MPI_BYTE, &len);
    char *data = hvd_malloc((size_t)len, 1);
    if (!data)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for %d bytes from rank %d", len,
                        status.MPI_SOURCE);
    m->incoming = (struct hvd_inbound){.from = status.MPI_SOURCE, .data = data, .len = (size_t)len};
    rc = MPI_Imrecv(data, len, MPI_BYTE, &message, &m->incoming_request);
    return rc == MPI_SUCCESS ? HVD_OK : fail(err, rc, "MPI_Imrecv");
}

static hvd_status_t mpi_receive(struct hvd_transport *t, struct hvd_inbound *in,
                                struct hvd_err *err)
{
    struct mpi_transport *m = self(t);
    int done = 0;
    hvd_status_t st = m->outgoing ? reap_outgoing(m, err) : HVD_OK;

    if (st == HVD_OK && m->incoming_request == MPI_REQUEST_NULL)
        st = begin_incoming(m, err);
    if (st != HVD_OK)
        return st;
    int rc = MPI_Test(&m->incoming_request, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return HVD_WRAP(err, fail(err, rc, "MPI_Test"), "message from rank %d", m->incoming.from);
    if (!done)
        return HVD_INPROGRESS;
    *in = m->incoming;
    m->incoming = (struct hvd_inbound){0};
    return HVD_OK;
}

/* --- Collectives ------------------------------------------------------------------------------ */

static MPI_Datatype mpi_type(enum hvd_dtype dtype)
{
    switch ((int)dtype) {
    case HVD_UINT8:
        return MPI_UINT8_T;
    case HVD_INT32:
        return MPI_INT32_T;
    case HVD_INT64:
        return MPI_INT64_T;
    case HVD_FLOAT32:
        return MPI_FLOAT;
    case HVD_FLOAT64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op mpi_op(enum hvd_reduce reduce)
{
    switch ((int)reduce) {
    case HVD_MIN:
        return MPI_MIN;
    case HVD_MAX:
        return MPI_MAX;
    default:
        return MPI_SUM;
    }
}

static struct move *create_move(int64_t n_calls)
{
    struct move *mv = NULL;

    if (n_calls <= INT_MAX)
        mv = hvd_calloc(1, sizeof(*mv) + (size_t)n_calls * sizeof(MPI_Request));
    return mv;
}

static void destroy_move(struct move *mv)
{
    if (!mv)
        return;
    hvd_free(mv->counts_displs);
    hvd_free(mv);
}

static int64_t n_chunks(const struct mpi_transport *m, int64_t elements)
{
    return (elements + m->chunk_elements - 1) / m->chunk_elements;
}

static int start_reduce(struct mpi_transport *m, const struct hvd_collective *c, struct move *mv)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    int rc = MPI_SUCCESS;

    for (int64_t at = 0; at < c->count && rc == MPI_SUCCESS; at += m->chunk_elements) {
        int64_t n = c->count - at < m->chunk_elements ? c->count - at : m->chunk_elements;
        char *out = (char *)c->output + (size_t)at * width;
        const void *in =
            c->input == c->output ? MPI_IN_PLACE : (const char *)c->input + (size_t)at * width;
        rc = MPI_Iallreduce(in, out, (int)n, mpi_type(c->dtype), mpi_op(c->reduce), m->data,
                            &mv->requests[mv->n_requests]);
        mv->n_requests += rc == MPI_SUCCESS;
    }
    return rc;
}

/* One broadcast of `count` elements at `data`, in as many calls as it takes. */
static int start_cast(struct mpi_transport *m, const struct hvd_collective *c, int root, char *data,
                      int64_t count, struct move *mv)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    int rc = MPI_SUCCESS;

    for (int64_t at = 0; at < count && rc == MPI_SUCCESS; at += m->chunk_elements) {
        int64_t n = count - at < m->chunk_elements ? count - at : m->chunk_elements;
        rc = MPI_Ibcast(data + (size_t)at * width, (int)n, mpi_type(c->dtype), root, m->data,
                        &mv->requests[mv->n_requests]);
        mv->n_requests += rc == MPI_SUCCESS;
    }
    return rc;
}

static int start_broadcast(struct mpi_transport *m, const struct hvd_collective *c, struct move *mv)
{
    if (m->base.topology.rank == c->root && c->output != c->input)
        memcpy(c->output, c->input, (size_t)c->count * hvd_dtype_size((int)c->dtype));
    return start_cast(m, c, c->root, c->output, c->count, mv);
}

/* The whole allgather in one MPI call: counts and displacements fit. */
static int start_gather(struct mpi_transport *m, const struct hvd_collective *c, struct move *mv)
{
    const int size = m->base.topology.size;
    int *displs = mv->counts_displs + size;
    int at = 0;

    for (int i = 0; i < size; i++) {
        mv->counts_displs[i] = (int)c->counts[i];
        displs[i] = at;
        at += (int)c->counts[i];
    }
    int rc =
        MPI_Iallgatherv(c->input, (int)c->count, mpi_type(c->dtype), c->output, mv->counts_displs,
                        displs, mpi_type(c->dtype), m->data, &mv->requests[0]);
    mv->n_requests += rc == MPI_SUCCESS;
    return rc;
}

/* An allgather too large for one call: every rank broadcasts its part into place. */
static int start_gather_by_parts(struct mpi_transport *m, const struct hvd_collective *c,
                                 struct move *mv)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    char *part = c->output;
    int rc = MPI_SUCCESS;

    for (int i = 0; i < m->base.topology.size && rc == MPI_SUCCESS; i++) {
        if (i == m->base.topology.rank && c->count > 0)
            memcpy(part, c->input, (size_t)c->count * width);
        rc = start_cast(m, c, i, part, c->counts[i], mv);
        part += (size_t)c->counts[i] * width;
    }
    return rc;
}

static struct move *create_gather(struct mpi_transport *m, const struct hvd_collective *c,
                                  bool *by_parts)
{
    const int size = m->base.topology.size;
    int64_t total = 0;
    int64_t calls = 0;

    for (int i = 0; i < size; i++) {
        total += c->counts[i];
        calls += n_chunks(m, c->counts[i]);
    }
    *by_parts = total > m->chunk_elements;
    struct move *mv = create_move(*by_parts ? calls : 1);
    if (!mv || *by_parts)
        return mv;
    mv->counts_displs = hvd_calloc((size_t)size * 2, sizeof(int));
    if (!mv->counts_displs) {
        destroy_move(mv);
        return NULL;
    }
    return mv;
}

static hvd_status_t mpi_start(struct hvd_transport *t, struct hvd_collective *c,
                              struct hvd_err *err)
{
    struct mpi_transport *m = self(t);
    bool by_parts = false;
    int rc;
    struct move *mv = c->op == HVD_ALLGATHER ? create_gather(m, c, &by_parts)
                                             : create_move(n_chunks(m, c->count));

    if (!mv)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    c->_state = mv;
    if (c->op == HVD_ALLREDUCE)
        rc = start_reduce(m, c, mv);
    else if (c->op == HVD_BROADCAST)
        rc = start_broadcast(m, c, mv);
    else
        rc = by_parts ? start_gather_by_parts(m, c, mv) : start_gather(m, c, mv);
    if (rc == MPI_SUCCESS)
        return HVD_OK;
    mv->next = m->abandoned;
    m->abandoned = mv;
    c->_state = NULL;
    return fail(err, rc, hvd_op_name((int)c->op));
}

static hvd_status_t mpi_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct move *mv = c->_state;
    int done = 0;
    int rc = MPI_Testall(mv->n_requests, mv->requests, &done, MPI_STATUSES_IGNORE);

    (void)t;
    if (rc != MPI_SUCCESS)
        return fail(err, rc, hvd_op_name((int)c->op));
    if (!done)
        return HVD_INPROGRESS;
    destroy_move(mv);
    c->_state = NULL;
    return HVD_OK;
}

static void mpi_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct mpi_transport *m = self(t);
    struct move *mv = c->_state;

    mv->next = m->abandoned;
    m->abandoned = mv;
    c->_state = NULL;
}

/* --- Life ------------------------------------------------------------------------------------- */

static const char *mpi_host(const struct hvd_transport *t, int rank)
{
    const struct mpi_transport *m = (const struct mpi_transport *)t;

    if (!m->hosts || rank < 0 || rank >= t->topology.size)
        return NULL;
    return m->hosts + (size_t)rank * HOST_LEN;
}

/* Frees what is ours in memory; the requests are complete or MPI is finalised. */
static void free_transport(struct mpi_transport *m)
{
    while (m->outgoing) {
        struct outgoing *next = m->outgoing->next;
        hvd_free(m->outgoing);
        m->outgoing = next;
    }
    while (m->abandoned) {
        struct move *next = m->abandoned->next;
        destroy_move(m->abandoned);
        m->abandoned = next;
    }
    hvd_free(m->incoming.data);
    hvd_free(m->hosts);
    hvd_free(m);
}

static bool mpi_destroy(struct hvd_transport *t, bool clean)
{
    struct mpi_transport *m = self(t);

    /* Freeing a communicator is collective: only when all ranks do it. */
    if (clean) {
        for (struct outgoing *o = m->outgoing; o; o = o->next)
            MPI_Wait(&o->request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&m->control);
        MPI_Comm_free(&m->data);
    }
    if (m->owns_mpi)
        MPI_Finalize();
    /* Without MPI_Finalize, MPI may still write to what is moving: that memory must stay. */
    const bool is_quiet = clean || m->owns_mpi;
    if (is_quiet)
        free_transport(m);
    return is_quiet;
}

static const struct hvd_transport_ops mpi_ops = {
    .name = "mpi",
    .send = mpi_send,
    .receive = mpi_receive,
    .start = mpi_start,
    .test = mpi_test,
    .abandon = mpi_abandon,
    .host = mpi_host,
    .destroy = mpi_destroy,
};

static const char *level_name(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE:
        return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
        return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
        return "MPI_THREAD_SERIALIZED";
    default:
        return "MPI_THREAD_MULTIPLE";
    }
}

/* Initialises MPI, or finds it initialised; judges the thread level. */
static hvd_status_t enter_mpi(struct mpi_transport *m, bool allow_single_thread,
                              struct hvd_err *err)
{
    int is_initialized = 0;
    int is_finalized = 0;
    int level = MPI_THREAD_SINGLE;
    int is_main = 0;

    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    if (is_finalized)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "MPI was finalised in this process and cannot be initialised again: call "
                        "horovod_init once per process, or initialise MPI yourself before it and "
                        "finalise it after the last horovod_shutdown");
    if (!is_initialized) {
        int rc = MPI_Init_thread(
            NULL, NULL, allow_single_thread ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
        if (rc != MPI_SUCCESS)
            return fail(err, rc, "MPI_Init_thread");
        m->owns_mpi = true;
    }
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    m->base.topology.threads_multiple = level >= MPI_THREAD_MULTIPLE;
    m->base.topology.thread_bound = allow_single_thread;
    if (allow_single_thread && (is_main || level >= MPI_THREAD_SERIALIZED))
        return HVD_OK;
    if (level >= (m->owns_mpi ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE))
        return HVD_OK;
    return HVD_FAIL(
        err, HVD_ERR_STATE, 0,
        "MPI was initialised at %s, %s is needed: ask for it in MPI_Init_thread, or set "
        "HOROVOD_MPI_THREADS_DISABLE=1 and use Horovod from the main thread alone",
        level_name(level), m->owns_mpi ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE");
}

/* Rank 0 learns the host of every rank, to name it in messages. */
static int learn_hosts(struct mpi_transport *m)
{
    char mine[HOST_LEN] = "";

    gethostname(mine, sizeof(mine) - 1);
    return MPI_Gather(mine, HOST_LEN, MPI_CHAR, m->hosts, HOST_LEN, MPI_CHAR, 0, m->control);
}

static int learn_places(struct mpi_transport *m)
{
    struct hvd_topology *top = &m->base.topology;
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm cross = MPI_COMM_NULL;
    int extremes[2];
    int rc =
        MPI_Comm_split_type(m->control, MPI_COMM_TYPE_SHARED, top->rank, MPI_INFO_NULL, &local);

    if (rc == MPI_SUCCESS) {
        MPI_Comm_rank(local, &top->local_rank);
        MPI_Comm_size(local, &top->local_size);
        rc = MPI_Comm_split(m->control, top->local_rank, top->rank, &cross);
    }
    if (rc == MPI_SUCCESS) {
        MPI_Comm_rank(cross, &top->cross_rank);
        MPI_Comm_size(cross, &top->cross_size);
        extremes[0] = top->local_size;
        extremes[1] = -top->local_size;
        rc = MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT, MPI_MIN, m->control);
        top->is_homogeneous = extremes[0] == -extremes[1];
    }
    if (cross != MPI_COMM_NULL)
        MPI_Comm_free(&cross);
    if (local != MPI_COMM_NULL)
        MPI_Comm_free(&local);
    return rc;
}

/* Our communicators; errors on them are returned, whatever the program set for its own. */
static int make_communicators(struct mpi_transport *m)
{
    MPI_Errhandler theirs = MPI_ERRHANDLER_NULL;

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &theirs);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_dup(MPI_COMM_WORLD, &m->control);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_dup(MPI_COMM_WORLD, &m->data);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, theirs);
    MPI_Errhandler_free(&theirs);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_set_errhandler(m->control, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(m->data, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->control, &m->base.topology.rank);
    return MPI_Comm_size(m->control, &m->base.topology.size);
}

hvd_status_t hvd_mpi_create(const struct hvd_mpi_options *options, struct hvd_transport **out,
                            struct hvd_err *err)
{
    struct mpi_transport *m = hvd_calloc(1, sizeof(*m));
    hvd_status_t st;
    int rc;

    if (!m)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the MPI transport");
    m->base.ops = &mpi_ops;
    m->incoming_request = MPI_REQUEST_NULL;
    m->chunk_elements = options->chunk_elements > 0 ? options->chunk_elements : CHUNK_DEFAULT;
    st = enter_mpi(m, options->allow_single_thread, err);
    if (st != HVD_OK)
        goto out;
    rc = make_communicators(m);
    if (rc == MPI_SUCCESS && m->base.topology.rank == 0) {
        m->hosts = hvd_calloc((size_t)m->base.topology.size, HOST_LEN);
        if (!m->hosts) /* the others are about to send: this process cannot go on alone */
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the names of the hosts");
    }
    if (rc == MPI_SUCCESS && st == HVD_OK)
        rc = learn_hosts(m);
    if (rc == MPI_SUCCESS && st == HVD_OK)
        rc = learn_places(m);
    if (rc != MPI_SUCCESS)
        st = fail(err, rc, "setting up MPI communicators");
    if (st != HVD_OK)
        goto out;
    *out = &m->base;
    m = NULL;
out:
    if (m)
        free_transport(m);
    return st;
}
