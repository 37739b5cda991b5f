/*
 * Builds the model from the records of a timeline. Each lane (a tensor) is a stack of open records,
 *
 *     NEGOTIATE_x, closed before   x [ QUEUE | MEMCPY_... | MPI_x ... ]
 *
 * from which it takes the times of each collective and the edges of the classes.
 */
#include "worker/timeline_report/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

#define OPEN_MAX 8 /* open records of a lane that are read; deeper ones are part of the last */
#define NEVER INT64_MIN
#define BACK_NS INT64_C(200000000) /* a larger step back means that the clock jumped */
#define NO_CLASS HVD_TL_ALL

enum level { LEVEL_NONE, LEVEL_NEGOTIATION, LEVEL_OPERATION, LEVEL_ACTIVITY, LEVEL_MARK };

/* A process of the trace during reading. */
struct lane {
    int64_t pid;
    uint32_t tensor; /* number + 1; 0: it has no name */
    uint32_t n_times;
    struct hvd_tl_op op;
    bool has_op;
    size_t n_open; /* also those beyond OPEN_MAX, so that each end closes its own record */
    uint8_t level[OPEN_MAX];
    uint8_t class_[OPEN_MAX];
};

/* The state of reading one timeline. */
struct reading {
    struct hvd_tl_model *model;
    struct hvd_tl_rank *rank;
    int32_t index;
    struct lane *lanes; /* by pid, open addressing; pid -1: free */
    size_t n_lanes;
    size_t size;
    int64_t at_ns;     /* of the record before */
    bool is_described; /* a record describes the trace */
    bool has_rank;     /* and names its rank: only this library does, and it ends its files */
};

/* Grows an array for one more than n items. NULL when out of memory. */
static void *grow(void *items, size_t n, size_t *capacity, size_t size)
{
    void *more;

    if (n < *capacity)
        return items;
    more = hvd_realloc(items, *capacity ? 2 * *capacity : 64, size);
    if (more)
        *capacity = *capacity ? 2 * *capacity : 64;
    return more;
}

hvd_status_t hvd_tl_model_add_edge(struct hvd_tl_rank *rank, struct hvd_tl_edge edge)
{
    struct hvd_tl_edge *edges =
        grow(rank->edges, rank->n_edges, &rank->_edges_capacity, sizeof(*edges));

    if (!edges)
        return HVD_ERR_NOMEM;
    rank->edges = edges;
    edges[rank->n_edges++] = edge;
    return HVD_OK;
}

/* --- Tensors by name -------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

static hvd_status_t rehash(struct hvd_tl_model *m)
{
    const size_t size = m->_index_size ? 2 * m->_index_size : 256;
    uint32_t *index = hvd_calloc(size, sizeof(*index));

    if (!index)
        return HVD_ERR_NOMEM;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        size_t at = m->tensors[i].hash & (size - 1);

        while (index[at])
            at = (at + 1) & (size - 1);
        index[at] = i + 1;
    }
    hvd_free(m->_index);
    m->_index = index;
    m->_index_size = size;
    return HVD_OK;
}

/* Finds or creates the tensor of that name, and stores its number. */
static hvd_status_t intern(struct hvd_tl_model *m, const char *name, uint32_t *out)
{
    const uint64_t hash = hash_of(name);
    struct hvd_tl_tensor *tensors;
    size_t at;

    if (2 * (m->n_tensors + 1) > m->_index_size && rehash(m) < 0)
        return HVD_ERR_NOMEM;
    for (at = hash & (m->_index_size - 1); m->_index[at]; at = (at + 1) & (m->_index_size - 1)) {
        const struct hvd_tl_tensor *tensor = &m->tensors[m->_index[at] - 1];

        if (tensor->hash == hash && strcmp(tensor->name, name) == 0) {
            *out = m->_index[at] - 1;
            return HVD_OK;
        }
    }
    tensors = grow(m->tensors, m->n_tensors, &m->_tensors_capacity, sizeof(*tensors));
    if (!tensors)
        return HVD_ERR_NOMEM;
    m->tensors = tensors;
    tensors[m->n_tensors] = (struct hvd_tl_tensor){.name = hvd_strdup(name), .hash = hash};
    if (!tensors[m->n_tensors].name)
        return HVD_ERR_NOMEM;
    *out = (uint32_t)m->n_tensors++;
    m->_index[at] = *out + 1;
    return HVD_OK;
}

