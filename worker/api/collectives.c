/*
 * The exported collectives. They check the program's arguments, submit them to the engine, and
 * convert its results. Any thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/api/devices.h"

#define BARRIER_NAME "barrier.noname"
#define MADE_NAME_MAX 96

/* The first version of the description ended here; later versions added the fields behind. */
#define TENSOR_SIZE_MIN offsetof(horovod_tensor_t, prescale_factor)

/* A call of a collective. */
struct call {
    enum hvd_op op;
    const void *input;
    void *output;
    const horovod_tensor_t *tensor; /* barrier: process_set alone; NULL: all ranks, or a join */
};

/* A call as a submission, which borrows from the other fields. */
struct prepared {
    struct hvd_submission submission;
    struct hvd_completion completion;
    bool is_known;   /* operation, name and process set are known, whatever else is wrong */
    bool is_unnamed; /* gets a name once all arguments were checked */
    char name[MADE_NAME_MAX];
    int64_t *splits;         /* owned */
    horovod_tensor_t tensor; /* the description as of this version, as far as it is readable */
};

/* Copies a description of any size, and zeroes the fields that it lacks. */
static hvd_status_t read_tensor(const horovod_tensor_t *tensor, horovod_tensor_t *out,
                                struct hvd_err *err)
{
    if (!tensor)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "tensor is NULL");
    if (tensor->size < TENSOR_SIZE_MIN || tensor->size > 4096)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "horovod_tensor_t.size is %zu: set it to sizeof(horovod_tensor_t), as "
                        "HOROVOD_TENSOR does",
                        tensor->size);
    memset(out, 0, sizeof(*out));
    memcpy(out, tensor, tensor->size < sizeof(*out) ? tensor->size : sizeof(*out));
    return HVD_OK;
}

/* Rejects fields that this library does not know unless they are zero: it cannot do what they ask
 * for. given: the caller's description, whose memory ends behind its size. */
static hvd_status_t check_fields(const horovod_tensor_t *given, const horovod_tensor_t *tensor,
                                 struct hvd_err *err)
{
    const char *bytes = (const char *)given;

    for (size_t i = sizeof(*tensor); i < tensor->size; i++)
        if (bytes[i] != 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "the program was compiled for a newer Horovod and uses what version %s "
                            "does not have",
                            HVD_VERSION);
    if (tensor->reserved != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "horovod_tensor_t.reserved is not 0");
    if (tensor->ndim > 0 && !tensor->shape)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "shape is NULL");
    return HVD_OK;
}

/* --- Tensors with a callback instead of a wait ------------------------------------------------ */

/* Calls the program's function `done`. */
static void call_done(const struct hvd_completion *self, hvd_status_t status, const char *message,
                      struct horovod_output *output)
{
    horovod_done_t done = (horovod_done_t)self->done;

    done(self->context, hvd_api_status(status, NULL, NULL), message, output);
}

/* Stores the program's callbacks for the tensor in *room and returns it; NULL: there are none. */
static const struct hvd_completion *completion_of(const horovod_tensor_t *t,
                                                  struct hvd_completion *room)
{
    if (!t->done && !t->allocate)
        return NULL;
    *room = (struct hvd_completion){.call = t->done ? call_done : NULL,
                                    .done = (void (*)(void))t->done,
                                    .allocate = t->allocate,
                                    .context = t->context};
    return room;
}

/* Returns whether a call has a `done` function instead of a wait. */
static bool has_done(const struct call *call)
{
    const size_t size = offsetof(horovod_tensor_t, done) + sizeof(call->tensor->done);

    return call->tensor && call->tensor->size >= size && call->tensor->done;
}

static const char *const words[] = {[HVD_ALLREDUCE] = "allreduce",
                                    [HVD_ALLGATHER] = "allgather",
                                    [HVD_BROADCAST] = "broadcast",
                                    [HVD_ALLTOALL] = "alltoall",
                                    [HVD_REDUCESCATTER] = "reducescatter"};

/*
 * Names a tensor without a name by its number within its operation and process set. So ranks agree
 * on the name, also when some of them are in sets where others are not. Refused calls count as
 * well, because the same call on the other ranks has that name.
 */
static void name_unnamed(struct hvd_engine *engine, struct prepared *p)
{
    struct hvd_request *req = &p->submission.request;

    if (!p->is_unnamed)
        return;
    p->is_unnamed = false;
    snprintf(p->name, sizeof(p->name), "%s.noname.%" PRIu64, words[req->op],
             hvd_engine_count_unnamed(engine, p->submission.set, req->op));
    req->name = hvd_strview_of(p->name);
}

