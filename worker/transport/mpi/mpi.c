/*
 * The MPI transport. Control messages are point-to-point on one duplicated communicator. Data moves
 * in nonblocking calls on another one, and on one for each process set (move.c), so every function
 * returns at once. One thread at a time makes all calls (the engine's progress owner).
 * MPI_THREAD_SERIALIZED is therefore enough when this file initialises MPI. MPI returns its errors
 * (MPI_ERRORS_RETURN), and this file converts them.
 */
#include "worker/transport/mpi/mpi.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rank_state.h"
#include "worker/core/rank_list.h"
#include "worker/transport/mpi/move.h"
#include "worker/transport/mpi/ranks.h"
#include "worker/transport/mpi/room.h"

#define TAG 1
#define SET_TAG 100 /* of the messages by which some ranks make a communicator */
#define SET_TAGS 10000
#define HOST_LEN 64
#define MESSAGE_LEN_MAX (1 << 30)
#define CHUNK_DEFAULT ((int64_t)1 << 27) /* at most 1 GiB in one MPI call */

/* A control message being sent. Finished ones are reused. */
struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    size_t room;
    char data[];
};

/* A process set other than set 0. */
struct mpi_set {
    struct mpi_set *next;
    uint32_t id;
    struct hvd_mpi_channel channel;
};

struct mpi_transport {
    struct hvd_transport base; /* first */
    MPI_Comm control;
    struct hvd_mpi_channel world; /* set 0 */
    struct mpi_set *sets;         /* owned */
    bool owns_mpi;
    struct hvd_mpi_mover mover;
    struct outgoing *outgoing;
    struct outgoing *spare;         /* owned */
    struct hvd_mpi_move *abandoned; /* MPI may still use them, so they are freed at the end */
    char *hosts;                    /* HOST_LEN bytes a rank; owned */
    struct hvd_inbound incoming;
    MPI_Request incoming_request; /* MPI_REQUEST_NULL: no message is coming in */
    char *inbox;                  /* memory of the last message, for reuse; owned; may be NULL */
    size_t inbox_room;
    size_t incoming_room;
};

/* Whether hvd_mpi_create has initialised MPI, which can happen once per process. */
static bool is_mpi_ours;

/* Whether a job ended without agreement. A rank may be gone then, and all collective calls,
 * MPI_Finalize included, may wait for it for ever. */
static bool is_mpi_lost;

static struct mpi_transport *self(struct hvd_transport *t)
{
    return (struct mpi_transport *)t;
}

/* Converts an MPI error; `what` is the failed call. */
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
        o->next = m->spare;
        m->spare = o;
    }
    return HVD_OK;
}

/* A message with room for so many bytes, reused or new; NULL when out of memory. */
static struct outgoing *take_outgoing(struct mpi_transport *m, size_t len)
{
    for (struct outgoing **at = &m->spare; *at; at = &(*at)->next) {
        struct outgoing *o = *at;
        if (o->room < len)
            continue;
        *at = o->next;
        return o;
    }
    struct outgoing *o = hvd_malloc(sizeof(*o) + len, 1);
    if (o)
        o->room = len;
    return o;
}

static hvd_status_t mpi_send(struct hvd_transport *t, int to, const void *data, size_t len,
                             struct hvd_err *err)
{
    struct mpi_transport *m = self(t);

    if (len > MESSAGE_LEN_MAX)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "a control message of %zu bytes", len);
    struct outgoing *o = take_outgoing(m, len);
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

/* Ignores failures: the code that waits for the peer meets them again. */
static void mpi_flush(struct hvd_transport *t)
{
    if (self(t)->outgoing && reap_outgoing(self(t), NULL) != HVD_OK)
        return;
}

/* Memory for a message of so many bytes, as hvd_malloc gives it. NULL when out of memory. */
static char *take_inbox(struct mpi_transport *m, size_t len)
{
    char *data = m->inbox;

    if (data && m->inbox_room >= len) {
        m->inbox = NULL;
        m->incoming_room = m->inbox_room;
        return data;
    }
    m->incoming_room = len;
    return hvd_malloc(len, 1);
}

