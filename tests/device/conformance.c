/*
 * device_conformance [few [alone]]: the adapter for GPUs beside the host's, bit for bit, with one
 * rank on the first GPU. For each operation and each way to move it a line of JSON; a type that
 * differs is named. `few` runs some types, `alone` leaves NCCL out. Exit status 77 where there is
 * no GPU.
 *
 *     alone     a set of one rank, which copies and scales
 *     nccl      the same set connected, so that NCCL's calls move it
 *     staged    loads into the memory of the host, and unloads from there
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/integration/cuda/machine_gpu.h"
#include "tests/unit/worker/reduce/reference.h"
#include "worker/device/cuda/cuda.h"

#define SPARE 64 /* bytes between tensors, in which nothing may be written */
#define CANARY 0x5a
#define MOST_PIECES 8
#define LARGE_BYTES (((size_t)512 << 10) + 24)
#define BLOCK_BYTES ((size_t)640 << 10)
#define TEXT_MAX 200
#define CHECK(CALL) machine_gpu_check(machine_gpu_api()->CALL, #CALL)

enum way { ALONE, NCCL, STAGED };

static const char *const ways[] = {"alone", "nccl", "staged"};

/* How tensors lie in their block. */
enum variant { ALIGNED, ODD, IN_PLACE, MISSING, VARIANTS };

static const struct operation {
    const char *name;
    enum hvd_op op;
    enum hvd_reduce reduce;
    double prescale;
    double postscale;
} operations[] = {
    {"allreduce", HVD_ALLREDUCE, HVD_SUM, 1, 1},
    {"minimum", HVD_ALLREDUCE, HVD_MIN, 1, 1},
    {"maximum", HVD_ALLREDUCE, HVD_MAX, 1, 1},
    {"product", HVD_ALLREDUCE, HVD_PRODUCT, 1, 1},
    {"factors", HVD_ALLREDUCE, HVD_SUM, 0.3, 7},
    {"allgather", HVD_ALLGATHER, HVD_SUM, 1, 1},
    {"broadcast", HVD_BROADCAST, HVD_SUM, 1, 1},
    {"alltoall", HVD_ALLTOALL, HVD_SUM, 1, 1},
    {"reducescatter", HVD_REDUCESCATTER, HVD_SUM, 1, 1},
};

/* One collective on both sides. Index 0 is the host's, 1 the GPU's. */
struct scene {
    struct hvd_device_port *port;
    const struct operation *operation;
    enum hvd_dtype dtype;
    enum way way;
    int64_t counts[MOST_PIECES];
    int n;
    struct hvd_piece pieces[2][MOST_PIECES];
    struct hvd_collective moves[2];
    char *input; /* blocks of the host */
    char *output;
    char *seen;
    hvd_cu_ptr_t gpu_input;
    hvd_cu_ptr_t gpu_output;
    char text[TEXT_MAX]; /* what differs; "": nothing */
};

static void fail(const struct scene *s, const char *what, const struct hvd_err *err)
{
    (void)fprintf(stderr, "%s, %s of %s: %s: %s\n", ways[s->way], s->operation->name,
                  hvd_dtype_name((int)s->dtype), what, err->msg);
    exit(1);
}

/* --- Tensors ---------------------------------------------------------------------------------- */

/* Sizes next to words, one that moves where it is, none. */
static void choose_counts(struct scene *s)
{
    const int64_t large = (int64_t)(LARGE_BYTES / hvd_dtype_size((int)s->dtype));
    const int64_t counts[] = {1, 7, 0, 1000, 33, large, 4096};

    s->n = s->operation->op == HVD_ALLREDUCE ? (int)(sizeof(counts) / sizeof(*counts)) : 1;
    memcpy(s->counts, counts, sizeof(counts));
    if (s->n == 1)
        s->counts[0] = 5003;
}

static void *device_pointer(hvd_cu_ptr_t at)
{
    void *pointer = NULL;

    memcpy(&pointer, &at, sizeof(pointer));
    return pointer;
}