/* A tensor's place in a group. */
struct index_in_group {
    uint32_t i;
    uint32_t n;
    uint64_t *number; /* of the group among those with unnamed tensors; 0: none yet */
};

/* Names a tensor of a group that has no name, by the number of the group and its index in it. */
static void name_unnamed_of_group(struct hvd_engine *engine, struct prepared *p,
                                  struct index_in_group self)
{
    struct hvd_request *req = &p->submission.request;

    if (!p->is_unnamed)
        return;
    p->is_unnamed = false;
    if (*self.number == 0)
        *self.number = hvd_engine_count_unnamed(engine, p->submission.set, req->op);
    snprintf(p->name, sizeof(p->name), "grouped_%s.noname.%" PRIu64 "_%" PRIu32 "of%" PRIu32,
             words[req->op], *self.number, self.i + 1, self.n);
    req->name = hvd_strview_of(p->name);
}

static double factor(double given)
{
    return given < 0 || given > 0 || given != given ? given : 1;
}

/* Converts the public description to a request, without the fields that the operation does not use.
 */
static hvd_status_t make_request(enum hvd_op op, const horovod_tensor_t *t, int size,
                                 struct hvd_request *req, struct hvd_err *err)
{
    const bool reduces = op == HVD_ALLREDUCE || op == HVD_REDUCESCATTER;

    req->op = op;
    req->device = t->memory == HOROVOD_MEMORY_HOST ? HVD_CPU : HVD_GPU;
    req->dtype = (enum hvd_dtype)t->dtype;
    req->reduce = reduces ? (enum hvd_reduce)t->op : HVD_SUM;
    req->root = op == HVD_BROADCAST ? t->root_rank : 0;
    req->prescale = reduces ? factor(t->prescale_factor) : 1;
    req->postscale = reduces ? factor(t->postscale_factor) : 1;
    req->ndim = t->ndim;
    /* Does not read a shape with too many dimensions: the check below rejects it. */
    for (int i = 0; i < t->ndim && t->ndim <= HVD_NDIM_MAX; i++)
        req->shape[i] = t->shape[i];
    return hvd_request_check(req, size, err);
}

/* Returns whether two ranges of memory overlap in part. Ranges that begin at the same address do
 * not. */
static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a;
    const uintptr_t y = (uintptr_t)b;

    return x != y && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

static hvd_status_t check_memory(const struct call *call, const struct prepared *p,
                                 const struct hvd_topology *top, const struct hvd_self *self,
                                 struct hvd_err *err)
{
    const struct hvd_request *req = &p->submission.request;
    const size_t width = hvd_dtype_size((int)req->dtype);
    const bool reads = req->op != HVD_BROADCAST || top->rank == req->root;
    int64_t count = 0;
    int64_t out = 0;

    if (!hvd_shape_count(req->shape, req->ndim, &count) || count == 0)
        return HVD_OK;
    if (reads && !call->input)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "input is NULL");
    if (hvd_op_keeps_shape(req->op))
        out = count;
    else if (req->op == HVD_REDUCESCATTER && req->ndim > 0)
        out = hvd_rows_of(req->shape[0], self->rank, self->size) * hvd_request_row_elements(req);
    if (out > 0 && !call->output)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "output is NULL");
    if (out > 0 && reads &&
        overlap(call->input, (size_t)count * width, call->output, (size_t)out * width))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "input and output overlap in part");
    if (p->tensor.memory == HOROVOD_MEMORY_HOST)
        return HVD_OK;
    const hvd_status_t st =
        reads ? hvd_api_check_gpu_memory(&p->tensor, call->input, "input", err) : HVD_OK;
    return st != HVD_OK || out == 0
               ? st
               : hvd_api_check_gpu_memory(&p->tensor, call->output, "output", err);
}

/* Finds the place of this process in the set that the tensor names. */
static hvd_status_t find_self(struct hvd_engine *engine, const struct call *call, int set,
                              struct hvd_self *self, struct hvd_err *err)
{
    const char *op = hvd_op_name((int)call->op);
    hvd_status_t st =
        set < 0 ? HVD_ERR_NOT_FOUND : hvd_engine_self(engine, (uint32_t)set, self, NULL);

    if (st == HVD_ERR_NOT_FOUND)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s: Process set provided does not exist, or has not been registered.", op);
    if (st == HVD_ERR_DENIED)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s: Rank %d is not a member of the provided process set.", op,
                        hvd_engine_topology(engine)->rank);
    return st;
}