/* Keeps the memory of the message received last. */
static void mpi_recycle(struct hvd_transport *t, struct hvd_inbound *in)
{
    struct mpi_transport *m = self(t);

    /* During a receive, incoming_room belongs to the message that is coming in. */
    if (m->incoming_request != MPI_REQUEST_NULL || m->inbox) {
        hvd_free(in->data);
    } else {
        m->inbox = in->data;
        m->inbox_room = m->incoming_room;
    }
    in->data = NULL;
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
    char *data = take_inbox(m, (size_t)len);
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

/* Finds the channel of a process set; NULL when there is no such set. */
static struct hvd_mpi_channel *find_channel(struct mpi_transport *m, uint32_t id)
{
    struct mpi_set *set = m->sets;

    if (id == 0)
        return &m->world;
    while (set && set->id != id)
        set = set->next;
    return set ? &set->channel : NULL;
}

static hvd_status_t mpi_start(struct hvd_transport *t, struct hvd_collective *c,
                              struct hvd_err *err)
{
    struct mpi_transport *m = self(t);
    struct hvd_mpi_channel *channel = find_channel(m, c->set);
    struct hvd_mpi_move *broken = NULL;
    int rc = MPI_SUCCESS;

    if (!channel)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "no process set %u", c->set);
    c->_state = hvd_mpi_move_start(&m->mover, *channel, c, &rc, &broken);
    if (c->_state) {
        channel->next_tag += hvd_mpi_move_tags(c->_state, c);
        return HVD_OK;
    }
    if (broken) {
        broken->next = m->abandoned;
        m->abandoned = broken;
    }
    if (rc == MPI_SUCCESS)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    return fail(err, rc, hvd_op_name((int)c->op));
}

static hvd_status_t mpi_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct mpi_transport *m = self(t);
    struct hvd_mpi_move *mv = c->_state;
    const struct hvd_mpi_channel *channel = find_channel(m, c->set);
    int done = 0;
    int rc = hvd_mpi_move_test(*channel, c, mv, &done);

    if (rc != MPI_SUCCESS)
        return fail(err, rc, hvd_op_name((int)c->op));
    if (!done)
        return HVD_INPROGRESS;
    hvd_mpi_move_finish(&m->mover, *channel, c, mv);
    c->_state = NULL;
    return HVD_OK;
}

static void mpi_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct mpi_transport *m = self(t);
    struct hvd_mpi_move *mv = c->_state;

    mv->next = m->abandoned;
    m->abandoned = mv;
    c->_state = NULL;
}

/* Translates ranks of a communicator to those of the job. */
static int translate(struct mpi_transport *m, MPI_Comm comm, int *ranks, int n)
{
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Group all = MPI_GROUP_NULL;
    int rc = MPI_Comm_group(comm, &members);

    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(m->world.comm, &all);
    for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
        const int rank = ranks[i];
        rc = MPI_Group_translate_ranks(members, 1, &rank, all, &ranks[i]);
    }
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    return rc == MPI_SUCCESS ? n : 0;
}

static int mpi_awaits(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room)
{
    struct mpi_transport *m = self(t);
    const struct hvd_mpi_channel *channel = find_channel(m, c->set);
    const int n = hvd_mpi_steps_awaits(c->_state, ranks, room);

    return c->set == 0 ? n : translate(m, channel->comm, ranks, n);
}

static uint64_t mpi_moved(struct hvd_transport *t, const struct hvd_collective *c)
{
    (void)t;
    return hvd_mpi_move_moved(c->_state);
}

/* --- Process sets ----------------------------------------------------------------------------- */

static hvd_status_t mpi_add_set(struct hvd_transport *t, uint32_t id, const int *ranks, int n_ranks,
                                struct hvd_err *err)
{
    struct mpi_transport *m = self(t);
    struct mpi_set *set = hvd_calloc(1, sizeof(*set));
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;