/* --- Lanes ------------------------------------------------------------------------------------ */

static struct lane *find_lane(struct lane *lanes, size_t size, int64_t pid)
{
    size_t at = ((uint64_t)pid * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);

    while (lanes[at].pid != -1 && lanes[at].pid != pid)
        at = (at + 1) & (size - 1);
    return &lanes[at];
}

static hvd_status_t grow_lanes(struct reading *r)
{
    const size_t size = r->size ? 2 * r->size : 64;
    struct lane *lanes = hvd_calloc(size, sizeof(*lanes));

    if (!lanes)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < size; i++)
        lanes[i].pid = -1;
    for (size_t i = 0; i < r->size; i++)
        if (r->lanes[i].pid != -1)
            *find_lane(lanes, size, r->lanes[i].pid) = r->lanes[i];
    hvd_free(r->lanes);
    r->lanes = lanes;
    r->size = size;
    return HVD_OK;
}

/* Finds or creates the lane of a process. NULL when out of memory. */
static struct lane *get_lane(struct reading *r, int64_t pid)
{
    struct lane *lane;

    if (2 * (r->n_lanes + 1) > r->size && grow_lanes(r) < 0)
        return NULL;
    lane = find_lane(r->lanes, r->size, pid);
    if (lane->pid == -1) {
        *lane = (struct lane){.pid = pid};
        r->n_lanes++;
    }
    return lane;
}

/* --- Records ---------------------------------------------------------------------------------- */

/* Returns the class of an activity of a collective, by its name. */
static uint8_t class_of(const char *name)
{
    if (hvd_str_equal(name, "QUEUE") || hvd_str_has_prefix(name, "WAIT_FOR"))
        return HVD_TL_QUEUED;
    if (hvd_str_has_prefix(name, "MEMCPY_") || hvd_str_has_prefix(name, "ALLOCATE_") ||
        hvd_str_has_prefix(name, "COPY_") || hvd_str_has_prefix(name, "INIT_"))
        return HVD_TL_COPYING;
    return HVD_TL_MOVING;
}

static bool is_backward(const char *name)
{
    return strncasecmp(name, "BACKWARD", 8) == 0;
}

static hvd_status_t add_edge(struct reading *r, uint8_t class_, int64_t at_ns, int8_t step)
{
    if (class_ == NO_CLASS)
        return HVD_OK;
    r->rank->has_backward = r->rank->has_backward || class_ == HVD_TL_BACKWARD;
    return hvd_tl_model_add_edge(
        r->rank, (struct hvd_tl_edge){.at_ns = at_ns, .blame = -1, .step = step, .class_ = class_});
}

static void begin_op(struct lane *lane, const struct reading *r, const struct hvd_tl_event *e)
{
    lane->op = (struct hvd_tl_op){.asked_ns = e->at_ns,
                                  .agreed_ns = NEVER,
                                  .moving_ns = NEVER,
                                  .bytes = -1,
                                  .last_tick = -1,
                                  .rank = r->index,
                                  .tensor = lane->tensor - 1};
    lane->has_op = lane->tensor > 0;
}