static hvd_status_t prepare_splits(struct prepared *p, const horovod_tensor_t *t, int size,
                                   struct hvd_err *err)
{
    p->splits = hvd_malloc((size_t)size, sizeof(*p->splits));
    if (!p->splits)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for splits");
    p->submission.splits = p->splits;
    return hvd_op_layout_splits(&p->submission.request, t->splits, t->n_splits, size, p->splits,
                                err);
}

/* Finds operation, name and process set of the call, as far as its description is readable, and
 * copies the description. Overwrites *p. */
static hvd_status_t identify(const struct call *call, struct prepared *p, struct hvd_err *err)
{
    struct hvd_request *req = &p->submission.request;
    horovod_tensor_t *t = &p->tensor;
    hvd_status_t st = HVD_OK;

    *p = (struct prepared){.submission = {.input = call->input, .output = call->output}};
    req->op = call->op;
    if (call->op == HVD_BARRIER || call->op == HVD_JOIN) {
        t->process_set = call->tensor ? call->tensor->process_set : 0;
        req->name = hvd_strview_of(call->op == HVD_JOIN ? HVD_JOIN_NAME : BARRIER_NAME);
    } else {
        st = read_tensor(call->tensor, t, err);
        if (st != HVD_OK)
            return st;
        if (t->name)
            req->name =
                (struct hvd_strview){.data = t->name, .len = strnlen(t->name, HVD_NAME_MAX + 1)};
        else
            req->name = hvd_strview_of("unnamed"); /* until it gets one */
        p->is_unnamed = !t->name;
    }
    p->submission.completion = completion_of(t, &p->completion);
    p->is_known = t->process_set >= 0;
    p->submission.set = p->is_known ? (uint32_t)t->process_set : 0;
    return HVD_OK;
}

static hvd_status_t prepare_tensor(struct hvd_engine *engine, const struct call *call,
                                   struct prepared *p, struct hvd_err *err)
{
    const struct hvd_topology *top = hvd_engine_topology(engine);
    struct hvd_request *req = &p->submission.request;
    const horovod_tensor_t *t = &p->tensor;
    struct hvd_self self = {0};
    hvd_status_t st = check_fields(call->tensor, t, err);

    if (st == HVD_OK)
        st = find_self(engine, call, t->process_set, &self, err);
    if (st != HVD_OK)
        return st;
    if (call->op == HVD_BROADCAST)
        st = hvd_engine_check_root(engine, (uint32_t)t->process_set, t->root_rank, err);
    if (st == HVD_OK)
        st = make_request(call->op, t, top->size, req, err);
    if (st == HVD_OK && req->reduce == HVD_ADASUM)
        st = hvd_op_layout_check_adasum(self.size, err);
    if (st == HVD_OK && t->memory != HOROVOD_MEMORY_HOST)
        st = hvd_api_device_of(engine, t, err);
    if (st == HVD_OK)
        st = check_memory(call, p, top, &self, err);
    if (st == HVD_OK && call->op == HVD_ALLTOALL)
        st = prepare_splits(p, t, self.size, err);
    if (st != HVD_OK && t->name && req->name.len > 0)
        return HVD_WRAP(err, st, "tensor %.200s", t->name);
    return st;
}

/* Checks a call. The caller frees p->splits, also on failure. */
static hvd_status_t prepare(struct hvd_engine *engine, const struct call *call, struct prepared *p,
                            struct hvd_err *err)
{
    struct hvd_self self;
    hvd_status_t st = identify(call, p, err);

    if (st != HVD_OK)
        return st;
    if (call->op != HVD_BARRIER && call->op != HVD_JOIN)
        return prepare_tensor(engine, call, p, err);
    st = find_self(engine, call, p->tensor.process_set, &self, err);
    p->submission.request.reduce = HVD_SUM;
    p->submission.request.prescale = 1;
    p->submission.request.postscale = 1;
    return st;
}

/* Announces a refused call to the other ranks, which would wait for it. A join may still follow, so
 * only a lack of memory for it is announced; that ends the job. */
static void announce_refused(struct hvd_engine *engine, const struct prepared *p, hvd_status_t st,
                             const char *reason)
{
    if (p->is_known && (p->submission.request.op != HVD_JOIN || st == HVD_ERR_NOMEM))
        hvd_engine_refuse(engine, &(struct hvd_refused){.set = p->submission.set,
                                                        .name = p->submission.request.name,
                                                        .reason = reason});
}