/* Places the tensors on both sides in the same way. */
static void place(struct scene *s, enum variant variant)
{
    const size_t width = hvd_dtype_size((int)s->dtype);
    size_t at = SPARE;

    for (int i = 0; i < s->n; i++) {
        const bool is_missing = variant == MISSING && s->n > 1 && i % 2 == 0;
        const size_t off = variant == ODD ? width * (size_t)(i % 3) : 0;
        s->pieces[0][i] = (struct hvd_piece){
            is_missing ? NULL : s->input + at + off,
            (variant == IN_PLACE ? s->input : s->output) + at + off, s->counts[i]};
        s->pieces[1][i] = (struct hvd_piece){
            is_missing ? NULL : device_pointer(s->gpu_input + at + off),
            device_pointer((variant == IN_PLACE ? s->gpu_input : s->gpu_output) + at + off),
            s->counts[i]};
        at += ((size_t)s->counts[i] * width + SPARE) / SPARE * SPARE + SPARE;
    }
    if (at > BLOCK_BYTES)
        abort();
}

static void describe(struct scene *s, int side)
{
    const struct operation *o = s->operation;
    const bool is_fused = o->op == HVD_ALLREDUCE;
    struct hvd_collective *c = &s->moves[side];

    *c = (struct hvd_collective){.op = o->op,
                                 .dtype = s->dtype,
                                 .reduce = o->reduce,
                                 .scaling = {o->prescale, o->postscale, 1},
                                 .counts = s->counts,
                                 .received = s->counts};
    for (int i = 0; i < s->n; i++)
        c->count += s->counts[i];
    if (is_fused) {
        c->pieces = s->pieces[side];
        c->n_pieces = s->n;
        c->counts = c->received = NULL;
    } else {
        c->input = s->pieces[side][0].input;
        c->output = s->pieces[side][0].output;
    }
}

static void fill(struct scene *s, uint64_t seed)
{
    reference_fill(s->dtype, s->input, (int64_t)(BLOCK_BYTES / hvd_dtype_size((int)s->dtype)),
                   seed);
    memset(s->output, CANARY, BLOCK_BYTES);
    CHECK(cuMemcpyHtoD_v2(s->gpu_input, s->input, BLOCK_BYTES));
    CHECK(cuMemcpyHtoD_v2(s->gpu_output, s->output, BLOCK_BYTES));
}

/* --- Both adapters ---------------------------------------------------------------------------- */

/* Hands work to the GPU and waits for its end. */
static void run_on_gpu(const struct scene *s, struct hvd_device_work *work)
{
    const struct timespec pause = {.tv_nsec = 5000};
    const struct hvd_device_ops *ops = s->port->ops;
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    if (ops->mark(s->port, NULL, &ready, &err) != HVD_OK)
        fail(s, "mark", &err);
    work->ready = &ready;
    work->n_ready = ready != NULL;
    hvd_status_t st = ops->launch(s->port, work, &err);
    if (st != HVD_OK)
        fail(s, "launch", &err);
    hvd_device_event_release(ready);
    while ((st = ops->test(s->port, work, &err)) == HVD_INPROGRESS)
        (void)nanosleep(&pause, NULL);
    if (st != HVD_OK)
        fail(s, "test", &err);
    if (work->event && ops->wait(s->port, work->event, &err) != HVD_OK)
        fail(s, "wait", &err);
    hvd_device_event_release(work->event);
}

static void move_on_gpu(const struct scene *s)
{
    const struct hvd_collective *c = &s->moves[1];
    struct hvd_device_work work = {.kind = HVD_DEVICE_MOVE, .move = c, .is_alone = s->way == ALONE};

    if (s->way != STAGED) {
        run_on_gpu(s, &work);
        return;
    }
    const struct hvd_piece whole = {.input = c->input, .output = c->output, .count = c->count};
    struct hvd_err err = {0};
    work.pieces = c->pieces ? c->pieces : &whole;
    work.n_pieces = c->pieces ? c->n_pieces : 1;
    if (s->port->ops->alloc_host(s->port, BLOCK_BYTES, &work.host, &err) != HVD_OK)
        fail(s, "alloc_host", &err);
    work.kind = HVD_DEVICE_LOAD;
    run_on_gpu(s, &work);
    work.kind = HVD_DEVICE_UNLOAD;
    run_on_gpu(s, &work);
    s->port->ops->free_host(s->port, work.host);
}

static void move_on_host(const struct scene *s)
{
    struct hvd_device_port *host = hvd_host_device();
    struct hvd_device_work work = {.kind = HVD_DEVICE_MOVE, .move = &s->moves[0], .is_alone = true};
    struct hvd_err err = {0};

    if (host->ops->launch(host, &work, &err) != HVD_OK)
        fail(s, "the host", &err);
}

