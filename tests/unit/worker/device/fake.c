/*
 * The fake device; see fake.h. Its memory is an arena of pages that nobody may touch but while an
 * item of a stream runs. Items run when somebody looks (asks for an event), some looks late. A lock
 * serialises everything: a driver, and programs that free outputs.
 */
#include "tests/unit/support.h"

#include "tests/unit/worker/device/fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/reduce/reduce.h"

#define PAGE ((size_t)4096)
#define N_PAGES ((size_t)8192)
#define MAX_SETS 8

enum item_kind { PACK, UNPACK, COLLECTIVE, EVENT };

struct hvd_device_event {
    int n_users; /* the engine, and the stream until it is there */
    bool is_done;
    bool is_seen;
    unsigned delay;
};

struct item {
    struct item *next;
    enum item_kind kind;
    unsigned delay;
    struct hvd_device_copy copy;
    struct hvd_piece *pieces;
    struct hvd_scaling scaling;
    struct hvd_collective *move; /* the engine's */
    struct hvd_collective inner; /* on the memory of the host; moving when `input` is there */
    char *input;
    char *output;
    struct hvd_device_event *event;
};

struct hvd_device_stream {
    struct hvd_device_stream *next;
    struct item *first;
    struct item *last;
};

struct block {
    struct block *next;
    char *at;
    size_t bytes;
    bool is_host;
};

struct fake {
    struct hvd_device_port device; /* first */
    struct fake_options options;
    pthread_mutex_t mu;
    uint64_t random;
    char *arena;
    bool used[N_PAGES];
    struct block *blocks;
    struct hvd_device_stream *streams;
    int n_events;
    int n_launches;
    int n_collectives;
    int n_queries;
    int n_allocs;
    bool is_aborted;
    struct hvd_device_set device_sets[MAX_SETS];
    bool has_device_set[MAX_SETS];
};

static void die(const char *why)
{
    fprintf(stderr, "fake device: %s\n", why);
    abort();
}

static struct fake *fake_of(struct hvd_device_port *d)
{
    return (struct fake *)d;
}

static unsigned draw(struct fake *f, unsigned max)
{
    f->random = f->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return max ? (unsigned)(f->random >> 33) % (max + 1) : 0;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static bool is_ours(const struct fake *f, const void *p)
{
    return (const char *)p >= f->arena && (const char *)p < f->arena + N_PAGES * PAGE;
}

static void open_arena(struct fake *f)
{
    if (mprotect(f->arena, N_PAGES * PAGE, PROT_READ | PROT_WRITE) != 0)
        die("mprotect");
}

static void close_arena(struct fake *f)
{
    if (mprotect(f->arena, N_PAGES * PAGE, PROT_NONE) != 0)
        die("mprotect");
}

static char *find_pages(struct fake *f, size_t n)
{
    size_t run = 0;

    for (size_t i = 0; i < N_PAGES; i++) {
        run = f->used[i] ? 0 : run + 1;
        if (run == n) {
            for (size_t j = 0; j < n; j++)
                f->used[i - j] = true;
            return f->arena + (i + 1 - n) * PAGE;
        }
    }
    die("the arena is full");
    return NULL;
}

/* Holds mu. */
static void *add_block(struct fake *f, size_t bytes, bool is_host)
{
    struct block *block = calloc(1, sizeof(*block));

    if (!block)
        die("out of memory");
    block->bytes = bytes;
    block->is_host = is_host;
    block->at = is_host ? malloc(bytes ? bytes : 1) : find_pages(f, bytes / PAGE + 1);
    block->next = f->blocks;
    f->blocks = block;
    return block->at;
}

static hvd_status_t allocate(struct hvd_device_port *d, size_t bytes, bool is_host, void **out,
                             struct hvd_err *err)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    const bool fails = ++f->n_allocs == f->options.fail_alloc;
    if (!fails)
        *out = add_block(f, bytes, is_host);
    pthread_mutex_unlock(&f->mu);
    return fails
               ? HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for %zu bytes", d->name, bytes)
               : HVD_OK;
}

static hvd_status_t fake_alloc(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err)
{
    return allocate(d, bytes, false, out, err);
}