/* Records the point from which on the input of a tensor on a GPU is there. */
static hvd_status_t mark_input(struct hvd_engine *engine, struct prepared *p,
                               struct hvd_api_mark *last, struct hvd_err *err)
{
    if (p->tensor.memory == HOROVOD_MEMORY_HOST)
        return HVD_OK;
    const hvd_status_t st = hvd_api_mark_input(engine, &p->tensor, last, err);
    if (st != HVD_OK)
        return HVD_WRAP(err, st, "tensor %.*s", (int)p->submission.request.name.len,
                        p->submission.request.name.data);
    p->submission.ready = hvd_device_event_retain(last->event);
    return st;
}

/* Frees what a prepared call owns, and forgets the point at which its input is there. */
static void finish_prepared(struct prepared *p, struct hvd_api_mark *last)
{
    hvd_device_event_release(p->submission.ready);
    hvd_free(p->splits);
    hvd_api_mark_drop(last);
}

/* Checks and submits a call. The engine is entered. */
static hvd_status_t submit(struct hvd_engine *engine, const struct call *call, bool is_waited_now,
                           int64_t *handle, struct hvd_err *err)
{
    struct prepared p;
    struct hvd_api_mark mark = {.is_there = false};
    hvd_status_t st = prepare(engine, call, &p, err);

    p.submission.is_waited_now = is_waited_now;
    name_unnamed(engine, &p);
    if (st == HVD_OK)
        st = mark_input(engine, &p, &mark, err);
    if (st == HVD_OK)
        st = hvd_engine_submit(engine, &p.submission, handle, err);
    if (st != HVD_OK)
        announce_refused(engine, &p, st, err->msg);
    finish_prepared(&p, &mark);
    return st;
}

#define GROUP_ON_STACK 32 /* tensors that need no allocation */

/* A group of calls of one kind. */
struct group {
    enum hvd_op op;
    int n;
    bool is_empty; /* a refused group without tensors; tensors[0] holds its name */
    const void *const *inputs;
    void *const *outputs; /* NULL if the library allocates them */
    const horovod_tensor_t *const *tensors;
};

static struct call call_of(const struct group *g, int i)
{
    return (struct call){.op = g->op,
                         .input = g->inputs ? g->inputs[i] : NULL,
                         .output = g->outputs ? g->outputs[i] : NULL,
                         .tensor = g->tensors[i]};
}

/* announce_refused() for all tensors of a group. *number: see index_in_group. Allocates nothing. */
static void announce_group_refused(struct hvd_engine *engine, const struct group *g,
                                   uint64_t *number, hvd_status_t st, const char *reason)
{
    for (int i = 0; i < g->n; i++) {
        const struct call call = call_of(g, i);
        struct prepared p;
        if (identify(&call, &p, NULL) != HVD_OK)
            continue;
        name_unnamed_of_group(
            engine, &p,
            (struct index_in_group){(uint32_t)i, g->is_empty ? 0 : (uint32_t)g->n, number});
        announce_refused(engine, &p, st, reason);
    }
}

/* Checks all tensors of a group, then submits them. The engine is entered. */
static hvd_status_t submit_group(struct hvd_engine *engine, const struct group *g,
                                 horovod_handle_t *handles, struct hvd_err *err)
{
    const uint32_t n = (uint32_t)g->n;
    struct prepared *p = hvd_calloc(n, sizeof(*p));
    struct hvd_submission *submissions = hvd_calloc(n, sizeof(*submissions));
    struct hvd_api_mark mark = {.is_there = false};
    uint64_t number = 0;
    hvd_status_t st = HVD_OK;

    if (!p || !submissions)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a group of %u tensors", n);
    for (uint32_t i = 0; i < n && st == HVD_OK; i++) {
        const struct call call = call_of(g, (int)i);
        st = prepare(engine, &call, &p[i], err);
        if (st != HVD_OK && p[i].is_unnamed && n > 1)
            st = HVD_WRAP(err, st, "tensor %" PRIu32 " of %" PRIu32, i + 1, n);
        if (st == HVD_OK && p[i].submission.set != p[0].submission.set)
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0,
                          "tensor %u of the group is of process set %u, "
                          "the first one of %u",
                          i, p[i].submission.set, p[0].submission.set);
    }
    for (uint32_t i = 0; i < n && st == HVD_OK; i++) {
        name_unnamed_of_group(engine, &p[i], (struct index_in_group){i, n, &number});
        st = mark_input(engine, &p[i], &mark, err);
        submissions[i] = p[i].submission;
    }
    if (st == HVD_OK && n > 0)
        st = hvd_engine_submit_group(engine, submissions, n, handles, err);
    if (st != HVD_OK)
        announce_group_refused(engine, g, &number, st, err->msg);
    for (uint32_t i = 0; p && i < n; i++)
        finish_prepared(&p[i], &mark);
    hvd_free(submissions);
    hvd_free(p);
    return st;
}

