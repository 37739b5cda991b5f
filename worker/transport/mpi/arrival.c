/*
 * Sends the messages of core/arrival.h over MPI, and acts on them. The communicator may be the
 * program's MPI_COMM_WORLD. No other code has sent on it so far: messages come from neighbours
 * alone, with a tag of their own, and a rank receives all of them before it leaves. When the job
 * does not begin, a rank sends a fourth message with the reason to all neighbours but the one that
 * sent it. Where the program lists the ranks, each BEAT has the list. A rank that receives a list
 * other than its own ends the job for all ranks of its list.
 */
#include "worker/transport/mpi/arrival.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rank_state.h"
#include "worker/core/arrival.h"
#include "worker/core/rank_list.h"
#include "worker/core/types.h"
#include "worker/transport/mpi/mpi.h"

#define TAG 20011 /* of our messages; MPI allows up to 32767 anywhere */
#define END 4     /* after those of core/arrival.h */
#define HOST_LEN 64
#define LOOK_MIN_NS 1000000
#define LOOK_MAX_NS 100000000
#define YIELDS 2000 /* looks of the last wait before it sleeps between them */
#define NAP_NS 100000
#define OTHERS_AT_ONCE 32

/* A message. */
struct word {
    int32_t what; /* enum hvd_arrival_message, or END */
    int32_t text_len;
    int64_t interval_ns;
    uint64_t list; /* of a BEAT: the digest of the sender's list of ranks */
    char host[HOST_LEN];
    char text[HVD_TEXT_MAX + 1]; /* of END, or the list; not sent beyond its end */
};

/* A message being sent. */
struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    struct word word;
};

struct hvd_mpi_arrival {
    int64_t warning_ns;
    int64_t shutdown_ns;
    int64_t begun_ns;
    const struct hvd_log *log;
    bool is_warned;            /* about ranks that cannot be named */
    struct hvd_arrival *ranks; /* NULL: not open */
    MPI_Comm comm;
    const int *ranks_there;
    struct hvd_rank_list list; /* of ranks_there */
    int size;
    int next_member; /* where the next look for messages begins */
    bool is_late;
    bool can_attend;
    char (*hosts)[HOST_LEN]; /* by neighbour; "" where unknown */
    struct outgoing *outgoing;
};

hvd_status_t hvd_mpi_arrival_create(int64_t warning_ns, int64_t shutdown_ns,
                                    const struct hvd_log *log, struct hvd_mpi_arrival **out,
                                    struct hvd_err *err)
{
    struct hvd_mpi_arrival *a = hvd_calloc(1, sizeof(*a));

    if (!a)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for who comes to the job");
    a->warning_ns = warning_ns;
    a->shutdown_ns = shutdown_ns;
    a->begun_ns = hvd_clock_now_ns();
    a->log = log;
    a->can_attend = true;
    *out = a;
    return HVD_OK;
}