    if (!set)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for process set %u", id);
    int rc = MPI_Comm_group(m->world.comm, &all);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(all, n_ranks, ranks, &members);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(m->world.comm, members, SET_TAG + (int)(id % SET_TAGS), &comm);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    if (rc != MPI_SUCCESS) {
        hvd_free(set);
        return fail(err, rc, "MPI_Comm_create_group");
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    set->id = id;
    set->channel.comm = comm;
    MPI_Comm_rank(comm, &set->channel.rank);
    MPI_Comm_size(comm, &set->channel.size);
    set->next = m->sets;
    m->sets = set;
    return HVD_OK;
}

static bool mpi_adds_aside(const struct hvd_transport *t)
{
    return t->topology.threads_multiple && !t->topology.thread_bound;
}

static void mpi_remove_set(struct hvd_transport *t, uint32_t id)
{
    struct mpi_transport *m = self(t);

    for (struct mpi_set **at = &m->sets; *at; at = &(*at)->next) {
        struct mpi_set *set = *at;
        if (set->id != id)
            continue;
        *at = set->next;
        MPI_Comm_free(&set->channel.comm);
        hvd_free(set);
        return;
    }
}

/* --- Life ------------------------------------------------------------------------------------- */

static const char *mpi_host(const struct hvd_transport *t, int rank)
{
    const struct mpi_transport *m = (const struct mpi_transport *)t;

    return rank >= 0 && rank < t->topology.size && m->hosts ? m->hosts + (size_t)rank * HOST_LEN
                                                            : NULL;
}

static void free_outgoing(struct outgoing *o)
{
    while (o) {
        struct outgoing *next = o->next;
        hvd_free(o);
        o = next;
    }
}

/* Frees our own memory; the requests are complete or MPI is finalised. */
static void free_transport(struct mpi_transport *m)
{
    free_outgoing(m->outgoing);
    free_outgoing(m->spare);
    hvd_mpi_move_destroy(m->abandoned);
    hvd_mpi_move_destroy(m->mover.spare);
    while (m->sets) {
        struct mpi_set *next = m->sets->next;
        hvd_free(m->sets);
        m->sets = next;
    }
    hvd_free(m->incoming.data);
    hvd_free(m->inbox);
    hvd_free(m->hosts);
    hvd_free(m);
}

static bool mpi_destroy(struct hvd_transport *t, bool clean)
{
    struct mpi_transport *m = self(t);

    /* Freeing a communicator is collective, so it needs all ranks. */
    if (clean) {
        for (struct outgoing *o = m->outgoing; o; o = o->next)
            MPI_Wait(&o->request, MPI_STATUS_IGNORE);
        while (m->sets)
            mpi_remove_set(t, m->sets->id);
        MPI_Comm_free(&m->control);
        MPI_Comm_free(&m->world.comm);
        hvd_mpi_ops_fini(&m->mover.ops);
    }
    if (clean && m->owns_mpi)
        MPI_Finalize();
    is_mpi_lost = is_mpi_lost || !clean;
    /* MPI may still write to moving data, and read sent data: that memory must stay. */
    const bool is_quiet = clean || (!m->abandoned && !m->outgoing &&
                                    m->incoming_request == MPI_REQUEST_NULL && !t->is_left);
    if (is_quiet)
        free_transport(m);
    return is_quiet;
}

const void *hvd_mpi_comm(const struct hvd_transport *t)
{
    return &((const struct mpi_transport *)t)->world.comm;
}

void hvd_mpi_keep(struct hvd_transport *t)
{
    self(t)->owns_mpi = false;
}

void hvd_mpi_lose(void)
{
    is_mpi_lost = true;
}

void hvd_mpi_leave(void)
{
    int is_finalized = 0;

    if (!is_mpi_ours || is_mpi_lost)
        return;
    MPI_Finalized(&is_finalized);
    if (!is_finalized)
        MPI_Finalize();
}

static const struct hvd_transport_ops mpi_ops = {
    .name = "mpi",
    .send = mpi_send,
    .receive = mpi_receive,
    .flush = mpi_flush,
    .recycle = mpi_recycle,
    .add_set = mpi_add_set,
    .adds_aside = mpi_adds_aside,
    .remove_set = mpi_remove_set,
    .start = mpi_start,
    .test = mpi_test,
    .abandon = mpi_abandon,
    .awaits = mpi_awaits,
    .moved = mpi_moved,
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

/* Called by MPI_Finalize, which removes the attributes of this communicator before anything
 * else. */
static int note_finalise(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    hvd_rank_state_finalise();
    return MPI_SUCCESS;
}

/* Lets horovodrun see that this process finalises MPI, by us or by the program: other ranks may
 * then wait for it. If that fails, the job runs without. */
static void watch_finalise(void)
{
    static bool is_watched;
    int key = MPI_KEYVAL_INVALID;

    if (is_watched ||
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_finalise, &key, NULL) != MPI_SUCCESS)
        return;
    is_watched = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) == MPI_SUCCESS;
}

