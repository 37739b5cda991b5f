/*
 * See simulation.h. A heap of messages on their way is the clock: the one that arrives first is
 * handed to the rank it is for, which may send others. What a leaf asks for is written when it
 * arrives: all leaves send as many bytes, and 27,360 copies would not fit in memory.
 */
#include "tests/bench/simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/core/aggregator.h"
#include "worker/core/negotiator.h"

const struct hvd_network simulation_network = {
    .near = {.latency_ns = 200, .overhead_ns = 100, .gap_ns = 100, .byte_ns = 0.1},
    .far = {.latency_ns = 2600, .overhead_ns = 200, .gap_ns = 200, .byte_ns = 0.08},
};

/* Bytes that several ranks may be sent. */
struct message {
    int n_refs;
    size_t len;
    char data[];
};

/* On its way. */
struct event {
    int64_t at_ns;
    uint64_t number; /* of two at the same time, the one that was sent first comes first */
    int from;
    int to;
    struct message *message; /* NULL: what the leaf `from` asks for */
};

struct world {
    const struct simulation_options *options;
    struct hvd_clock *clock;
    struct hvd_tree tree;
    struct hvd_node *nodes;
    struct hvd_aggregator **aggregators; /* by position; NULL: a leaf, or the root */
    struct hvd_negotiator *root;
    int *ranks;
    int *n_up;
    int *n_down;
    struct event *heap;
    size_t n_heap;
    size_t heap_room;
    uint64_t n_events;
    struct hvd_buf asked; /* what every rank asks for, but for its position */
    size_t *ranges_at;    /* by tensor: where that is */
    bool is_cached;
    uint64_t epoch;
    struct simulation_step *step;
    char problem[HVD_ERR_MSG_MAX];
};

static char last_problem[HVD_ERR_MSG_MAX];

static void blame(struct world *w, const char *what, const struct hvd_err *err)
{
    if (!w->problem[0])
        snprintf(w->problem, sizeof(w->problem), "%s: %.900s", what, err ? err->msg : "");
}

/* The network knows ranks, the messages positions. */
static int rank_of(const struct world *w, int position)
{
    return w->tree.rank_at[position];
}