static void compare(struct scene *s, const char *wanted, hvd_cu_ptr_t at, enum variant variant)
{
    CHECK(cuMemcpyDtoH_v2(s->seen, at, BLOCK_BYTES));
    for (size_t i = 0; i < BLOCK_BYTES && !s->text[0]; i++)
        if (s->seen[i] != wanted[i])
            (void)snprintf(s->text, sizeof(s->text),
                           "%s, variant %d: byte %zu is %02x, and %02x on the host",
                           hvd_dtype_name((int)s->dtype), (int)variant, i,
                           (unsigned char)s->seen[i], (unsigned char)wanted[i]);
}

static void check_variant(struct scene *s, enum variant variant)
{
    fill(s, (uint64_t)s->dtype + 100U * (unsigned)variant + 1);
    place(s, variant);
    describe(s, 0);
    describe(s, 1);
    move_on_gpu(s);
    move_on_host(s);
    compare(s, s->output, s->gpu_output, variant);
    compare(s, s->input, s->gpu_input, variant);
}

/* --- The program ------------------------------------------------------------------------------ */

/* Whether NCCL moves the operation at all. */
static bool is_moved(const struct scene *s)
{
    return s->way != NCCL || s->port->ops->moves(s->operation->op, s->dtype, s->operation->reduce);
}

static void check_operation(struct scene *s, int step)
{
    int n_types = 0;

    s->text[0] = '\0';
    for (int dtype = 0; dtype < HVD_DTYPES; dtype += step) {
        s->dtype = (enum hvd_dtype)dtype;
        if (!is_moved(s))
            continue;
        n_types++;
        choose_counts(s);
        for (int variant = 0; variant < VARIANTS; variant++)
            if (s->way != STAGED || variant != MISSING || s->n > 1)
                check_variant(s, (enum variant)variant);
    }
    printf("{\"row\": \"%s, %s\", \"value\": %d, \"outcome\": \"%s\", \"text\": \"%s\"}\n",
           ways[s->way], s->operation->name, n_types, s->text[0] ? "failed" : "passed", s->text);
    (void)fflush(stdout);
}

/* Connects set 0, which has this rank alone. */
static void connect_set(const struct scene *s)
{
    static const int ranks[] = {0};
    const struct hvd_device_set set = {.set = 0, .size = 1, .ranks = ranks};
    const struct hvd_device_ops *ops = s->port->ops;
    const struct timespec pause = {.tv_nsec = 1000000};
    char key[HVD_DEVICE_KEY_MAX] = {0};
    struct hvd_err err = {0};
    hvd_status_t st = ops->make_key(s->port, key, &err);

    if (st == HVD_OK)
        st = ops->connect(s->port, &set, key, &err);
    while (st == HVD_OK && (st = ops->connected(s->port, 0, &err)) == HVD_INPROGRESS) {
        (void)nanosleep(&pause, NULL);
        st = HVD_OK;
    }
    if (st != HVD_OK)
        fail(s, "connect", &err);
}

static char *block(void)
{
    char *memory = hvd_malloc(BLOCK_BYTES, 1);

    if (!memory)
        abort();
    return memory;
}

static void check_way(struct scene *s, enum way way, int step)
{
    const struct hvd_cuda_options options = {.ordinal = 0};
    const size_t n = sizeof(operations) / sizeof(*operations);
    struct hvd_err err = {0};

    s->way = way;
    s->operation = operations;
    if (hvd_cuda_create(&options, &s->port, &err) != HVD_OK)
        fail(s, "create", &err);
    if (way == NCCL)
        connect_set(s);
    for (size_t i = 0; i < (way == STAGED ? 1 : n); i++) { /* what is staged is copied alone */
        s->operation = &operations[i];
        check_operation(s, step);
    }
    if (way == NCCL)
        s->port->ops->disconnect(s->port, 0);
    hvd_device_release(s->port);
}

int main(int argc, char **argv)
{
    static struct scene s;
    const int step = argc > 1 && strcmp(argv[1], "few") == 0 ? 5 : 1;
    const char *missing = machine_missing();

    if (missing) {
        (void)fprintf(stderr, "%s\n", missing);
        return 77;
    }
    s.input = block();
    s.output = block();
    s.seen = block();
    s.gpu_input = machine_gpu_alloc(BLOCK_BYTES);
    s.gpu_output = machine_gpu_alloc(BLOCK_BYTES);
    check_way(&s, ALONE, step);
    check_way(&s, STAGED, step);
    if (argc <= 2 && hvd_cuda_nccl_version() > 0)
        check_way(&s, NCCL, step);
    hvd_free(s.input);
    hvd_free(s.output);
    hvd_free(s.seen);
    return 0;
}