/* Records the point from which on the input of a tensor on a GPU is there. False if the tensor is
 * not on this rank's GPU, or the slow path must report a failure. */
static bool mark_expected(struct hvd_engine *engine, const horovod_tensor_t *t,
                          struct hvd_api_mark *last)
{
    const struct hvd_device_port *device = hvd_engine_device(engine);

    return t->memory == HOROVOD_MEMORY_CUDA && device && device->ordinal == t->device &&
           hvd_api_mark_input(engine, t, last, NULL) == HVD_OK;
}

/* Describes an allreduce in the form that the engine compares with expected ones. Returns false for
 * a description of another version, without a name, or with errors: those take the slow path. So
 * does the first tensor on a GPU. The caller releases out->ready. */
static bool describe(struct hvd_engine *engine, const struct call *call, struct hvd_described *out,
                     struct hvd_completion *room, struct hvd_api_mark *last)
{
    const horovod_tensor_t *t = call->tensor;

    if (call->op != HVD_ALLREDUCE || !t || t->size != sizeof(*t) || !t->name || t->reserved != 0 ||
        t->process_set < 0 || (t->ndim > 0 && !t->shape))
        return false;
    if (t->memory != HOROVOD_MEMORY_HOST && !mark_expected(engine, t, last))
        return false;
    *out = (struct hvd_described){
        .op = HVD_ALLREDUCE,
        .dtype = (int)t->dtype,
        .reduce = (int)t->op,
        .device = t->memory == HOROVOD_MEMORY_HOST ? HVD_CPU : HVD_GPU,
        .ndim = t->ndim,
        .prescale = factor(t->prescale_factor),
        .postscale = factor(t->postscale_factor),
        .shape = t->shape,
        .name = t->name,
        .input = call->input,
        .output = call->output,
        .set = (uint32_t)t->process_set,
        .ready = t->memory == HOROVOD_MEMORY_HOST ? NULL : hvd_device_event_retain(last->event),
        .completion = completion_of(t, room),
    };
    return true;
}

/* Submits an allreduce that the engine expects. Returns false, without an effect, if it does not.
 */
static bool submit_expected(struct hvd_engine *engine, const struct call *call, bool is_waited_now,
                            int64_t *handle)
{
    struct hvd_described described;
    struct hvd_completion room;
    struct hvd_api_mark mark = {.is_there = false};

    if (!describe(engine, call, &described, &room, &mark))
        return false;
    described.is_waited_now = is_waited_now;
    const bool is_expected = hvd_engine_submit_expected(engine, &described, handle);
    hvd_device_event_release(described.ready);
    hvd_api_mark_drop(&mark);
    return is_expected;
}

/* submit_expected() for a group. The engine does not treat one tensor as a group. */
static bool submit_expected_group(struct hvd_engine *engine, const struct group *g,
                                  int64_t *handles)
{
    struct hvd_described on_stack[GROUP_ON_STACK];
    struct hvd_completion rooms_on_stack[GROUP_ON_STACK];
    const bool is_small = g->n <= GROUP_ON_STACK;
    struct hvd_described *d =
        is_small ? on_stack : hvd_malloc((size_t)g->n, sizeof(*d) + sizeof(struct hvd_completion));
    struct hvd_completion *rooms = is_small ? rooms_on_stack
                                   : d      ? (struct hvd_completion *)(d + g->n)
                                            : NULL;
    struct hvd_api_mark mark = {.is_there = false};
    bool is_one = d && g->op == HVD_ALLREDUCE && g->n > 0;
    int n_described = 0;

    for (int i = 0; is_one && i < g->n; i++) {
        const struct call call = call_of(g, i);
        is_one = describe(engine, &call, &d[i], &rooms[i], &mark);
        n_described += is_one;
        is_one = is_one && d[i].set == d[0].set;
        d[i].group_size = g->n > 1 ? (uint32_t)g->n : 0;
    }
    if (is_one)
        is_one = g->n > 1 ? hvd_engine_submit_expected_group(engine, d, (uint32_t)g->n, handles)
                          : hvd_engine_submit_expected(engine, d, handles);
    for (int i = 0; i < n_described; i++)
        hvd_device_event_release(d[i].ready);
    hvd_api_mark_drop(&mark);
    if (d != on_stack)
        hvd_free(d);
    return is_one;
}