static int64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- The heap --------------------------------------------------------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static bool push(struct world *w, struct event event)
{
    if (w->n_heap == w->heap_room) {
        const size_t room = w->heap_room ? 2 * w->heap_room : 1024;
        struct event *heap = realloc(w->heap, room * sizeof(*heap));
        if (!heap) {
            blame(w, "out of memory for messages on their way", NULL);
            return false;
        }
        w->heap = heap;
        w->heap_room = room;
    }
    size_t i = w->n_heap++;
    event.number = w->n_events++;
    for (; i > 0 && is_before(&event, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = event;
    return true;
}

static struct event pop(struct world *w)
{
    const struct event first = w->heap[0];
    const struct event last = w->heap[--w->n_heap];
    size_t i = 0;

    for (size_t child = 1; child < w->n_heap; child = 2 * i + 1) {
        if (child + 1 < w->n_heap && is_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!is_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

/* --- Messages --------------------------------------------------------------------------------- */

static struct message *copy_message(struct world *w, const void *data, size_t len)
{
    struct message *m = malloc(sizeof(*m) + len);

    if (!m) {
        blame(w, "out of memory for a message", NULL);
        return NULL;
    }
    m->n_refs = 0;
    m->len = len;
    memcpy(m->data, data, len);
    return m;
}

static void release(struct message *m)
{
    if (m && --m->n_refs <= 0)
        free(m);
}

static void send(struct world *w, int from, int to, struct message *m, size_t len)
{
    const int64_t now_ns = hvd_loggp_time(w->clock, rank_of(w, from));
    const struct event event = {
        .at_ns = hvd_loggp_send(w->clock, rank_of(w, from), rank_of(w, to), len, now_ns),
        .from = from,
        .to = to,
        .message = m};

    if (m)
        m->n_refs++;
    w->step->messages++;
    w->step->bytes += len;
    if (from == 0)
        w->step->root_bytes_out += len;
    if (to == 0) {
        w->step->root_bytes_in += len;
        w->step->root_messages_in++;
    }
    if (to < from)
        w->n_up[from]++;
    if (!push(w, event))
        release(m);
}

static struct hvd_request request_for(int tensor, char name[96])
{
    struct hvd_request request = {.op = HVD_ALLREDUCE,
                                  .dtype = HVD_FLOAT32,
                                  .reduce = HVD_AVERAGE,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .ndim = 2,
                                  .shape = {1024, tensor + 1}};

    snprintf(name, 96, "DistributedOptimizer_Allreduce/cond_%d/HorovodAllreduce_grads_%d_0", tensor,
             tensor);
    request.name = hvd_strview_of(name);
    return request;
}

/* What rank 0 asks for; where in the requests it says that it is position 0, into w->ranges_at. */
static void write_asked(struct world *w)
{
    const struct hvd_pos_range self = {.first = 0, .n = 1};
    const struct hvd_by by = {.ranges = &self, .n_ranges = 1};
    const uint32_t n_words = (uint32_t)(w->options->n_tensors + 63) / 64;
    struct hvd_buf *buf = &w->asked;
    hvd_status_t st;
    char name[96];

    hvd_buf_reset(buf);

    if (w->is_cached) {
        st = hvd_message_bits(buf, 0, w->epoch, NULL, n_words);
        for (int left = w->options->n_tensors; left > 0 && st == HVD_OK; left -= 64)
            st = hvd_message_add_word(buf, left >= 64 ? UINT64_MAX : ((uint64_t)1 << left) - 1);
    } else {
        st = hvd_message_begin(buf, HVD_MESSAGE_REQUESTS, 0);
        for (int i = 0; i < w->options->n_tensors && st == HVD_OK; i++) {
            const struct hvd_request request = request_for(i, name);
            st = hvd_message_add_request(buf, &request, &by);
            w->ranges_at[i] = buf->len - sizeof(uint64_t); /* the last that stands in one */
        }
    }
    if (st != HVD_OK)
        blame(w, "what a rank asks for", NULL);
}

/* The same for another rank. Borrowed until the next call. */
static const struct hvd_buf *asked_by(struct world *w, int position)
{
    for (int i = 0; i < w->options->n_tensors && !w->is_cached && w->asked.len > 0; i++)
        for (int byte = 0; byte < 4; byte++)
            w->asked.data[w->ranges_at[i] + (size_t)byte] = (char)(position >> (8 * byte));
    return &w->asked;
}

/* --- What ranks do ---------------------------------------------------------------------------- */

/* Takes in what a branch says, itself included. */
static void hear(struct world *w, int position, int branch, const char *data, size_t len)
{
    struct hvd_aggregator *aggregator = w->aggregators[position];
    struct hvd_reader reader;
    struct hvd_err err = {0};
    struct hvd_merged_request ask;
    int64_t work_ns = 0;
    hvd_status_t st = hvd_message_open(&reader, data, len, &err);

    if (st == HVD_OK && reader.type == HVD_MESSAGE_BITS) {
        work_ns += reader.n_words * w->options->word_ns;
        st = aggregator ? hvd_aggregator_bits(aggregator, branch, &reader, 0, &err)
                        : hvd_negotiator_bits(w->root, branch, &reader, 0, &err);
    }
    while (st == HVD_OK && reader.left > 0) {
        st = hvd_message_read_request(&reader, &ask, &err);
        if (st != HVD_OK)
            break;
        work_ns += w->options->item_ns;
        w->step->root_items += !aggregator;
        st = aggregator ? hvd_aggregator_request(aggregator, &ask, 0, &err)
                        : hvd_negotiator_request(w->root, &ask, 0, &err);
    }
    if (st != HVD_OK)
        blame(w, "a message that goes up", &err);
    hvd_loggp_work(w->clock, rank_of(w, position), 0, work_ns);
}

static void send_down(struct world *w, int position, struct message *plan)
{
    const struct hvd_node *node = &w->nodes[position];

    for (int i = 0; i < node->n_children; i++) {
        send(w, position, node->children[i].first, plan, plan->len);
    }
}

/* A rank has the plan, and does what it says. */
static void follow(struct world *w, int position, const char *data, size_t len)
{
    struct hvd_reader reader;
    struct hvd_err err = {0};
    hvd_status_t st = hvd_message_open(&reader, data, len, &err);
    const int64_t n_steps = st == HVD_OK ? reader.left : 0;

    if (st == HVD_OK && (int)n_steps != (w->is_cached ? 0 : w->options->n_tensors))
        blame(w, "a plan does not have all tensors", NULL);
    if (st == HVD_OK && w->aggregators[position])
        st = hvd_aggregator_plan(w->aggregators[position], reader, &err);
    if (st != HVD_OK)
        blame(w, "a plan", &err);
    const int64_t done_ns =
        hvd_loggp_work(w->clock, rank_of(w, position), 0,
                       n_steps * w->options->item_ns + reader.n_words * w->options->word_ns);
    if (done_ns > w->step->ns)
        w->step->ns = done_ns;
    w->n_down[position]++;
    w->epoch = reader.epoch;
}

/* What a rank has to say after it has heard something. */
static void speak(struct world *w, int position)
{
    const struct hvd_buf *buf = NULL;
    struct hvd_err err = {0};

    while (w->aggregators[position] &&
           hvd_aggregator_next(w->aggregators[position], &buf, &err) == HVD_OK && buf) {
        struct message *m = copy_message(w, buf->data, buf->len);
        if (m)
            send(w, position, w->nodes[position].parent, m, m->len);
    }
    if (position > 0)
        return;
    if (hvd_negotiator_plan(w->root, &buf, &err) != HVD_OK)
        blame(w, "the plan", &err);
    if (!buf)
        return;
    struct message *plan = copy_message(w, buf->data, buf->len);
    hvd_negotiator_plan_sent(w->root);
    if (!plan)
        return;
    plan->n_refs++;
    hvd_loggp_work(w->clock, 0, 0, w->options->n_tensors * w->options->item_ns * !w->is_cached);
    send_down(w, 0, plan);
    follow(w, 0, plan->data, plan->len);
    release(plan);
}

static void deliver(struct world *w, struct event *event)
{
    const int to = event->to;
    const struct hvd_buf *asked = asked_by(w, event->from);

    hvd_loggp_receive(w->clock, rank_of(w, event->from), rank_of(w, to), event->at_ns);
    const char *data = event->message ? event->message->data : asked->data;
    const size_t len = event->message ? event->message->len : asked->len;
    const int64_t began_ns = to == 0 ? real_ns() : 0;
    if (event->from < to && event->message) {
        send_down(w, to, event->message);
        follow(w, to, data, len);
    } else {
        hear(w, to, hvd_tree_node_branch(&w->nodes[to], event->from), data, len);
        speak(w, to);
    }
    if (to == 0)
        w->step->root_real_ns += real_ns() - began_ns;
    release(event->message);
}

/* All ranks ask at time 0, and the plan goes to all. */
static void negotiate(struct world *w, struct simulation_step *step)
{
    *step = (struct simulation_step){0};
    w->step = step;
    memset(w->n_up, 0, (size_t)w->options->n_ranks * sizeof(int));
    memset(w->n_down, 0, (size_t)w->options->n_ranks * sizeof(int));
    write_asked(w);
    for (int i = 0; i < w->options->n_ranks && !w->problem[0]; i++) {
        if (w->nodes[i].n_children == 0 && i > 0) { /* as long as what any other asks */
            send(w, i, w->nodes[i].parent, NULL, w->asked.len);
            continue;
        }
        hear(w, i, 0, asked_by(w, i)->data, w->asked.len);
        speak(w, i);
    }
    while (w->n_heap > 0) {
        struct event event = pop(w);
        if (w->problem[0])
            release(event.message);
        else
            deliver(w, &event);
    }
    for (int i = 0; i < w->options->n_ranks; i++) {
        if (w->n_down[i] == 0)
            blame(w, "a rank got no plan", NULL);
        step->up_max = w->n_up[i] > step->up_max ? w->n_up[i] : step->up_max;
        step->down_max = w->n_down[i] > step->down_max ? w->n_down[i] : step->down_max;
    }
}

/* --- The world -------------------------------------------------------------------------------- */

static bool open_clock(struct world *w)
{
    const struct hvd_clock_options options = {.network = w->options->network,
                                              .size = w->options->n_ranks,
                                              .ranks_per_host = w->options->ranks_per_host,
                                              .seed = w->options->seed};

    hvd_loggp_destroy(w->clock);
    w->clock = NULL;
    return hvd_loggp_create(&options, &w->clock, NULL) == HVD_OK;
}

static hvd_status_t open_tree(struct world *w)
{
    const int n = w->options->n_ranks;
    int *hosts = calloc((size_t)n, sizeof(int));
    const struct hvd_tree_options shape = {.size = n,
                                           .hosts = w->options->is_star ? NULL : hosts,
                                           .fanout = w->options->is_star ? n : w->options->fanout};
    hvd_status_t st = hosts ? HVD_OK : HVD_ERR_NOMEM;

    for (int i = 0; i < n && st == HVD_OK; i++)
        hosts[i] = i / w->options->ranks_per_host;
    if (st == HVD_OK)
        st = hvd_tree_init(&w->tree, &shape, NULL);
    for (int i = 0; i < n && st == HVD_OK; i++)
        st = hvd_tree_node_init(&w->nodes[i], &w->tree, i, NULL);
    free(hosts);
    return st;
}

static hvd_status_t open_ranks(struct world *w)
{
    const struct hvd_negotiator_options root = {.tree = &w->tree,
                                                .node = &w->nodes[0],
                                                .ranks = w->ranks,
                                                .world_size = w->options->n_ranks,
                                                .cache_capacity = 1 << 20};
    hvd_status_t st = hvd_negotiator_create(&root, &w->root, NULL);

    for (int i = 1; i < w->options->n_ranks && st == HVD_OK; i++) {
        const struct hvd_aggregator_options aggregator = {.node = &w->nodes[i],
                                                          .world_size = w->options->n_ranks};
        w->ranks[i] = i;
        if (w->nodes[i].n_children > 0)
            st = hvd_aggregator_create(&aggregator, &w->aggregators[i], NULL);
    }
    return st;
}

static bool open_world(struct world *w, const struct simulation_options *options)
{
    const size_t n = (size_t)options->n_ranks;

    *w = (struct world){.options = options};
    w->nodes = calloc(n, sizeof(*w->nodes));
    w->aggregators = calloc(n, sizeof(struct hvd_aggregator *));
    w->ranks = calloc(n, sizeof(int));
    w->n_up = calloc(n, sizeof(int));
    w->n_down = calloc(n, sizeof(int));
    w->ranges_at = calloc((size_t)options->n_tensors, sizeof(size_t));
    hvd_buf_init(&w->asked, HVD_MESSAGE_MAX);
    return w->nodes && w->aggregators && w->ranks && w->n_up && w->n_down && w->ranges_at &&
           open_clock(w) && open_tree(w) == HVD_OK && open_ranks(w) == HVD_OK;
}

static void close_world(struct world *w)
{
    for (int i = 0; i < w->options->n_ranks && w->nodes && w->aggregators; i++) {
        hvd_aggregator_destroy(w->aggregators[i]);
        hvd_tree_node_fini(&w->nodes[i]);
    }
    hvd_negotiator_destroy(w->root);
    hvd_tree_fini(&w->tree);
    hvd_loggp_destroy(w->clock);
    free(w->heap);
    free(w->nodes);
    free(w->aggregators);
    free(w->ranks);
    free(w->n_up);
    free(w->n_down);
    free(w->ranges_at);
    hvd_buf_fini(&w->asked);
}

/* Modelled: one hop between two ranks. */
static int64_t hop_ns(const struct world *w, int a, int b)
{
    const int per_host = w->options->ranks_per_host;
    const struct hvd_loggp *way = rank_of(w, a) / per_host == rank_of(w, b) / per_host
                                      ? &w->options->network->near
                                      : &w->options->network->far;

    return way->latency_ns + 2 * way->overhead_ns;
}

static void measure_tree(const struct world *w, struct simulation *out)
{
    for (int i = 0; i < w->options->n_ranks; i++) {
        int64_t ns = 0;
        int depth = 0;
        for (int at = i; at > 0; at = w->nodes[at].parent) {
            ns += 2 * hop_ns(w, at, w->nodes[at].parent);
            depth++;
        }
        out->depth = depth > out->depth ? depth : out->depth;
        out->floor_ns = ns > out->floor_ns ? ns : out->floor_ns;
        if (w->nodes[i].n_children > out->children_max)
            out->children_max = w->nodes[i].n_children;
    }
}

const char *simulation_run(const struct simulation_options *options, struct simulation *out)
{
    struct world w;

    *out = (struct simulation){0};
    if (!open_world(&w, options))
        blame(&w, "out of memory", NULL);
    if (!w.problem[0]) {
        measure_tree(&w, out);
        negotiate(&w, &out->first);
    }
    w.is_cached = true;
    if (!w.problem[0] && !open_clock(&w))
        blame(&w, "out of memory", NULL);
    if (!w.problem[0])
        negotiate(&w, &out->cached);
    close_world(&w);
    memcpy(last_problem, w.problem, sizeof(last_problem));
    return last_problem[0] ? last_problem : NULL;
}

/* --- Rounds ----------------------------------------------------------------------------------- */

/* Rounds under way. */
struct rounds {
    const struct simulation_options *options;
    struct hvd_clock *clock;
    int64_t *came_ns; /* by host and partner; owned */
    int n_hosts;
    int radix;
    size_t len; /* of a message */
    struct simulation_rounds *out;
};

static int first_rank(const struct rounds *r, int host)
{
    return host * r->options->ranks_per_host;
}

static int64_t *came_at(const struct rounds *r, int host, int partner)
{
    return &r->came_ns[(size_t)host * (size_t)r->radix + (size_t)partner];
}

/* Each host's first rank sends to radix - 1 others so many hosts apart, and hears from as many. */
static void run_round(struct rounds *r, int64_t stride)
{
    const int n = r->n_hosts;

    for (int k = 1; k < r->radix && k * stride < n; k++)
        for (int host = 0; host < n; host++) {
            const int from = first_rank(r, host);
            const int other = (int)((host + k * stride) % n);
            *came_at(r, other, k) = hvd_loggp_send(r->clock, from, first_rank(r, other), r->len,
                                                   hvd_loggp_time(r->clock, from));
            r->out->messages++;
        }
    for (int host = 0; host < n; host++)
        for (int k = 1; k < r->radix && k * stride < n; k++) {
            const int from = (int)((host - k * stride + n) % n);
            hvd_loggp_receive(r->clock, first_rank(r, from), first_rank(r, host),
                              *came_at(r, host, k));
            hvd_loggp_work(r->clock, first_rank(r, host), 0,
                           (r->options->n_tensors + 63) / 64 * r->options->word_ns);
        }
}

/* Between the first rank of each host and the others of it: up, or down. */
static void run_within(struct rounds *r, bool is_up)
{
    for (int rank = 0; rank < r->options->n_ranks; rank++) {
        const int first = rank - rank % r->options->ranks_per_host;
        const int from = is_up ? rank : first;
        const int to = is_up ? first : rank;
        if (rank == first)
            continue;
        const int64_t came =
            hvd_loggp_send(r->clock, from, to, r->len, hvd_loggp_time(r->clock, from));
        hvd_loggp_receive(r->clock, from, to, came);
        r->out->messages++;
    }
}

const char *simulation_rounds(const struct simulation_options *options, int radix,
                              struct simulation_rounds *out)
{
    struct world w = {.options = options};
    struct rounds r = {.options = options, .radix = radix, .out = out};

    *out = (struct simulation_rounds){0};
    r.len = 20 + (size_t)(options->n_tensors + 63) / 64 * 8; /* of a BITS message */
    r.n_hosts = (options->n_ranks + options->ranks_per_host - 1) / options->ranks_per_host;
    r.came_ns = calloc((size_t)r.n_hosts * (size_t)radix, sizeof(*r.came_ns));
    if (!r.came_ns || !open_clock(&w)) {
        free(r.came_ns);
        return "out of memory";
    }
    r.clock = w.clock;
    run_within(&r, true);
    for (int64_t stride = 1; stride < r.n_hosts; stride *= radix) {
        run_round(&r, stride);
        out->n_rounds++;
    }
    out->sent_max =
        (int)((out->messages - (uint64_t)(options->n_ranks - r.n_hosts)) / (uint64_t)r.n_hosts) +
        options->ranks_per_host - 1;
    run_within(&r, false);
    for (int rank = 0; rank < options->n_ranks; rank++)
        if (hvd_loggp_time(w.clock, rank) > out->ns)
            out->ns = hvd_loggp_time(w.clock, rank);
    hvd_loggp_destroy(w.clock);
    free(r.came_ns);
    return NULL;
}