static hvd_status_t begin(struct reading *r, struct lane *lane, const struct hvd_tl_event *e)
{
    uint8_t level = LEVEL_OPERATION;
    uint8_t class_ = NO_CLASS;

    if (lane->n_open >= OPEN_MAX) {
        lane->n_open++;
        return HVD_OK;
    }
    if (is_backward(e->name)) {
        level = LEVEL_MARK;
        class_ = HVD_TL_BACKWARD;
    } else if (hvd_str_has_prefix(e->name, "NEGOTIATE_")) {
        level = LEVEL_NEGOTIATION;
        begin_op(lane, r, e);
    } else if (lane->n_open > 0 && lane->level[lane->n_open - 1] == LEVEL_OPERATION) {
        level = LEVEL_ACTIVITY;
        class_ = class_of(e->name);
        if (class_ == HVD_TL_MOVING && lane->op.moving_ns == NEVER)
            lane->op.moving_ns = e->at_ns;
    } else if (lane->n_open > 0) {
        level = LEVEL_NONE;
    }
    lane->level[lane->n_open] = level;
    lane->class_[lane->n_open++] = class_;
    return add_edge(r, class_, e->at_ns, 1);
}

/* Orders the times of a collective, so that a clock that goes back makes parts empty, but none
 * negative. */
static void put_in_order(struct hvd_tl_op *op)
{
    op->agreed_ns = op->agreed_ns > op->asked_ns ? op->agreed_ns : op->asked_ns;
    op->moving_ns = op->moving_ns > op->agreed_ns ? op->moving_ns : op->agreed_ns;
    op->done_ns = op->done_ns > op->moving_ns ? op->done_ns : op->moving_ns;
}

/* Adds a collective that has ended. */
static hvd_status_t add_op(struct reading *r, struct lane *lane, const struct hvd_tl_event *e)
{
    struct hvd_tl_model *m = r->model;
    struct hvd_tl_op *ops;

    if (!lane->has_op || lane->op.agreed_ns == NEVER)
        return HVD_OK;
    ops = grow(m->ops, m->n_ops, &m->_ops_capacity, sizeof(*ops));
    if (!ops)
        return HVD_ERR_NOMEM;
    m->ops = ops;
    lane->op.done_ns = e->at_ns;
    if (lane->op.moving_ns == NEVER)
        lane->op.moving_ns = e->at_ns;
    put_in_order(&lane->op);
    lane->op.bytes = e->bytes;
    lane->op.sequence = lane->n_times++;
    ops[m->n_ops++] = lane->op;
    lane->has_op = false;
    return HVD_OK;
}

static hvd_status_t end(struct reading *r, struct lane *lane, const struct hvd_tl_event *e)
{
    hvd_status_t st;
    uint8_t level;

    if (lane->n_open == 0)
        return HVD_OK;
    if (--lane->n_open >= OPEN_MAX)
        return HVD_OK;
    level = lane->level[lane->n_open];
    st = add_edge(r, lane->class_[lane->n_open], e->at_ns, -1);
    if (level == LEVEL_NEGOTIATION)
        lane->op.agreed_ns = e->at_ns;
    if (level == LEVEL_OPERATION && st == HVD_OK)
        st = add_op(r, lane, e);
    return st;
}

/* Counts a rank of the job. */
static void see_rank(struct hvd_tl_model *model, int64_t rank)
{
    if (rank >= model->n_job)
        model->n_job = rank + 1;
}

/* Handles a record with a length. "3" means that the coordinator has rank 3's request for the
 * tensor; other names are marks. */
static hvd_status_t tick(struct reading *r, struct lane *lane, const struct hvd_tl_event *e)
{
    const int64_t range[2] = {0, INT32_MAX};
    struct hvd_tl_op *op = &lane->op;
    int64_t rank = 0;
    hvd_status_t st;

    if (is_backward(e->name)) {
        st = add_edge(r, HVD_TL_BACKWARD, e->at_ns, 1);
        return st == HVD_OK ? add_edge(r, HVD_TL_BACKWARD, e->at_ns + e->dur_ns, -1) : st;
    }
    if (!lane->has_op || hvd_str_parse_int64(hvd_strview_of(e->name), range, &rank, NULL) < 0)
        return HVD_OK;
    if (op->last_tick < 0)
        op->first_tick_ns = e->at_ns;
    see_rank(r->model, rank);
    op->last_tick = (int32_t)rank;
    op->last_tick_ns = e->at_ns;
    if (rank == r->rank->rank)
        op->asked_ns = e->at_ns;
    return HVD_OK;
}