/* Announces a call that was refused before any check to the other ranks, if its description is
 * readable. The engine is entered. */
static void announce_call_refused(struct hvd_engine *engine, const struct call *call,
                                  const char *reason)
{
    struct prepared p;

    if (identify(call, &p, NULL) != HVD_OK)
        return;
    name_unnamed(engine, &p);
    announce_refused(engine, &p, HVD_ERR_INVALID, reason);
}

static horovod_status_t refuse_to_wait(const struct call *call, const char *reason,
                                       horovod_error_t *err)
{
    struct hvd_err why = {0};
    struct hvd_engine *engine = hvd_api_enter(true);

    hvd_err_set(&why, HVD_ERR_INVALID, 0, "%s", reason);
    if (engine)
        announce_call_refused(engine, call, why.msg);
    if (engine)
        hvd_api_exit();
    return hvd_api_status(HVD_ERR_INVALID, &why, err);
}

/* Submits a call that the engine does not expect. The engine is entered; leaves it. */
static horovod_status_t run_unexpected(struct hvd_engine *engine, const struct call *call,
                                       horovod_handle_t *handle, horovod_error_t *err)
{
    struct hvd_err why;

    hvd_err_clear(&why);
    const hvd_status_t st = submit(engine, call, false, handle, &why);
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

static horovod_status_t run_with_handle(const struct call *call, horovod_handle_t *handle,
                                        horovod_error_t *err)
{
    struct hvd_engine *engine = handle ? hvd_api_enter(true) : NULL;

    if (!engine)
        return handle ? hvd_api_not_initialized(err) : refuse_to_wait(call, "handle is NULL", err);
    if (!submit_expected(engine, call, false, handle))
        return run_unexpected(engine, call, handle, err);
    hvd_api_exit();
    return HOROVOD_OK;
}

static horovod_status_t run_async(const struct call *call, horovod_handle_t *handle,
                                  horovod_error_t *err)
{
    horovod_handle_t nobodys = 0;

    return run_with_handle(call, handle || !has_done(call) ? handle : &nobodys, err);
}

/* Submits and waits for timeout_ns at most; -1: until the end. Sets *handle as
 * horovod_allreduce_for does, and *outcome as hvd_engine_wait_for. */
static horovod_status_t run_for(const struct call *call, int64_t timeout_ns,
                                horovod_handle_t *handle, struct hvd_outcome *outcome,
                                horovod_error_t *err)
{
    struct hvd_err why;
    hvd_status_t st = HVD_OK;

    if (handle)
        *handle = 0;
    if (!handle || has_done(call))
        return refuse_to_wait(call,
                              handle ? "done is for calls that do not wait: see horovod_done_t"
                                     : "handle is NULL",
                              err);
    struct hvd_engine *engine = hvd_api_enter(true);
    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_err_clear(&why);
    if (!submit_expected(engine, call, true, handle))
        st = submit(engine, call, true, handle, &why);
    if (st == HVD_OK)
        st = hvd_engine_wait_result(engine, *handle, timeout_ns, outcome, &why);
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

/* run_for() for collectives whose output the library allocates. output may be NULL. */
static horovod_status_t run_output_for(const struct call *call, int64_t timeout_ns,
                                       horovod_handle_t *handle, struct horovod_output **output,
                                       horovod_error_t *err)
{
    struct hvd_outcome outcome = {0};
    const horovod_status_t status =
        run_for(call, timeout_ns, handle, output ? &outcome : NULL, err);

    if (status == HOROVOD_OK && output)
        *output = outcome.output;
    return status;
}

/* Submits and waits until the end. */
static horovod_status_t run(const struct call *call, struct hvd_outcome *outcome,
                            horovod_error_t *err)
{
    horovod_handle_t handle;

    return run_for(call, -1, &handle, outcome, err);
}

/* run() for collectives whose output the library allocates. */
static horovod_status_t run_output(const struct call *call, struct horovod_output **output,
                                   horovod_error_t *err)
{
    horovod_handle_t handle;

    return run_output_for(call, -1, &handle, output, err);
}

static horovod_status_t run_grouped(const struct group *g, horovod_handle_t *handles,
                                    horovod_error_t *err)
{
    const bool needs_outputs = g->op != HVD_ALLGATHER;
    const bool is_whole = g->n == 0 || (g->n > 0 && g->inputs && g->tensors && handles &&
                                        (!needs_outputs || g->outputs));
    struct hvd_err why = {0};
    uint64_t number = 0;
    struct hvd_engine *engine = hvd_api_enter(true);
    hvd_status_t st = HVD_OK;

    if (!is_whole)
        st = HVD_FAIL(&why, HVD_ERR_INVALID, 0, "a group of %d tensors, or of none that are there",
                      g->n);
    if (!engine)
        return is_whole ? hvd_api_not_initialized(err) : hvd_api_status(st, &why, err);
    if (is_whole)
        st = submit_expected_group(engine, g, handles) ? HVD_OK
                                                       : submit_group(engine, g, handles, &why);
    else if (g->tensors)
        announce_group_refused(engine, g, &number, HVD_ERR_INVALID, why.msg);
    hvd_api_exit();
    return hvd_api_status(st, &why, err);
}

/* Finds the collective of that name; false if there is none. */
static bool find_word(const char *collective, enum hvd_op *out)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i] && strcmp(words[i], collective) == 0) {
            *out = (enum hvd_op)i;
            return true;
        }
    }
    return false;
}