/* Frees the messages that MPI has sent. */
static void reap(struct hvd_mpi_arrival *a)
{
    for (struct outgoing **at = &a->outgoing; *at;) {
        struct outgoing *o = *at;
        int done = 0;
        if (MPI_Test(&o->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        hvd_free(o);
    }
}

void hvd_mpi_arrival_destroy(struct hvd_mpi_arrival *a)
{
    if (!a)
        return;
    if (a->outgoing)
        reap(a);
    hvd_arrival_destroy(a->ranks);
    hvd_free(a->hosts);
    hvd_free(a);
}

void hvd_mpi_arrival_set_times(struct hvd_mpi_arrival *a, int64_t warning_ns, int64_t shutdown_ns)
{
    a->warning_ns = warning_ns;
    a->shutdown_ns = shutdown_ns;
    if (a->ranks)
        hvd_arrival_set_times(a->ranks, warning_ns, shutdown_ns);
}

void hvd_mpi_arrival_stay(struct hvd_mpi_arrival *a)
{
    a->can_attend = false;
}

bool hvd_mpi_arrival_is_open(const struct hvd_mpi_arrival *a)
{
    return a->ranks != NULL;
}

/* --- Messages --------------------------------------------------------------------------------- */

/* The number in the communicator of a rank of the job. */
static int rank_there(const struct hvd_mpi_arrival *a, int rank)
{
    return a->ranks_there ? a->ranks_there[rank] : rank;
}

static int neighbour_there(const struct hvd_mpi_arrival *a, int neighbour)
{
    return rank_there(a, hvd_arrival_rank(a->ranks, neighbour));
}

static hvd_status_t fail(struct hvd_err *err, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    MPI_Error_string(rc, text, &len);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "%s: %.*s", what, len, text);
}

static hvd_status_t send(struct hvd_mpi_arrival *a, int there, int what, const char *text,
                         struct hvd_err *err)
{
    struct outgoing *o = hvd_calloc(1, sizeof(*o));

    if (!o)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message");
    o->word.what = what;
    o->word.interval_ns = hvd_arrival_interval(a->ranks);
    o->word.list = a->list.digest;
    gethostname(o->word.host, HOST_LEN - 1);
    o->word.text_len = snprintf(o->word.text, sizeof(o->word.text), "%s", text);
    const size_t len = offsetof(struct word, text) + strlen(o->word.text) + 1;
    const int rc = MPI_Isend(&o->word, (int)len, MPI_BYTE, there, TAG, a->comm, &o->request);
    if (rc != MPI_SUCCESS) {
        hvd_free(o);
        return fail(err, rc, "MPI_Isend");
    }
    o->next = a->outgoing;
    a->outgoing = o;
    return HVD_OK;
}

/* Sends to all neighbours but one that the job does not begin. */
static void spread(struct hvd_mpi_arrival *a, int except, const char *text)
{
    for (int i = 0; i < hvd_arrival_neighbours(a->ranks); i++)
        if (i != except && send(a, neighbour_there(a, i), END, text, NULL) != HVD_OK)
            break; /* the others notice that this rank is gone */
    reap(a);
}

static hvd_status_t end(struct hvd_mpi_arrival *a, int from, const char *text, struct hvd_err *err)
{
    spread(a, from, text);
    return HVD_FAIL(err, HVD_ERR_GONE, 0, "%.900s", text);
}

/* Ends the job for all ranks of the list, neighbours or not: none of them can get past the wait. */
static hvd_status_t differ(struct hvd_mpi_arrival *a, int there, const struct word *word,
                           struct hvd_err *err)
{
    char host[HOST_LEN] = "";
    char text[HVD_TEXT_MAX];
    int self = 0;

    MPI_Comm_rank(a->comm, &self);
    gethostname(host, sizeof(host) - 1);
    hvd_rank_list_explain(
        &(struct hvd_rank_list_of){.rank = self, .host = host, .list = a->list.text},
        &(struct hvd_rank_list_of){.rank = there, .host = word->host, .list = word->text}, text,
        sizeof(text));
    for (int i = 0; i < a->size; i++)
        if (rank_there(a, i) != self && send(a, rank_there(a, i), END, text, NULL) != HVD_OK)
            break;
    reap(a);
    return HVD_FAIL(err, HVD_ERR_GONE, 0, "%.900s", text);
}

/* Handles a message; neighbour is -1 where it comes from another rank of the list. */
static hvd_status_t take(struct hvd_mpi_arrival *a, int neighbour, int there, struct word *word,
                         struct hvd_err *err)
{
    word->host[HOST_LEN - 1] = '\0';
    word->text[HVD_TEXT_MAX] = '\0';
    if (neighbour >= 0)
        memcpy(a->hosts[neighbour], word->host, HOST_LEN);
    if (word->what == END)
        return end(a, neighbour, word->text, err);
    if (word->what == HVD_ARRIVAL_BEAT && word->list != a->list.digest)
        return differ(a, there, word, err);
    if (neighbour < 0)
        return HVD_OK;
    hvd_arrival_received(a->ranks, neighbour, (enum hvd_arrival_message)word->what,
                         word->interval_ns, hvd_clock_now_ns());
    return HVD_OK;
}

/* Receives all messages of a rank; neighbour: its index, or -1. */
static hvd_status_t receive(struct hvd_mpi_arrival *a, int neighbour, int there,
                            struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    struct word word;

    while (st == HVD_OK) {
        MPI_Message message;
        int found = 0;
        int rc = MPI_Improbe(there, TAG, a->comm, &found, &message, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !found)
            return HVD_OK;
        memset(&word, 0, sizeof(word));
        if (rc == MPI_SUCCESS)
            rc = MPI_Mrecv(&word, (int)sizeof(word), MPI_BYTE, &message, MPI_STATUS_IGNORE);
        st = rc == MPI_SUCCESS ? take(a, neighbour, there, &word, err) : fail(err, rc, "MPI_Mrecv");
    }
    return st;
}

static bool is_neighbour(const struct hvd_mpi_arrival *a, int rank)
{
    for (int i = 0; i < hvd_arrival_neighbours(a->ranks); i++)
        if (hvd_arrival_rank(a->ranks, i) == rank)
            return true;
    return false;
}

/*
 * A rank of the list that is no neighbour sends here only if its own list differs. Each call looks
 * at a few of them. Ranks outside the list may be early for another job, so their messages stay
 * unread.
 */
static hvd_status_t receive_from_others(struct hvd_mpi_arrival *a, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    int self = 0;

    MPI_Comm_rank(a->comm, &self);
    for (int i = 0; st == HVD_OK && i < a->size && i < OTHERS_AT_ONCE; i++) {
        const int rank = a->next_member;
        a->next_member = (rank + 1) % a->size;
        if (rank_there(a, rank) != self && !is_neighbour(a, rank))
            st = receive(a, -1, rank_there(a, rank), err);
    }
    return st;
}

/* --- Warnings and losses ---------------------------------------------------------------------- */

static double seconds(int64_t ns)
{
    const int64_t tenths = ns / 100000000; /* truncates: never more than has passed */

    return (double)tenths / 10;
}

/* "Rank 1 on host a" */
static void name_rank(const struct hvd_mpi_arrival *a, int neighbour, char *text, size_t size)
{
    const char *host = a->hosts[neighbour];

    snprintf(text, size, "Rank %d%s%s", hvd_arrival_rank(a->ranks, neighbour),
             host[0] ? " on host " : "", host);
}

/* Describes a silent rank: "has not answered for 60 seconds while ..." */
static void describe(const struct hvd_mpi_arrival *a, const struct hvd_arrival_step *step,
                     char *text, size_t size)
{
    if (step->has_come)
        snprintf(text, size,
                 "has not answered for %.3g seconds while horovod_init waits for all "
                 "ranks",
                 seconds(step->silent_ns));
    else
        snprintf(text, size, "has not come to horovod_init for %.3g seconds%s",
                 seconds(step->silent_ns),
                 a->is_late ? ", or waits there for a rank that has not" : "");
}

static void warn(struct hvd_mpi_arrival *a, const struct hvd_arrival_step *step)
{
    char who[HOST_LEN + 32];
    char what[200];

    name_rank(a, step->neighbour, who, sizeof(who));
    describe(a, step, what, sizeof(what));
    hvd_log(a->log, HVD_LOG_WARN, "api", "%s %s: it may be stopped, or cut off.", who, what);
}

static hvd_status_t lose(struct hvd_mpi_arrival *a, const struct hvd_arrival_step *step,
                         struct hvd_err *err)
{
    char who[HOST_LEN + 32];
    char what[200];
    char text[HVD_TEXT_MAX];

    name_rank(a, step->neighbour, who, sizeof(who));
    describe(a, step, what, sizeof(what));
    snprintf(text, sizeof(text),
             "%s is lost: it %s, for longer than %.3g seconds "
             "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)",
             who, what, (double)a->shutdown_ns / 1e9);
    hvd_log(a->log, HVD_LOG_ERROR, "api", "%s", text);
    return end(a, step->neighbour, text, err);
}

/* Reports how long the wait takes, while ranks cannot be named. */
static hvd_status_t look_unnamed(struct hvd_mpi_arrival *a, struct hvd_err *err)
{
    const int64_t waited_ns = hvd_clock_now_ns() - a->begun_ns;
    static const char why[] = "horovod_init has waited for %.3g seconds for ranks that have not "
                              "called it, or stand still there: the program has initialised MPI, "
                              "and MPI does not report which%s";

    if (a->warning_ns > 0 && !a->is_warned && waited_ns >= a->warning_ns) {
        a->is_warned = true;
        hvd_log(a->log, HVD_LOG_WARN, "api", why, seconds(waited_ns), "");
    }
    if (a->shutdown_ns == 0 || waited_ns < a->shutdown_ns)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_GONE, 0, why, seconds(waited_ns),
                    " (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)");
}