static void mark(struct hvd_tl_rank *rank, const struct hvd_tl_event *e)
{
    if (strcmp(e->name, "DROPPED") == 0)
        rank->n_dropped += rank->n_dropped < INT64_C(1) << 61 ? e->dropped : 0;
    if (strcmp(e->name, "STALLED") != 0 && strcmp(e->name, "LOST") != 0 &&
        strcmp(e->name, "FAILED") != 0)
        return;
    if (strstr(e->text, "called horovod_shutdown")) /* another rank's orderly end */
        return;
    rank->n_stalls++;
    if (rank->trouble[0] == '\0')
        (void)snprintf(rank->trouble, sizeof(rank->trouble), "%.16s: %.200s", e->name, e->text);
}

/* Adds the host of some of the job's ranks. */
static hvd_status_t add_host(struct hvd_tl_model *m, const struct hvd_tl_event *e)
{
    struct hvd_tl_host *hosts = grow(m->hosts, m->n_hosts, &m->_hosts_capacity, sizeof(*hosts));
    struct hvd_tl_host *host = hosts ? &hosts[m->n_hosts] : NULL;

    if (!host)
        return HVD_ERR_NOMEM;
    m->hosts = hosts;
    *host = (struct hvd_tl_host){.host = hvd_strdup(e->host), .ranks = hvd_strdup(e->ranks)};
    m->n_hosts++;
    return host->host && host->ranks ? HVD_OK : HVD_ERR_NOMEM;
}

/* Handles a record about the rank that writes the trace, or about ranks of the job. */
static hvd_status_t describe_job(struct reading *r, const struct hvd_tl_event *e)
{
    if (e->host[0] && e->ranks[0])
        return add_host(r->model, e);
    if (e->host[0])
        memcpy(r->rank->host, e->host, sizeof(e->host));
    if (e->program[0])
        memcpy(r->rank->program, e->program, sizeof(e->program));
    if (e->size > 0 && e->size <= INT32_MAX)
        see_rank(r->model, e->size - 1);
    return HVD_OK;
}

/* Handles a record about the trace: its writer, its start, or the name of a tensor. */
static hvd_status_t describe(struct reading *r, const struct hvd_tl_event *e)
{
    struct lane *lane;
    uint32_t tensor = 0;
    hvd_status_t st;

    if (strcmp(e->name, "process_name") != 0)
        return HVD_OK;
    r->is_described = true;
    r->has_rank = r->has_rank || e->rank >= 0;
    if (e->rank >= 0 && e->rank <= INT32_MAX)
        r->rank->rank = e->rank;
    if (e->epoch_us >= 0)
        r->rank->epoch_us = e->epoch_us;
    if (e->pid == 0)
        return describe_job(r, e);
    if (e->text[0] == '\0')
        return HVD_OK;
    st = intern(r->model, e->text, &tensor);
    lane = st == HVD_OK ? get_lane(r, e->pid) : NULL;
    if (!lane)
        return HVD_ERR_NOMEM;
    lane->tensor = tensor + 1;
    return HVD_OK;
}

static hvd_status_t add_event(struct reading *r, const struct hvd_tl_event *e)
{
    struct lane *lane;

    if (e->phase == 'M' || e->pid < 0)
        return e->phase == 'M' && e->pid >= 0 ? describe(r, e) : HVD_OK;
    if (e->phase != 'X') { /* other writers put those at their end */
        r->rank->n_back += r->rank->n_events > 0 && e->at_ns < r->at_ns - BACK_NS;
        r->at_ns = e->at_ns;
    }
    if (r->rank->n_events == 0)
        r->rank->last_ns = e->at_ns;
    if (r->rank->n_events++ == 0 || e->at_ns < r->rank->first_ns)
        r->rank->first_ns = e->at_ns;
    if (e->at_ns > r->rank->last_ns)
        r->rank->last_ns = e->at_ns;
    if (e->phase == 'i')
        mark(r->rank, e);
    if (!e->phase || !strchr("BEX", e->phase))
        return HVD_OK;
    lane = get_lane(r, e->pid);
    if (!lane)
        return HVD_ERR_NOMEM;
    return e->phase == 'B'   ? begin(r, lane, e)
           : e->phase == 'E' ? end(r, lane, e)
                             : tick(r, lane, e);
}