/* Copies a reason, cut to the size that the other ranks receive, as one line. */
static void copy_reason(const char *reason, char *out, size_t size)
{
    snprintf(out, size, "%s", reason);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

horovod_status_t horovod_refuse(const char *collective, int n,
                                const horovod_tensor_t *const *tensors, const char *reason,
                                horovod_error_t *err)
{
    const bool is_empty = n == HOROVOD_EMPTY_GROUP;
    struct group g = {.n = n > 0 ? n : 1, .is_empty = is_empty, .tensors = tensors};
    struct hvd_err why = {0};
    char text[HVD_ERR_MSG_MAX];
    uint64_t number = 0;
    hvd_status_t st = HVD_OK;

    if (!collective || !find_word(collective, &g.op) || (n < 0 && !is_empty) || !tensors ||
        !reason) {
        st = HVD_FAIL(&why, HVD_ERR_INVALID, 0, "horovod_refuse: no such collective, or NULL");
        return hvd_api_status(st, &why, err);
    }
    struct hvd_engine *engine = hvd_api_enter(true);
    if (!engine)
        return hvd_api_not_initialized(err);
    copy_reason(reason, text, sizeof(text));
    if (n != 0) {
        announce_group_refused(engine, &g, &number, HVD_ERR_INVALID, text);
    } else {
        const struct call call = call_of(&g, 0);
        announce_call_refused(engine, &call, text);
    }
    hvd_api_exit();
    return HOROVOD_OK;
}

horovod_status_t horovod_allreduce_async(const void *input, void *output,
                                         const horovod_tensor_t *tensor, horovod_handle_t *handle,
                                         horovod_error_t *err)
{
    const struct call call = {HVD_ALLREDUCE, input, output, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_allreduce(const void *input, void *output, const horovod_tensor_t *tensor,
                                   horovod_error_t *err)
{
    const struct call call = {HVD_ALLREDUCE, input, output, tensor};

    return run(&call, NULL, err);
}

horovod_status_t horovod_allreduce_for(const void *input, void *output,
                                       const horovod_tensor_t *tensor, int64_t timeout_ms,
                                       horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_ALLREDUCE, input, output, tensor};

    return run_for(&call, hvd_api_timeout_ns(timeout_ms), handle, NULL, err);
}

horovod_status_t horovod_allgather_async(const void *input, const horovod_tensor_t *tensor,
                                         horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_ALLGATHER, input, NULL, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_allgather(const void *input, const horovod_tensor_t *tensor,
                                   horovod_output_t **output, horovod_error_t *err)
{
    const struct call call = {HVD_ALLGATHER, input, NULL, tensor};

    return run_output(&call, output, err);
}

horovod_status_t horovod_allgather_for(const void *input, const horovod_tensor_t *tensor,
                                       int64_t timeout_ms, horovod_handle_t *handle,
                                       horovod_output_t **output, horovod_error_t *err)
{
    const struct call call = {HVD_ALLGATHER, input, NULL, tensor};

    return run_output_for(&call, hvd_api_timeout_ns(timeout_ms), handle, output, err);
}

horovod_status_t horovod_broadcast_async(const void *input, void *output,
                                         const horovod_tensor_t *tensor, horovod_handle_t *handle,
                                         horovod_error_t *err)
{
    const struct call call = {HVD_BROADCAST, input, output, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_broadcast(const void *input, void *output, const horovod_tensor_t *tensor,
                                   horovod_error_t *err)
{
    const struct call call = {HVD_BROADCAST, input, output, tensor};

    return run(&call, NULL, err);
}

horovod_status_t horovod_broadcast_for(const void *input, void *output,
                                       const horovod_tensor_t *tensor, int64_t timeout_ms,
                                       horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_BROADCAST, input, output, tensor};

    return run_for(&call, hvd_api_timeout_ns(timeout_ms), handle, NULL, err);
}

horovod_status_t horovod_alltoall_async(const void *input, const horovod_tensor_t *tensor,
                                        horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_ALLTOALL, input, NULL, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_alltoall(const void *input, const horovod_tensor_t *tensor,
                                  horovod_output_t **output, horovod_error_t *err)
{
    const struct call call = {HVD_ALLTOALL, input, NULL, tensor};

    return run_output(&call, output, err);
}

horovod_status_t horovod_alltoall_for(const void *input, const horovod_tensor_t *tensor,
                                      int64_t timeout_ms, horovod_handle_t *handle,
                                      horovod_output_t **output, horovod_error_t *err)
{
    const struct call call = {HVD_ALLTOALL, input, NULL, tensor};

    return run_output_for(&call, hvd_api_timeout_ns(timeout_ms), handle, output, err);
}

horovod_status_t horovod_reducescatter_async(const void *input, void *output,
                                             const horovod_tensor_t *tensor,
                                             horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_REDUCESCATTER, input, output, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_reducescatter(const void *input, void *output,
                                       const horovod_tensor_t *tensor, horovod_error_t *err)
{
    const struct call call = {HVD_REDUCESCATTER, input, output, tensor};

    return run(&call, NULL, err);
}

horovod_status_t horovod_reducescatter_for(const void *input, void *output,
                                           const horovod_tensor_t *tensor, int64_t timeout_ms,
                                           horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_REDUCESCATTER, input, output, tensor};

    return run_for(&call, hvd_api_timeout_ns(timeout_ms), handle, NULL, err);
}

int64_t horovod_reducescatter_rows(int64_t rows, int rank, int size)
{
    return rank >= 0 && rank < size && rows >= 0 ? hvd_rows_of(rows, rank, size) : -1;
}

horovod_status_t horovod_grouped_allreduce_async(int n, const void *const *inputs,
                                                 void *const *outputs,
                                                 const horovod_tensor_t *const *tensors,
                                                 horovod_handle_t *handles, horovod_error_t *err)
{
    return run_grouped(&(struct group){HVD_ALLREDUCE, n, false, inputs, outputs, tensors}, handles,
                       err);
}

horovod_status_t horovod_grouped_allgather_async(int n, const void *const *inputs,
                                                 const horovod_tensor_t *const *tensors,
                                                 horovod_handle_t *handles, horovod_error_t *err)
{
    return run_grouped(&(struct group){HVD_ALLGATHER, n, false, inputs, NULL, tensors}, handles,
                       err);
}

horovod_status_t horovod_grouped_reducescatter_async(int n, const void *const *inputs,
                                                     void *const *outputs,
                                                     const horovod_tensor_t *const *tensors,
                                                     horovod_handle_t *handles,
                                                     horovod_error_t *err)
{
    return run_grouped(&(struct group){HVD_REDUCESCATTER, n, false, inputs, outputs, tensors},
                       handles, err);
}

horovod_status_t horovod_join(int *last_rank, horovod_error_t *err)
{
    const struct call call = {.op = HVD_JOIN};
    struct hvd_outcome outcome = {0};
    horovod_status_t status = run(&call, &outcome, err);

    if (status == HOROVOD_OK && last_rank)
        *last_rank = (int)outcome.number;
    return status;
}

horovod_status_t horovod_join_async(horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {.op = HVD_JOIN};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_barrier_async(horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {.op = HVD_BARRIER};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_barrier(horovod_error_t *err)
{
    const struct call call = {.op = HVD_BARRIER};

    return run(&call, NULL, err);
}

horovod_status_t horovod_process_set_barrier_async(int id, horovod_handle_t *handle,
                                                   horovod_error_t *err)
{
    const horovod_tensor_t of_set = {.process_set = id};
    const struct call call = {.op = HVD_BARRIER, .tensor = &of_set};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_process_set_barrier(int id, horovod_error_t *err)
{
    const horovod_tensor_t of_set = {.process_set = id};
    const struct call call = {.op = HVD_BARRIER, .tensor = &of_set};

    return run(&call, NULL, err);
}