static hvd_status_t fake_alloc_host(struct hvd_device_port *d, size_t bytes, void **out,
                                    struct hvd_err *err)
{
    return allocate(d, bytes, true, out, err);
}

static bool holds(const struct block *block, const void *p)
{
    return (const char *)p >= block->at && (const char *)p < block->at + block->bytes;
}

/* Whether an item that has not run yet uses the block. */
static bool is_in_use(const struct fake *f, const struct block *block)
{
    for (const struct hvd_device_stream *s = f->streams; s; s = s->next) {
        for (const struct item *item = s->first; item; item = item->next) {
            if (item->kind <= UNPACK && holds(block, item->copy.buffer))
                return true;
            if (item->kind == COLLECTIVE &&
                (holds(block, item->move->input) || holds(block, item->move->output)))
                return true;
        }
    }
    return false;
}

static void release_block(struct hvd_device_port *d, void *memory, bool is_host)
{
    struct fake *f = fake_of(d);

    if (!memory)
        return;
    pthread_mutex_lock(&f->mu);
    struct block **at = &f->blocks;
    while (*at && (*at)->at != memory)
        at = &(*at)->next;
    struct block *block = *at;
    if (!block || block->is_host != is_host)
        die("memory is freed that is not in use, or as of the other side");
    if (is_in_use(f, block))
        die("memory is freed that a stream uses");
    *at = block->next;
    if (is_host)
        free(memory);
    for (size_t i = 0; !is_host && i < block->bytes / PAGE + 1; i++)
        f->used[(size_t)(block->at - f->arena) / PAGE + i] = false;
    free(block);
    pthread_mutex_unlock(&f->mu);
}

static void fake_free(struct hvd_device_port *d, void *memory)
{
    release_block(d, memory, false);
}

static void fake_free_host(struct hvd_device_port *d, void *memory)
{
    release_block(d, memory, true);
}

/* --- What streams do -------------------------------------------------------------------------- */

static void run_copy(struct fake *f, const struct item *item)
{
    const struct hvd_device_ops *host = hvd_host_device()->ops;
    hvd_status_t st;

    open_arena(f);
    st = item->kind == PACK ? host->pack(hvd_host_device(), NULL, &item->copy, NULL)
                            : host->unpack(hvd_host_device(), NULL, &item->copy, NULL);
    close_arena(f);
    if (st != HVD_OK)
        die("a copy failed");
}

static int64_t sum(const int64_t *counts, int n)
{
    int64_t total = 0;

    for (int i = 0; i < n; i++)
        total += counts[i];
    return total;
}

static int64_t output_elements(const struct fake *f, const struct hvd_collective *c)
{
    const struct hvd_device_set *device_set = &f->device_sets[c->set];

    if (c->op == HVD_ALLGATHER)
        return sum(c->counts, device_set->size);
    if (c->op == HVD_ALLTOALL)
        return sum(c->received, device_set->size);
    return c->op == HVD_REDUCESCATTER ? c->counts[device_set->rank] : c->count;
}

static void start_inner(struct fake *f, struct item *item)
{
    const struct hvd_collective *c = item->move;
    const size_t width = hvd_dtype_size((int)c->dtype);
    const size_t in = (size_t)c->count * width;
    const size_t out = (size_t)output_elements(f, c) * width;
    const bool reads = c->op != HVD_BROADCAST || c->root == f->device_sets[c->set].rank;

    item->input = calloc(1, in + 1);
    item->output = calloc(1, out + 1);
    if (!item->input || !item->output)
        die("out of memory");
    if (in > 0 && reads) {
        open_arena(f);
        memcpy(item->input, c->input, in);
        close_arena(f);
    }
    item->inner = *c;
    item->inner.scaling = (struct hvd_scaling){.prescale = 1, .postscale = 1, .divisor = 1};
    item->inner.input = item->input;
    item->inner.output = item->output;
    if (f->options.mover->ops->start(f->options.mover, &item->inner, NULL) != HVD_OK)
        die("the mover does not start");
}