static hvd_status_t look(struct hvd_mpi_arrival *a, struct hvd_err *err)
{
    struct hvd_arrival_step step;
    hvd_status_t st = HVD_OK;

    if (!a->ranks)
        return look_unnamed(a, err);
    for (int i = 0; i < hvd_arrival_neighbours(a->ranks) && st == HVD_OK; i++)
        st = receive(a, i, neighbour_there(a, i), err);
    hvd_arrival_tick(a->ranks, hvd_clock_now_ns());
    while (st == HVD_OK && hvd_arrival_next(a->ranks, &step)) {
        if (step.action == HVD_ARRIVAL_SEND)
            st = send(a, neighbour_there(a, step.neighbour), (int)step.message, a->list.text, err);
        else if (step.action == HVD_ARRIVAL_WARN)
            warn(a, &step);
        else
            st = lose(a, &step, err);
    }
    if (a->outgoing)
        reap(a);
    return st;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

hvd_status_t hvd_mpi_arrival_open(struct hvd_mpi_arrival *a,
                                  const struct hvd_mpi_arrival_ranks *ranks, struct hvd_err *err)
{
    const struct hvd_arrival_options options = {.rank = ranks->rank,
                                                .size = ranks->size,
                                                .warning_ns = a->warning_ns,
                                                .shutdown_ns = a->shutdown_ns,
                                                .is_mute = !ranks->can_attend};
    struct hvd_arrival *made = NULL;
    hvd_status_t st = hvd_arrival_create(&options, hvd_clock_now_ns(), &made, err);

    if (st != HVD_OK)
        return st;
    a->hosts = hvd_calloc((size_t)hvd_arrival_neighbours(made) + 1, HOST_LEN);
    if (!a->hosts) {
        hvd_arrival_destroy(made);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the names of hosts");
    }
    a->ranks = made;
    a->comm = *(const MPI_Comm *)ranks->comm;
    a->ranks_there = ranks->ranks;
    a->size = ranks->size;
    hvd_rank_list_init(&a->list, ranks->ranks, ranks->ranks ? ranks->size : 0);
    a->is_late = ranks->is_late;
    a->can_attend = ranks->can_attend;
    if (a->can_attend)
        hvd_rank_state_set(HVD_RANK_MEETING);
    return look(a, err);
}

/* Looks at the messages while this rank waits for all. */
static hvd_status_t look_around(struct hvd_mpi_arrival *a, struct hvd_err *err)
{
    const hvd_status_t st = look(a, err);

    return st == HVD_OK && a->ranks ? receive_from_others(a, err) : st;
}

static int64_t look_ns(const struct hvd_mpi_arrival *a)
{
    const int64_t ns = a->warning_ns / 16;

    if (ns < LOOK_MIN_NS)
        return LOOK_MIN_NS;
    return ns < LOOK_MAX_NS ? ns : LOOK_MAX_NS;
}

hvd_status_t hvd_mpi_arrival_attend(struct hvd_mpi_arrival *a, hvd_aside_fn fn, void *ctx,
                                    struct hvd_err *err)
{
    struct hvd_aside *aside = NULL;
    hvd_status_t st = HVD_OK;
    hvd_status_t returned = HVD_OK;

    if (!a->can_attend || hvd_aside_start("horovod-init", fn, ctx, &aside) != HVD_OK)
        return fn(ctx, err);
    while (st == HVD_OK && !hvd_aside_wait(aside, look_ns(a)))
        st = look_around(a, err);
    const bool is_left = !hvd_aside_end(aside, &returned, st == HVD_OK ? err : NULL);
    if (st == HVD_OK)
        return returned;
    if (!is_left)
        hvd_free(ctx);
    hvd_mpi_lose();
    if (err)
        err->status = HVD_ERR_GONE; /* replaces any other status */
    return HVD_ERR_GONE;
}

/* Pauses before the next look of the last wait, which is short as a rule. */
static void rest(unsigned n_looks)
{
    if (n_looks < YIELDS)
        sched_yield();
    else
        nanosleep(&(const struct timespec){.tv_nsec = NAP_NS}, NULL);
}

hvd_status_t hvd_mpi_arrival_finish(struct hvd_mpi_arrival *a, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (!a->ranks)
        return HVD_OK;
    hvd_arrival_finish(a->ranks);
    for (unsigned n = 0; st == HVD_OK; n += n < YIELDS) {
        st = look(a, err);
        if (hvd_arrival_is_over(a->ranks) && !a->outgoing)
            break;
        rest(n);
    }
    if (st != HVD_OK)
        hvd_mpi_lose();
    return st;
}
