/* Tracks which neighbours have arrived, finished or fallen silent: see arrival.h. */
#include "worker/core/arrival.h"

#include "base/mem.h"

#define BEATS 8         /* sent during the warning time */
#define BEATS_MISSING 4 /* missing beats that a rank with a long interval may have */

struct neighbour {
    int rank;
    bool is_parent;
    bool has_come;
    bool is_mute;
    bool is_over;     /* its final message has arrived: DONE, or GO from the parent */
    bool is_reported; /* this rank has sent it the final message */
    bool is_warned;
    bool is_lost;
    int64_t interval_ns; /* between its beats */
    int64_t received_ns; /* the last message from it; at first, when this rank arrived */
    int64_t sent_ns;     /* the last message to it; 0: none */
    bool must_send;      /* due actions */
    bool must_warn;
    bool must_lose;
    enum hvd_arrival_message message;
};

struct hvd_arrival {
    int64_t warning_ns;
    int64_t shutdown_ns;
    bool is_mute;
    bool is_finished; /* this rank has finished */
    int64_t ticked_ns;
    int n;
    struct neighbour neighbours[];
};

static int count_children(const struct hvd_arrival_options *o)
{
    const int64_t first = (int64_t)o->rank * HVD_ARRIVAL_FANOUT + 1;
    const int64_t left = o->size - first;

    if (left <= 0)
        return 0;
    return left < HVD_ARRIVAL_FANOUT ? (int)left : HVD_ARRIVAL_FANOUT;
}

hvd_status_t hvd_arrival_create(const struct hvd_arrival_options *options, int64_t now_ns,
                                struct hvd_arrival **out, struct hvd_err *err)
{
    const int n_children = count_children(options);
    const int n = n_children + (options->rank > 0);
    struct hvd_arrival *a = hvd_calloc(1, sizeof(*a) + (size_t)n * sizeof(struct neighbour));

    if (!a)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for who comes to the job");
    a->warning_ns = options->warning_ns;
    a->shutdown_ns = options->shutdown_ns;
    a->is_mute = options->is_mute;
    a->ticked_ns = now_ns;
    if (options->rank > 0)
        a->neighbours[a->n++] =
            (struct neighbour){.rank = (options->rank - 1) / HVD_ARRIVAL_FANOUT, .is_parent = true};
    for (int i = 0; i < n_children; i++)
        a->neighbours[a->n++].rank = options->rank * HVD_ARRIVAL_FANOUT + 1 + i;
    for (int i = 0; i < n; i++)
        a->neighbours[i].received_ns = now_ns;
    *out = a;
    return HVD_OK;
}

void hvd_arrival_destroy(struct hvd_arrival *a)
{
    hvd_free(a);
}

void hvd_arrival_set_times(struct hvd_arrival *a, int64_t warning_ns, int64_t shutdown_ns)
{
    a->warning_ns = warning_ns;
    a->shutdown_ns = shutdown_ns;
}

int hvd_arrival_neighbours(const struct hvd_arrival *a)
{
    return a->n;
}

int hvd_arrival_rank(const struct hvd_arrival *a, int i)
{
    return a->neighbours[i].rank;
}

void hvd_arrival_received(struct hvd_arrival *a, int i, enum hvd_arrival_message what,
                          int64_t interval_ns, int64_t now_ns)
{
    struct neighbour *n = &a->neighbours[i];

    n->has_come = true;
    n->is_warned = false;
    n->received_ns = now_ns;
    if (what == HVD_ARRIVAL_BEAT) {
        n->interval_ns = interval_ns;
        n->is_mute = interval_ns == 0;
    } else {
        n->is_over = true;
    }
}

void hvd_arrival_finish(struct hvd_arrival *a)
{
    a->is_finished = true;
}

/* Whether this rank and its whole subtree have finished; at the root, all ranks. */
static bool is_through(const struct hvd_arrival *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->neighbours[i].is_parent && !a->neighbours[i].is_over)
            return false;
    return a->is_finished;
}

/* Whether all ranks have finished: the parent has sent GO, or this is the root. */
static bool may_go(const struct hvd_arrival *a)
{
    return is_through(a) && (a->n == 0 || !a->neighbours[0].is_parent || a->neighbours[0].is_over);
}

/* Selects the next message for a neighbour; false when none is due. */
static bool choose_message(const struct hvd_arrival *a, const struct neighbour *n,
                           enum hvd_arrival_message *message)
{
    const int64_t interval_ns = hvd_arrival_interval(a);

    if (n->is_reported)
        return false;
    if (n->sent_ns == 0) {
        *message = HVD_ARRIVAL_BEAT;
        return true;
    }
    if (n->is_parent ? is_through(a) : may_go(a)) {
        *message = n->is_parent ? HVD_ARRIVAL_DONE : HVD_ARRIVAL_GO;
        return true;
    }
    *message = HVD_ARRIVAL_BEAT;
    return interval_ns > 0 && a->ticked_ns - n->sent_ns >= interval_ns;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void look_at(struct hvd_arrival *a, struct neighbour *n)
{
    const int64_t silent_ns = a->ticked_ns - n->received_ns;
    const int64_t rest_ns = BEATS_MISSING * n->interval_ns;

    n->must_warn = n->must_lose = false;
    n->must_send = choose_message(a, n, &n->message);
    if (a->warning_ns == 0 || n->is_mute || n->is_over || n->is_lost)
        return;
    n->must_warn = !n->is_warned && silent_ns >= at_least(a->warning_ns, rest_ns);
    n->must_lose = a->shutdown_ns > 0 && silent_ns >= at_least(a->shutdown_ns, rest_ns);
}

void hvd_arrival_tick(struct hvd_arrival *a, int64_t now_ns)
{
    const int64_t gap_ns = now_ns - a->ticked_ns;

    a->ticked_ns = now_ns;
    for (int i = 0; i < a->n; i++) {
        struct neighbour *n = &a->neighbours[i];
        if (gap_ns > a->warning_ns / 2) /* this rank did not run */
            n->received_ns = n->received_ns + gap_ns < now_ns ? n->received_ns + gap_ns : now_ns;
        look_at(a, n);
    }
}

static void send(struct hvd_arrival *a, struct neighbour *n, struct hvd_arrival_step *step)
{
    step->action = HVD_ARRIVAL_SEND;
    step->message = n->message;
    n->is_reported = n->message != HVD_ARRIVAL_BEAT;
    n->sent_ns = a->ticked_ns;
    n->must_send = choose_message(a, n, &n->message);
}

bool hvd_arrival_next(struct hvd_arrival *a, struct hvd_arrival_step *step)
{
    for (int i = 0; i < a->n; i++) {
        struct neighbour *n = &a->neighbours[i];
        if (!n->must_send && !n->must_warn && !n->must_lose)
            continue;
        *step = (struct hvd_arrival_step){
            .neighbour = i, .has_come = n->has_come, .silent_ns = a->ticked_ns - n->received_ns};
        if (n->must_send) {
            send(a, n, step);
        } else if (n->must_warn) {
            step->action = HVD_ARRIVAL_WARN;
            n->must_warn = false;
            n->is_warned = true;
        } else {
            step->action = HVD_ARRIVAL_LOSE;
            n->must_lose = false;
            n->is_lost = true;
        }
        return true;
    }
    return false;
}

int64_t hvd_arrival_interval(const struct hvd_arrival *a)
{
    return a->is_mute ? 0 : a->warning_ns / BEATS;
}

bool hvd_arrival_is_over(const struct hvd_arrival *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->neighbours[i].is_reported)
            return false;
    return may_go(a);
}