/* Initialises MPI, unless the program did, and checks the thread level. */
static hvd_status_t enter_mpi(struct mpi_transport *m, bool allow_single_thread, bool has_comm,
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
    if (is_mpi_lost)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "The last job of this process was aborted, and MPI cannot be relied on "
                        "after that: start the processes anew");
    if (!is_initialized && has_comm)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "a communicator is given, and MPI is not initialised");
    if (!is_initialized) {
        hvd_status_t st = hvd_mpi_check_room(err);

        if (st < 0)
            return st;
        int rc = MPI_Init_thread(
            NULL, NULL, allow_single_thread ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
        if (rc != MPI_SUCCESS)
            return fail(err, rc, "MPI_Init_thread");
        is_mpi_ours = true;
    }
    hvd_rank_state_set(HVD_RANK_GATHERING);
    m->owns_mpi = is_mpi_ours;
    watch_finalise();
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

/* Gathers the host of every rank, so that messages can name it beside the rank. */
static int learn_hosts(struct mpi_transport *m)
{
    char here[HOST_LEN] = "";

    gethostname(here, sizeof(here) - 1);
    return MPI_Allgather(here, HOST_LEN, MPI_CHAR, m->hosts, HOST_LEN, MPI_CHAR, m->control);
}

static int learn_topology(struct mpi_transport *m)
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

/* Duplicates the chosen communicator twice. Errors on the copies are returned. */
static int duplicate(struct mpi_transport *m, MPI_Comm from)
{
    int rc = MPI_Comm_dup(from, &m->control);

    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_dup(from, &m->world.comm);
    if (rc == MPI_SUCCESS)
        rc = hvd_mpi_ops_init(&m->mover.ops);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_set_errhandler(m->control, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(m->world.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->control, &m->base.topology.rank);
    rc = MPI_Comm_size(m->control, &m->base.topology.size);
    m->world.rank = m->base.topology.rank;
    m->world.size = m->base.topology.size;
    return rc;
}

/* Makes our communicators from some of the ranks of a communicator. */
static hvd_status_t make_from_some(struct mpi_transport *m, MPI_Comm from,
                                   const struct hvd_mpi_options *options, struct hvd_err *err)
{
    MPI_Comm chosen = MPI_COMM_NULL;
    const hvd_status_t st =
        hvd_mpi_ranks_choose(&from, options->ranks, options->n_ranks, &chosen, err);

    if (st != HVD_OK)
        return st;
    const int rc = duplicate(m, chosen);
    MPI_Comm_free(&chosen);
    return rc == MPI_SUCCESS ? HVD_OK : fail(err, rc, "setting up MPI communicators");
}

/* Makes our communicators; the program's keeps its error handler. */
static hvd_status_t make_communicators(struct mpi_transport *m,
                                       const struct hvd_mpi_options *options, struct hvd_err *err)
{
    const MPI_Comm given = options->comm ? *(const MPI_Comm *)options->comm : MPI_COMM_WORLD;
    MPI_Errhandler theirs = MPI_ERRHANDLER_NULL;
    hvd_status_t st = HVD_OK;

    if (given == MPI_COMM_NULL)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the communicator is MPI_COMM_NULL");
    MPI_Comm_get_errhandler(given, &theirs);
    MPI_Comm_set_errhandler(given, MPI_ERRORS_RETURN);
    if (options->n_ranks > 0) {
        st = make_from_some(m, given, options, err);
    } else {
        const int rc = duplicate(m, given);
        if (rc != MPI_SUCCESS)
            st = fail(err, rc, "setting up MPI communicators");
    }
    MPI_Comm_set_errhandler(given, theirs);
    MPI_Errhandler_free(&theirs);
    return st;
}

/* Gathers the hosts and learns the topology. */
static hvd_status_t learn(struct mpi_transport *m, struct hvd_err *err)
{
    int rc;

    m->hosts = hvd_calloc((size_t)m->base.topology.size, HOST_LEN);
    if (!m->hosts) /* the others are about to send, so this process cannot go on alone */
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the names of the hosts");
    rc = learn_hosts(m);
    if (rc == MPI_SUCCESS)
        rc = learn_topology(m);
    return rc == MPI_SUCCESS ? HVD_OK : fail(err, rc, "setting up MPI communicators");
}

/* Arguments of the calls that wait for all ranks, which run one after the other. */
struct meeting {
    struct mpi_transport *m;
    struct hvd_mpi_options options; /* `ranks` and `comm` are read before the wait */
};

static hvd_status_t make_step(void *ctx, struct hvd_err *err)
{
    const struct meeting *meeting = ctx;

    return make_communicators(meeting->m, &meeting->options, err);
}

static hvd_status_t learn_step(void *ctx, struct hvd_err *err)
{
    const struct meeting *meeting = ctx;

    return learn(meeting->m, err);
}

static hvd_status_t attend(struct mpi_transport *m, const struct hvd_mpi_options *options,
                           hvd_aside_fn fn, struct hvd_err *err)
{
    struct meeting *meeting = hvd_malloc(1, sizeof(*meeting));

    if (!meeting)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the MPI transport");
    *meeting = (struct meeting){.m = m, .options = *options};
    const hvd_status_t st = options->arrival
                                ? hvd_mpi_arrival_attend(options->arrival, fn, meeting, err)
                                : fn(meeting, err);
    if (st != HVD_ERR_GONE)
        hvd_free(meeting);
    return st;
}

/* Whether this rank can send while another thread waits in MPI. */
static bool can_attend(const struct mpi_transport *m)
{
    return m->base.topology.threads_multiple && !m->base.topology.thread_bound;
}

/* Checks the ranks before a message is sent to them: MPI would end the process for a rank that does
 * not exist. */
static hvd_status_t check_ranks(const struct hvd_mpi_options *options, struct hvd_err *err)
{
    const MPI_Comm given = options->comm ? *(const MPI_Comm *)options->comm : MPI_COMM_WORLD;
    int size = 0;

    if (options->n_ranks == 0 || given == MPI_COMM_NULL)
        return HVD_OK;
    MPI_Comm_size(given, &size);
    return hvd_rank_list_check(options->ranks, options->n_ranks, size, err);
}

/* Opens the watch on MPI_COMM_WORLD. Where MPI is ours, no other code has sent on it so far, so
 * ranks are named from the start. A process that is not in its list fails in make_communicators. */
static hvd_status_t open_on_world(const struct mpi_transport *m,
                                  const struct hvd_mpi_options *options, struct hvd_err *err)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    struct hvd_mpi_arrival_ranks ranks = {.comm = &world,
                                          .ranks = options->n_ranks > 0 ? options->ranks : NULL,
                                          .rank = -1,
                                          .can_attend = can_attend(m)};
    int self = 0;

    MPI_Comm_rank(world, &self);
    MPI_Comm_size(world, &ranks.size);
    if (ranks.ranks)
        ranks.size = options->n_ranks;
    else
        ranks.rank = self;
    for (int i = 0; ranks.ranks && i < ranks.size; i++)
        if (ranks.ranks[i] == self)
            ranks.rank = i;
    if (ranks.rank < 0)
        return HVD_OK;
    return hvd_mpi_arrival_open(options->arrival, &ranks, err);
}

/* Opens the watch later, on the job's own communicator. */
static hvd_status_t open_on_own(const struct mpi_transport *m, struct hvd_mpi_arrival *arrival,
                                struct hvd_err *err)
{
    const struct hvd_mpi_arrival_ranks ranks = {.comm = &m->control,
                                                .rank = m->base.topology.rank,
                                                .size = m->base.topology.size,
                                                .is_late = true,
                                                .can_attend = can_attend(m)};

    return hvd_mpi_arrival_open(arrival, &ranks, err);
}

/* Makes our communicators and learns the topology, together with the other ranks. */
static hvd_status_t meet(struct mpi_transport *m, const struct hvd_mpi_options *options,
                         struct hvd_err *err)
{
    struct hvd_mpi_arrival *arrival = options->arrival;
    hvd_status_t st = check_ranks(options, err);

    if (st != HVD_OK)
        return st;
    if (arrival && !can_attend(m))
        hvd_mpi_arrival_stay(arrival);
    if (arrival && m->owns_mpi && !options->comm)
        st = open_on_world(m, options, err);
    if (st == HVD_OK)
        st = attend(m, options, make_step, err);
    if (st == HVD_ERR_INVALID && arrival && hvd_mpi_arrival_is_open(arrival))
        hvd_mpi_lose(); /* other ranks never read their messages of this list */
    if (st == HVD_OK && arrival && !hvd_mpi_arrival_is_open(arrival))
        st = open_on_own(m, arrival, err);
    return st == HVD_OK ? attend(m, options, learn_step, err) : st;
}

hvd_status_t hvd_mpi_create(const struct hvd_mpi_options *options, struct hvd_transport **out,
                            struct hvd_err *err)
{
    struct mpi_transport *m = hvd_calloc(1, sizeof(*m));
    hvd_status_t st;

    if (!m)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the MPI transport");
    m->base.ops = &mpi_ops;
    m->incoming_request = MPI_REQUEST_NULL;
    m->mover.chunk_elements = options->chunk_elements > 0 ? options->chunk_elements : CHUNK_DEFAULT;
    m->mover.algorithm = options->algorithm;
    m->mover.table = options->table;
    m->mover.is_deterministic = options->is_deterministic;
    m->mover.step_bytes = options->step_bytes;
    st = enter_mpi(m, options->allow_single_thread, options->comm != NULL, err);
    if (st == HVD_OK)
        st = meet(m, options, err);
    if (st == HVD_OK)
        *out = &m->base;
    else if (st != HVD_ERR_GONE) /* else a call may still use it */
        free_transport(m);
    return st;
}