/* Whether the collective is done. A failure leaves it undone: `query` tells. */
static bool run_collective(struct fake *f, struct item *item)
{
    const struct hvd_collective *c = item->move;

    if (f->is_aborted)
        return true;
    if (!item->input)
        start_inner(f, item);
    if (f->options.mover->ops->test(f->options.mover, &item->inner, NULL) != HVD_OK)
        return false;
    const size_t bytes = (size_t)output_elements(f, c) * hvd_dtype_size((int)c->dtype);
    open_arena(f);
    if (bytes > 0)
        memcpy(c->output, item->output, bytes);
    close_arena(f);
    return true;
}

static void drop_event(struct fake *f, struct hvd_device_event *event)
{
    if (--event->n_users > 0)
        return;
    f->n_events--;
    free(event);
}

/* Runs the first item of a stream, unless it is a collective that takes longer. */
static bool run_first(struct fake *f, struct hvd_device_stream *s)
{
    struct item *item = s->first;

    if (item->kind <= UNPACK)
        run_copy(f, item);
    else if (item->kind == COLLECTIVE && !run_collective(f, item))
        return false;
    if (item->kind == EVENT) {
        item->event->is_done = true;
        drop_event(f, item->event);
    }
    s->first = item->next;
    if (!s->first)
        s->last = NULL;
    free(item->input);
    free(item->output);
    free(item->pieces);
    free(item);
    return true;
}

/* Time passes. */
static void look(struct fake *f)
{
    for (struct hvd_device_stream *s = f->streams; s; s = s->next) {
        if (!s->first)
            continue;
        if (s->first->delay > 0)
            s->first->delay--;
        else
            run_first(f, s);
    }
}

/* --- The port --------------------------------------------------------------------------------- */

static hvd_status_t fake_query_ready(struct hvd_device_port *d, void *ready, struct hvd_err *err)
{
    const int state = atomic_load((atomic_int *)ready);

    if (state < 0) /* so many looks left */
        atomic_store((atomic_int *)ready, state == -1 ? 1 : state + 1);
    if (state == 2)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: the input's event failed", d->name);
    return state == 1 ? HVD_OK : HVD_INPROGRESS;
}

static hvd_status_t fake_create_stream(struct hvd_device_port *d, struct hvd_device_stream **out,
                                       struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    struct hvd_device_stream *s = calloc(1, sizeof(*s));

    (void)err;
    if (!s)
        die("out of memory");
    pthread_mutex_lock(&f->mu);
    s->next = f->streams;
    f->streams = s;
    pthread_mutex_unlock(&f->mu);
    *out = s;
    return HVD_OK;
}

static void fake_destroy_stream(struct hvd_device_port *d, struct hvd_device_stream *stream)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    while (stream->first)
        run_first(f, stream);
    struct hvd_device_stream **at = &f->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (!*at)
        die("a stream is destroyed twice");
    *at = stream->next;
    pthread_mutex_unlock(&f->mu);
    free(stream);
}

/* Takes mu; the caller puts the item on its stream, which gives mu back. */
static hvd_status_t begin_launch(struct fake *f, const char *what, struct hvd_err *err)
{
    pthread_mutex_lock(&f->mu);
    if (++f->n_launches != f->options.fail_launch)
        return HVD_OK;
    pthread_mutex_unlock(&f->mu);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: %s: launch failed", f->device.name, what);
}

static void put(struct fake *f, struct hvd_device_stream *stream, const struct item *template)
{
    struct item *item = malloc(sizeof(*item));

    if (!item)
        die("out of memory");
    *item = *template;
    if (item->copy.scaling)
        item->copy.scaling = &item->scaling;
    item->delay = draw(f, f->options.max_delay);
    if (stream->last)
        stream->last->next = item;
    else
        stream->first = item;
    stream->last = item;
    pthread_mutex_unlock(&f->mu);
}

static void check_copy(const struct fake *f, const struct hvd_device_copy *copy, bool is_pack)
{
    if (is_ours(f, copy->buffer) == copy->is_host)
        die("a buffer is not where is_host says");
    for (int i = 0; i < copy->n_pieces; i++) {
        const void *p = is_pack ? copy->pieces[i].input : copy->pieces[i].output;
        if (p && copy->pieces[i].count > 0 && !is_ours(f, p))
            die("a tensor is not in the device's memory");
    }
}