hvd_status_t hvd_tl_model_add(struct hvd_tl_model *model, struct hvd_strview text,
                              struct hvd_err *err)
{
    struct hvd_tl_reader reader = {.rest = text};
    struct reading r = {.model = model, .index = (int32_t)model->n_ranks};
    struct hvd_tl_event event;
    struct hvd_tl_rank *ranks;
    hvd_status_t st = HVD_OK;

    if (model->n_ranks >= HVD_TL_RANKS_MAX)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "there are more than %d timelines",
                        HVD_TL_RANKS_MAX);
    ranks = hvd_realloc(model->ranks, model->n_ranks + 1, sizeof(*ranks));
    if (!ranks)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the timeline");
    model->ranks = ranks;
    r.rank = &ranks[model->n_ranks];
    *r.rank = (struct hvd_tl_rank){.rank = (int64_t)model->n_ranks, .epoch_us = -1};
    model->n_ranks++;
    while (st == HVD_OK && hvd_tl_reader_read(&reader, &event))
        st = add_event(&r, &event);
    r.rank->n_damaged = reader.n_damaged;
    r.rank->is_cut = r.has_rank && !reader.has_end;
    for (size_t i = 0; i < r.size; i++)
        r.rank->n_open += r.lanes[i].pid != -1 && r.lanes[i].has_op;
    hvd_free(r.lanes);
    if (st < 0)
        return HVD_FAIL(err, st, 0, "out of memory for the timeline");
    if (r.rank->n_events == 0 && !r.is_described)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "there is no record of a timeline in it");
    see_rank(model, r.rank->rank);
    for (size_t i = 0; i + 1 < model->n_ranks; i++)
        if (ranks[i].rank == r.rank->rank)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "there is another one of rank %" PRId64,
                            r.rank->rank);
    return HVD_OK;
}

static int compare_ranks(const void *left, const void *right)
{
    const struct hvd_tl_rank *a = left;
    const struct hvd_tl_rank *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

hvd_status_t hvd_tl_model_sort(struct hvd_tl_model *model)
{
    int64_t *before = hvd_calloc(model->n_ranks + 1, sizeof(*before));
    int32_t *now = hvd_calloc(model->n_ranks + 1, sizeof(*now));
    hvd_status_t st = before && now ? HVD_OK : HVD_ERR_NOMEM;

    for (size_t i = 0; i < model->n_ranks && st == HVD_OK; i++)
        before[i] = model->ranks[i].rank;
    if (st == HVD_OK && model->n_ranks > 0)
        qsort(model->ranks, model->n_ranks, sizeof(*model->ranks), compare_ranks);
    for (size_t i = 0; i < model->n_ranks && st == HVD_OK; i++)
        for (size_t k = 0; k < model->n_ranks; k++)
            if (model->ranks[k].rank == before[i])
                now[i] = (int32_t)k;
    for (size_t i = 0; i < model->n_ops && st == HVD_OK; i++)
        model->ops[i].rank = now[model->ops[i].rank];
    hvd_free(before);
    hvd_free(now);
    return st;
}

void hvd_tl_model_fini(struct hvd_tl_model *model)
{
    for (size_t i = 0; i < model->n_ranks; i++)
        hvd_free(model->ranks[i].edges);
    for (size_t i = 0; i < model->n_tensors; i++)
        hvd_free(model->tensors[i].name);
    for (size_t i = 0; i < model->n_hosts; i++) {
        hvd_free(model->hosts[i].host);
        hvd_free(model->hosts[i].ranks);
    }
    hvd_free(model->hosts);
    hvd_free(model->ranks);
    hvd_free(model->ops);
    hvd_free(model->tensors);
    hvd_free(model->_index);
    *model = (struct hvd_tl_model){0};
}