static void put_copy(struct fake *f, struct hvd_device_stream *stream, enum item_kind kind,
                     const struct hvd_device_copy *copy)
{
    struct item item = {.kind = kind, .copy = *copy};

    check_copy(f, copy, kind == PACK);
    item.pieces = calloc((size_t)copy->n_pieces + 1, sizeof(*item.pieces));
    if (!item.pieces)
        die("out of memory");
    if (copy->n_pieces > 0)
        memcpy(item.pieces, copy->pieces, (size_t)copy->n_pieces * sizeof(*item.pieces));
    item.copy.pieces = item.pieces;
    if (copy->scaling)
        item.scaling = *copy->scaling;
    put(f, stream, &item);
}

static hvd_status_t fake_pack(struct hvd_device_port *d, struct hvd_device_stream *stream,
                              const struct hvd_device_copy *copy, struct hvd_err *err)
{
    hvd_status_t st = begin_launch(fake_of(d), "pack", err);

    if (st == HVD_OK)
        put_copy(fake_of(d), stream, PACK, copy);
    return st;
}

static hvd_status_t fake_unpack(struct hvd_device_port *d, struct hvd_device_stream *stream,
                                const struct hvd_device_copy *copy, struct hvd_err *err)
{
    hvd_status_t st = begin_launch(fake_of(d), "unpack", err);

    if (st == HVD_OK)
        put_copy(fake_of(d), stream, UNPACK, copy);
    return st;
}

static hvd_status_t fake_record(struct hvd_device_port *d, struct hvd_device_stream *stream,
                                struct hvd_device_event **out, struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    struct hvd_device_event *event = calloc(1, sizeof(*event));

    (void)err;
    if (!event)
        die("out of memory");
    pthread_mutex_lock(&f->mu);
    event->n_users = 2;
    event->delay = draw(f, f->options.max_delay);
    f->n_events++;
    *out = event;
    put(f, stream, &(struct item){.kind = EVENT, .event = event});
    return HVD_OK;
}

static hvd_status_t fake_query(struct hvd_device_port *d, struct hvd_device_event *event,
                               struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    hvd_status_t st = HVD_INPROGRESS;

    pthread_mutex_lock(&f->mu);
    if (event->is_seen)
        die("an event is asked for again");
    const bool fails = f->options.fail_event > 0 && ++f->n_queries >= f->options.fail_event;
    look(f);
    if (event->is_done && event->delay > 0)
        event->delay--;
    else if (event->is_done)
        st = HVD_OK;
    event->is_seen = st == HVD_OK;
    pthread_mutex_unlock(&f->mu);
    return fails ? HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: an illegal memory access was encountered",
                            d->name)
                 : st;
}

static void fake_release(struct hvd_device_port *d, struct hvd_device_event *event)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    drop_event(f, event);
    pthread_mutex_unlock(&f->mu);
}

static hvd_status_t fake_make_key(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                                  struct hvd_err *err)
{
    (void)d;
    (void)err;
    for (int i = 0; i < HVD_DEVICE_KEY_MAX; i++)
        key[i] = (char)(i * 37 + 11);
    return HVD_OK;
}

static hvd_status_t fake_add_set(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                                 const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    struct hvd_transport *mover = f->options.mover;

    for (int i = 0; i < HVD_DEVICE_KEY_MAX; i++)
        if (key[i] != (char)(i * 37 + 11))
            die("the key is not the one that rank 0 made");
    if (device_set->set >= MAX_SETS || f->has_device_set[device_set->set])
        die("a set is made twice, or there are too many");
    f->device_sets[device_set->set] = *device_set;
    f->device_sets[device_set->set].ranks = NULL;
    f->has_device_set[device_set->set] = true;
    return device_set->set == 0 ? HVD_OK
                                : mover->ops->add_set(mover, device_set->set, device_set->ranks,
                                                      device_set->size, err);
}

static void fake_remove_set(struct hvd_device_port *d, uint32_t set)
{
    struct fake *f = fake_of(d);

    if (set >= MAX_SETS || !f->has_device_set[set])
        die("a set is removed that there is not");
    f->has_device_set[set] = false;
}

static hvd_status_t fake_start(struct hvd_device_port *d, struct hvd_device_stream *stream,
                               struct hvd_collective *c, struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    hvd_status_t st = begin_launch(f, hvd_op_name((int)c->op), err);

    if (st != HVD_OK)
        return st;
    if (c->set >= MAX_SETS || !f->has_device_set[c->set])
        die("a collective of a set that was not made");
    if (c->pieces || (c->count > 0 && c->input && !is_ours(f, c->input)) ||
        (c->output && !is_ours(f, c->output)))
        die("a collective of memory that is not the device's");
    f->n_collectives++;
    put(f, stream, &(struct item){.kind = COLLECTIVE, .move = c});
    return HVD_OK;
}

static void fake_abort(struct hvd_device_port *d)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    for (struct hvd_device_stream *s = f->streams; s; s = s->next)
        if (s->first && s->first->kind == COLLECTIVE && s->first->input && !f->is_aborted)
            f->options.mover->ops->abandon(f->options.mover, &s->first->inner);
    f->is_aborted = true;
    pthread_mutex_unlock(&f->mu);
}

/* --- For tests -------------------------------------------------------------------------------- */

#define COMMON_OPS                                                                                 \
    .alloc = fake_alloc, .free = fake_free, .alloc_host = fake_alloc_host,                         \
    .free_host = fake_free_host, .query_ready = fake_query_ready,                                  \
    .create_stream = fake_create_stream, .destroy_stream = fake_destroy_stream, .pack = fake_pack, \
    .unpack = fake_unpack, .record = fake_record, .query = fake_query, .release = fake_release,    \
    .abort = fake_abort

static const struct hvd_device_ops staged_ops = {
    COMMON_OPS,
};

static const struct hvd_device_ops moving_ops = {
    COMMON_OPS,
    .make_key = fake_make_key,
    .add_set = fake_add_set,
    .remove_set = fake_remove_set,
    .start = fake_start,
};

struct hvd_device_port *fake_create(const struct fake_options *options)
{
    struct fake *f = calloc(1, sizeof(*f));

    if (!f || pthread_mutex_init(&f->mu, NULL) != 0)
        die("out of memory");
    f->arena =
        mmap(NULL, N_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->arena == MAP_FAILED)
        die("mmap");
    f->device = (struct hvd_device_port){.ops = options->mover ? &moving_ops : &staged_ops,
                                         .name = "fake 0"};
    f->options = *options;
    f->random = options->seed * 2862933555777941757ULL + 3037000493ULL;
    return &f->device;
}

void fake_destroy(struct hvd_device_port *d)
{
    struct fake *f = fake_of(d);

    if (f->blocks)
        die("memory was not freed");
    if (f->streams)
        die("a stream was not destroyed");
    if (f->n_events > 0)
        die("an event was not released");
    munmap(f->arena, N_PAGES * PAGE);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

void *fake_put(struct hvd_device_port *d, const void *from, size_t bytes)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    void *memory = add_block(f, bytes, false); /* the program's: not counted */
    open_arena(f);
    if (bytes > 0)
        memcpy(memory, from, bytes);
    close_arena(f);
    pthread_mutex_unlock(&f->mu);
    return memory;
}

void fake_get(struct hvd_device_port *d, void *to, const void *from, size_t bytes)
{
    struct fake *f = fake_of(d);

    if (bytes > 0 && !is_ours(f, from))
        die("a result is not in the device's memory");
    pthread_mutex_lock(&f->mu);
    open_arena(f);
    if (bytes > 0)
        memcpy(to, from, bytes);
    close_arena(f);
    pthread_mutex_unlock(&f->mu);
}

void *fake_ready_create(void)
{
    atomic_int *ready = calloc(1, sizeof(*ready));

    if (!ready)
        die("out of memory");
    return ready;
}

void *fake_ready_after(int looks)
{
    atomic_int *ready = fake_ready_create();

    atomic_store(ready, -looks);
    return ready;
}

void fake_ready_fire(void *ready, bool failed)
{
    atomic_store((atomic_int *)ready, failed ? 2 : 1);
}

void fake_ready_free(void *ready)
{
    free(ready);
}

int fake_host_blocks(struct hvd_device_port *d)
{
    int n = 0;

    for (const struct block *block = fake_of(d)->blocks; block; block = block->next)
        n += block->is_host;
    return n;
}

unsigned fake_collectives(struct hvd_device_port *d)
{
    return (unsigned)fake_of(d)->n_collectives;
}
