/*
 * The fake device; see fake.h. Its memory is an arena of pages that nobody may touch but while an
 * item of a stream runs. Items run when somebody looks (asks for an event, or whether work is
 * launched), some looks late. A lock serialises everything: a driver, and threads of the program.
 */
#include "tests/unit/support.h"

#include "tests/unit/worker/device/fake.h"
#include "tests/unit/worker/device/fake_event.h"
#include "tests/unit/worker/device/fake_steps.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/reduce/reduce.h"

#define PAGE ((size_t)4096)
#define N_PAGES ((size_t)8192)
#define MAX_SETS 8

enum { N_STREAMS = MAX_SETS + 2, IN = MAX_SETS, OUT = MAX_SETS + 1 };

/* Work that was handed over, and is on a stream once it is launched. */
struct item {
    struct item *next;
    enum hvd_device_work_kind kind;
    unsigned launch_delay; /* looks until it is launched */
    unsigned delay;        /* looks until it runs */
    bool is_launched;
    bool has_begun;    /* its inputs are there */
    bool has_moved;    /* the inner collective is done */
    bool has_run;      /* it is on no stream any more */
    bool is_forgotten; /* nobody asks whether it is launched */
    bool is_tested;    /* the engine has the answer */
    bool fails;        /* at its launch */
    bool runs_alone;   /* a collective of a set of one rank */
    struct hvd_collective move;
    struct hvd_piece *pieces; /* a copy; of a collective of one tensor, that tensor */
    int n_pieces;
    int64_t *counts; /* a copy; received lies behind it */
    char *host;
    struct fake_event **ready;
    int n_ready;
    struct hvd_collective inner; /* on the memory of the host; moving when `input` is there */
    char *input;
    char *output;
    struct fake_event *event;
};

struct stream {
    struct item *first;
    struct item *last;
};

struct block {
    struct block *next;
    char *at;
    size_t bytes;
    bool is_host;
    struct fake_event *after; /* it is freed when this is done; NULL: it is in use */
};

struct fake {
    struct hvd_device_port device; /* first */
    struct fake *next;             /* of all */
    struct fake_options options;
    pthread_mutex_t mu;
    uint64_t random;
    char *arena;
    bool used[N_PAGES];
    struct block *blocks;
    struct stream streams[N_STREAMS];
    int n_events;
    int n_launches;
    int n_collectives;
    int n_queries;
    int n_allocs;
    bool is_aborted;
    bool has_failed; /* an input's event did */
    char cause[256]; /* of the abort */
    struct hvd_device_set device_sets[MAX_SETS];
    bool has_device_set[MAX_SETS];
    struct fake_place places[MAX_SETS];
    bool awaits_gather[MAX_SETS];
    struct hvd_device_progress progress[MAX_SETS];
    _Atomic int trouble; /* enum fake_trouble */
    unsigned connect_delay[MAX_SETS];
};

/* Devices work while nobody asks them: who asks one of them lets time pass on all. */
static struct {
    pthread_mutex_t mu; /* taken before that of a device */
    struct fake *first;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER};

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
    for (int i = 0; i < N_STREAMS; i++) {
        for (const struct item *item = f->streams[i].first; item; item = item->next) {
            if (holds(block, item->host))
                return true;
            for (int k = 0; k < item->n_pieces; k++)
                if (holds(block, item->pieces[k].input) || holds(block, item->pieces[k].output))
                    return true;
        }
    }
    return false;
}

static struct block **find_block(struct fake *f, const void *memory, bool is_host)
{
    struct block **at = &f->blocks;

    while (*at && (*at)->at != memory)
        at = &(*at)->next;
    if (!*at || (*at)->is_host != is_host || (*at)->after)
        die("memory is freed that is not in use, or as of the other side");
    return at;
}

/* Holds mu. */
static void release_block(struct fake *f, struct block **at)
{
    struct block *block = *at;

    if (is_in_use(f, block))
        die("memory is freed that a stream uses");
    *at = block->next;
    if (block->is_host)
        free(block->at);
    for (size_t i = 0; !block->is_host && i < block->bytes / PAGE + 1; i++)
        f->used[(size_t)(block->at - f->arena) / PAGE + i] = false;
    free(block);
}

/* --- Events ----------------------------------------------------------------------------------- */

/* Holds mu. */
static struct fake_event *create_event(struct hvd_device_port *d, unsigned n_users)
{
    struct fake_event *event = calloc(1, sizeof(*event));

    if (!event)
        die("out of memory");
    event->base.device = d;
    atomic_init(&event->base.n_users, n_users);
    fake_of(d)->n_events++;
    return event;
}

/* Holds mu. */
static void drop_event(struct fake *f, struct fake_event *event)
{
    if (event->base.device == &fake_program) {
        hvd_device_event_release(&event->base);
        return;
    }
    if (atomic_fetch_sub(&event->base.n_users, 1) > 1)
        return;
    f->n_events--;
    free(event);
}

static void fake_recycle(struct hvd_device_port *d, struct hvd_device_event *event)
{
    pthread_mutex_lock(&fake_of(d)->mu);
    fake_of(d)->n_events--;
    free(event);
    pthread_mutex_unlock(&fake_of(d)->mu);
}

/* Frees what was to be freed behind events that are done. Holds mu. */
static void free_late(struct fake *f)
{
    for (struct block **at = &f->blocks; *at;) {
        struct fake_event *after = (*at)->after;
        if (!after || !after->is_done) {
            at = &(*at)->next;
            continue;
        }
        release_block(f, at);
        drop_event(f, after);
    }
}

/* --- What streams do -------------------------------------------------------------------------- */

static void free_item(struct item *item)
{
    free(item->ready);
    free(item->input);
    free(item->output);
    free(item->pieces);
    free(item->counts);
    free(item);
}

/* Runs work on memory of this device alone, by the host as a device. */
static void run_copy(struct fake *f, const struct item *item)
{
    struct hvd_device_port *host = hvd_host_device();
    struct hvd_device_work work = {.kind = item->kind,
                                   .move = &item->move,
                                   .pieces = item->pieces,
                                   .n_pieces = item->n_pieces,
                                   .host = item->host};

    open_arena(f);
    if (host->ops->launch(host, &work, NULL) != HVD_OK)
        die("a copy failed");
    close_arena(f);
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

/* Copies the inputs out of the device, with the prescale. */
static void pack(struct fake *f, struct item *item)
{
    const struct hvd_collective *c = &item->move;
    char *to = item->input;

    open_arena(f);
    for (int i = 0; i < item->n_pieces; i++) {
        const struct hvd_piece *p = &item->pieces[i];
        if (p->input && p->count > 0)
            hvd_reduce_prescale(c->dtype, &c->scaling, to, p->input, p->count);
        to += (size_t)p->count * hvd_dtype_size((int)c->dtype);
    }
    close_arena(f);
}

/* Copies the results into the device, with the postscale. */
static void unpack(struct fake *f, const struct item *item)
{
    const struct hvd_collective *c = &item->move;
    const int64_t whole = output_elements(f, c);
    const char *from = item->output;

    if (item->kind == HVD_DEVICE_SCATTER) {
        fake_combine(&f->places[c->set], c, item->output, item->host);
        return;
    }
    open_arena(f);
    for (int i = 0; i < item->n_pieces; i++) {
        const struct hvd_piece *p = &item->pieces[i];
        const int64_t count = c->n_pieces > 0 ? p->count : whole;
        const size_t bytes = (size_t)count * hvd_dtype_size((int)c->dtype);
        if (p->output && bytes > 0) {
            memcpy(p->output, from, bytes);
            hvd_reduce_finish(c->dtype, &c->scaling, p->output, count);
        }
        from += bytes;
    }
    close_arena(f);
}

static void start_inner(struct fake *f, struct item *item)
{
    const struct hvd_collective *c = &item->move;
    const size_t width = hvd_dtype_size((int)c->dtype);
    const bool reads = c->op != HVD_BROADCAST || c->root == f->device_sets[c->set].rank;

    item->input = calloc(1, (size_t)c->count * width + 1);
    item->output = calloc(1, (size_t)output_elements(f, c) * width + 1);
    if (!item->input || !item->output)
        die("out of memory");
    if (reads)
        pack(f, item);
    item->inner = *c;
    item->inner.scaling = (struct hvd_scaling){.prescale = 1, .postscale = 1, .divisor = 1};
    item->inner.pieces = NULL;
    item->inner.n_pieces = 0;
    item->inner.input = item->input;
    item->inner.output = item->output;
    if (item->kind != HVD_DEVICE_MOVE) {
        struct fake_step_memory m = {.part = item->host,
                                     .counts = item->counts,
                                     .input = item->input,
                                     .output = item->output};
        fake_step(&f->places[c->set], item->kind, &item->inner, &m);
        item->input = m.input;
        item->output = m.output;
    }
    if (f->options.mover->ops->start(f->options.mover, &item->inner, NULL) != HVD_OK)
        die("the mover does not start");
}

/* Whether the collective is done. */
static bool run_collective(struct fake *f, struct item *item)
{
    if (item->runs_alone) {
        run_copy(f, item);
        return true;
    }
    if (f->is_aborted) {
        item->event->has_failed = true;
        return true;
    }
    if (!item->input)
        start_inner(f, item);
    if (!item->has_moved &&
        f->options.mover->ops->test(f->options.mover, &item->inner, NULL) != HVD_OK)
        return false;
    item->has_moved = true;
    if (f->trouble == FAKE_STOPPED)
        return false;
    unpack(f, item);
    return true;
}

/* Whether what the item waits for is done. An input's event that failed fails the device. */
static bool is_ready(struct fake *f, const struct item *item)
{
    for (int i = 0; i < item->n_ready; i++) {
        struct fake_event *ready = item->ready[i];
        if (ready->has_failed)
            f->has_failed = true;
        else if (!f->is_aborted && (!ready->is_done || !fake_event_shows(ready)))
            return false;
        ready->delay = 0;
    }
    return true;
}

/* Runs the first item of a stream, unless it waits. */
static bool run_first(struct fake *f, struct stream *s)
{
    struct item *item = s->first;

    if (!item->is_launched || !is_ready(f, item))
        return false;
    if (hvd_device_is_between(item->kind) && !item->has_begun)
        f->progress[item->move.set % MAX_SETS].n_begun++;
    item->has_begun = true;
    if (!hvd_device_is_between(item->kind) && !f->is_aborted)
        run_copy(f, item);
    else if (hvd_device_is_between(item->kind) && !run_collective(f, item))
        return false;
    item->event->is_done = true;
    if (hvd_device_is_between(item->kind))
        f->progress[item->move.set % MAX_SETS].n_done++;
    for (int i = 0; i < item->n_ready; i++)
        drop_event(f, item->ready[i]);
    drop_event(f, item->event);
    s->first = item->next;
    if (!s->first)
        s->last = NULL;
    item->has_run = true;
    if (item->is_tested || item->is_forgotten)
        free_item(item);
    return true;
}

static void launch_item(struct fake *f, struct item *item)
{
    if (item->is_launched || (f->trouble == FAKE_HANGS && !f->is_aborted))
        return;
    if (item->launch_delay > 0 && !f->is_aborted)
        item->launch_delay--;
    else
        item->is_launched = true;
}

/* Time passes. Work is launched in the order in which it was handed over. */
static void look(struct fake *f)
{
    for (int i = 0; i < N_STREAMS; i++) {
        struct stream *s = &f->streams[i];
        struct item *item = s->first;
        while (item && item->is_launched)
            item = item->next;
        if (item)
            launch_item(f, item);
        if (!s->first)
            continue;
        if (s->first->delay > 0 && s->first->is_launched)
            s->first->delay--;
        else
            (void)run_first(f, s);
    }
    free_late(f);
}

static void look_at_all(void)
{
    pthread_mutex_lock(&all.mu);
    for (struct fake *f = all.first; f; f = f->next) {
        pthread_mutex_lock(&f->mu);
        look(f);
        pthread_mutex_unlock(&f->mu);
    }
    pthread_mutex_unlock(&all.mu);
}

/* --- The port --------------------------------------------------------------------------------- */

static void fake_free(struct hvd_device_port *d, void *memory, struct hvd_device_event *after)
{
    struct fake *f = fake_of(d);

    if (!memory)
        return;
    pthread_mutex_lock(&f->mu);
    struct block **at = find_block(f, memory, false);
    if (after && !event_of(after)->is_done)
        (*at)->after = event_of(hvd_device_event_retain(after));
    else
        release_block(f, at);
    pthread_mutex_unlock(&f->mu);
}

static void fake_free_host(struct hvd_device_port *d, void *memory)
{
    struct fake *f = fake_of(d);

    if (!memory)
        return;
    pthread_mutex_lock(&f->mu);
    for (int i = 0; i < 1000 && is_in_use(f, *find_block(f, memory, true)); i++)
        look(f);
    release_block(f, find_block(f, memory, true));
    pthread_mutex_unlock(&f->mu);
}

/* The program's streams have no work. */
static hvd_status_t fake_mark(struct hvd_device_port *d, void *stream,
                              struct hvd_device_event **out, struct hvd_err *err)
{
    (void)d;
    (void)stream;
    (void)err;
    *out = NULL;
    return HVD_OK;
}

static hvd_status_t fake_order(struct hvd_device_port *d, struct hvd_device_event *event,
                               void *stream, struct hvd_err *err)
{
    (void)d;
    (void)event;
    (void)stream;
    (void)err;
    return HVD_OK;
}

/* Holds mu. */
static hvd_status_t look_at(struct fake *f, struct fake_event *event, struct hvd_err *err)
{
    if (f->options.fail_event > 0 && ++f->n_queries >= f->options.fail_event)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: an illegal memory access was encountered",
                        f->device.name);
    if (f->has_failed)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: the input's event failed", f->device.name);
    if (!event->is_done)
        return HVD_INPROGRESS;
    if (event->has_failed)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "%s", f->cause);
    return fake_event_shows(event) ? HVD_OK : HVD_INPROGRESS;
}

static hvd_status_t fake_query(struct hvd_device_port *d, struct hvd_device_event *event,
                               struct hvd_err *err)
{
    struct fake *f = fake_of(d);

    look_at_all();
    pthread_mutex_lock(&f->mu);
    const hvd_status_t st = look_at(f, event_of(event), err);
    pthread_mutex_unlock(&f->mu);
    return st;
}

static hvd_status_t fake_wait(struct hvd_device_port *d, struct hvd_device_event *event,
                              struct hvd_err *err)
{
    hvd_status_t st = HVD_INPROGRESS;

    while (st == HVD_INPROGRESS) {
        st = fake_query(d, event, err);
        sched_yield();
    }
    return st;
}

static void check_piece(const struct fake *f, const struct hvd_piece *piece,
                        enum hvd_device_work_kind kind)
{
    const bool reads = kind != HVD_DEVICE_UNLOAD;
    const bool writes = kind != HVD_DEVICE_LOAD;

    if (piece->count == 0)
        return;
    if ((reads && piece->input && !is_ours(f, piece->input)) ||
        (writes && piece->output && !is_ours(f, piece->output)))
        die("a tensor is not in the device's memory");
}

static void *copy_of(const void *from, size_t n, size_t width)
{
    void *copy = calloc(n + 1, width);

    if (!copy)
        die("out of memory");
    if (n > 0)
        memcpy(copy, from, n * width);
    return copy;
}

/* Copies the counts of the ranks. */
static void copy_counts(const struct fake *f, struct item *item)
{
    struct hvd_collective *c = &item->move;
    const size_t n = item->runs_alone ? 1 : (size_t)f->device_sets[c->set].size;

    item->counts = calloc(2 * n, sizeof(*item->counts));
    if (!item->counts)
        die("out of memory");
    if (c->counts)
        memcpy(item->counts, c->counts, n * sizeof(*item->counts));
    if (c->received)
        memcpy(item->counts + n, c->received, n * sizeof(*item->counts));
    c->counts = item->counts;
    c->received = item->counts + n;
}

static void copy_move(struct fake *f, struct item *item, const struct hvd_device_work *work)
{
    const struct hvd_collective *c = work->move;
    const struct hvd_piece whole = {.input = c->input, .output = c->output, .count = c->count};

    item->runs_alone = work->is_alone;
    item->host = item->kind == HVD_DEVICE_MOVE ? NULL : work->host;
    if (f->awaits_gather[c->set % MAX_SETS] != (item->kind == HVD_DEVICE_GATHER))
        die("a gather without a scatter, or other work between the two");
    f->awaits_gather[c->set % MAX_SETS] = item->kind == HVD_DEVICE_SCATTER;
    if (!item->runs_alone && (c->set >= MAX_SETS || !f->has_device_set[c->set]))
        die("a collective of a set that was not made");
    item->n_pieces = c->n_pieces ? c->n_pieces : 1;
    item->pieces = copy_of(c->n_pieces ? c->pieces : &whole, (size_t)item->n_pieces, sizeof(whole));
    copy_counts(f, item);
    if (c->n_pieces)
        item->move.pieces = item->pieces;
    f->n_collectives++;
}

static struct item *create_item(struct fake *f, const struct hvd_device_work *work)
{
    struct item *item = calloc(1, sizeof(*item));

    if (!item)
        die("out of memory");
    item->kind = work->kind;
    item->move = *work->move;
    if (item->kind != HVD_DEVICE_MOVE && is_ours(f, work->host))
        die("host memory is the device's");
    if (hvd_device_is_between(work->kind)) {
        copy_move(f, item, work);
    } else {
        item->host = work->host;
        item->n_pieces = work->n_pieces;
        item->pieces = copy_of(work->pieces, (size_t)work->n_pieces, sizeof(*item->pieces));
    }
    for (int i = 0; i < item->n_pieces; i++)
        check_piece(f, &item->pieces[i], item->kind);
    item->ready = copy_of(work->ready, (size_t)work->n_ready, sizeof(struct fake_event *));
    item->n_ready = work->n_ready;
    for (int i = 0; i < item->n_ready; i++)
        (void)hvd_device_event_retain(&item->ready[i]->base);
    item->launch_delay = draw(f, f->options.max_delay);
    item->delay = draw(f, f->options.max_delay);
    item->event = create_event(&f->device, 2); /* the stream, and who tests */
    item->event->delay = draw(f, f->options.max_delay);
    return item;
}

static hvd_status_t fake_launch(struct hvd_device_port *d, struct hvd_device_work *work,
                                struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&f->mu);
    const bool fails = ++f->n_launches == f->options.fail_launch;
    if (fails && f->n_launches % 2) {
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: launch failed", d->name);
    } else {
        struct item *item = create_item(f, work);
        struct stream *s =
            &f->streams[hvd_device_is_between(work->kind) ? work->move->set % MAX_SETS
                        : work->kind == HVD_DEVICE_LOAD   ? (uint32_t)IN
                                                          : (uint32_t)OUT];
        item->fails = fails;
        if (s->last)
            s->last->next = item;
        else
            s->first = item;
        s->last = item;
        work->_state = item;
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

/* Holds mu. */
static void forget(struct fake *f, struct item *item)
{
    item->is_forgotten = true;
    drop_event(f, item->event);
    if (item->has_run)
        free_item(item);
}

static hvd_status_t fake_test(struct hvd_device_port *d, struct hvd_device_work *work,
                              struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    struct item *item = work->_state;
    hvd_status_t st = HVD_INPROGRESS;

    look_at_all();
    pthread_mutex_lock(&f->mu);
    struct fake_event *event = item->event;
    if (item->is_launched && item->fails) {
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: launch failed", d->name);
        forget(f, item);
    } else if (item->is_launched) {
        st = HVD_OK;
        work->event = &event->base;
        item->is_tested = true;
        if (item->has_run)
            free_item(item);
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

static void fake_forget(struct hvd_device_port *d, struct hvd_device_work *work)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    forget(f, work->_state);
    pthread_mutex_unlock(&f->mu);
}

/* 16-bit integers move through the host, so that both ways mix in a set. */
static bool fake_moves(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce)
{
    (void)op;
    return dtype != HVD_INT16 && dtype != HVD_UINT16 && reduce != HVD_ADASUM;
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

static hvd_status_t fake_connect(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                                 const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err)
{
    struct fake *f = fake_of(d);
    struct hvd_transport *mover = f->options.mover;

    for (int i = 0; i < HVD_DEVICE_KEY_MAX; i++)
        if (key[i] != (char)(i * 37 + 11))
            die("the key is not the one that rank 0 made");
    if (device_set->set >= MAX_SETS || f->has_device_set[device_set->set])
        die("a set is made twice, or there are too many");
    f->places[device_set->set] = fake_place_of(device_set);
    f->device_sets[device_set->set] = *device_set;
    f->progress[device_set->set] = (struct hvd_device_progress){0};
    f->device_sets[device_set->set].ranks = NULL;
    f->has_device_set[device_set->set] = true;
    f->connect_delay[device_set->set] = draw(f, f->options.max_delay);
    return device_set->set == 0 ? HVD_OK
                                : mover->ops->add_set(mover, device_set->set, device_set->ranks,
                                                      device_set->size, err);
}

static int64_t fake_device_part(struct hvd_device_port *d, const struct hvd_collective *c)
{
    return c->op == HVD_ALLREDUCE ? fake_part(&fake_of(d)->places[c->set], c->count) : -1;
}

static hvd_status_t fake_connected(struct hvd_device_port *d, uint32_t set, struct hvd_err *err)
{
    struct fake *f = fake_of(d);

    (void)err;
    if (f->trouble == FAKE_HANGS)
        return HVD_INPROGRESS;
    if (f->connect_delay[set] == 0)
        return HVD_OK;
    f->connect_delay[set]--;
    return HVD_INPROGRESS;
}

static struct hvd_device_progress fake_progress(struct hvd_device_port *d, uint32_t set)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    const struct hvd_device_progress p = f->progress[set];
    pthread_mutex_unlock(&f->mu);
    return p;
}

static void fake_disconnect(struct hvd_device_port *d, uint32_t set)
{
    struct fake *f = fake_of(d);

    if (set >= MAX_SETS || !f->has_device_set[set])
        die("a set is removed that there is not");
    f->has_device_set[set] = false;
}

static void fake_abort(struct hvd_device_port *d, const char *cause)
{
    struct fake *f = fake_of(d);

    pthread_mutex_lock(&f->mu);
    for (int i = 0; i < N_STREAMS && !f->is_aborted; i++) {
        struct item *item = f->streams[i].first;
        if (item && hvd_device_is_between(item->kind) && item->input && !item->has_moved)
            f->options.mover->ops->abandon(f->options.mover, &item->inner);
    }
    f->is_aborted = true;
    snprintf(f->cause, sizeof(f->cause), "%s", cause);
    for (int i = 0; i < N_STREAMS; i++)
        while (f->streams[i].first)
            look(f);
    pthread_mutex_unlock(&f->mu);
}

/* --- For tests -------------------------------------------------------------------------------- */

#define COMMON_OPS                                                                                 \
    .alloc = fake_alloc, .free = fake_free, .alloc_host = fake_alloc_host,                         \
    .free_host = fake_free_host, .mark = fake_mark, .order = fake_order, .query = fake_query,      \
    .wait = fake_wait, .recycle = fake_recycle, .launch = fake_launch, .test = fake_test,          \
    .forget = fake_forget, .abort = fake_abort

static const struct hvd_device_ops staged_ops = {
    COMMON_OPS,
};

#define MOVING_OPS                                                                                 \
    COMMON_OPS, .name = "fake", .moves = fake_moves, .make_key = fake_make_key,                    \
                .connect = fake_connect, .connected = fake_connected, .progress = fake_progress,   \
                .disconnect = fake_disconnect

static const struct hvd_device_ops moving_ops = {MOVING_OPS};

static const struct hvd_device_ops stepping_ops = {MOVING_OPS, .part = fake_device_part};

struct hvd_device_port *fake_create(const struct fake_options *options)
{
    struct fake *f = calloc(1, sizeof(*f));

    if (!f || pthread_mutex_init(&f->mu, NULL) != 0)
        die("out of memory");
    f->arena =
        mmap(NULL, N_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->arena == MAP_FAILED)
        die("mmap");
    f->device = (struct hvd_device_port){.ops = !options->mover     ? &staged_ops
                                                : options->in_steps ? &stepping_ops
                                                                    : &moving_ops,
                                         .name = "fake 0"};
    f->options = *options;
    f->random = options->seed * 2862933555777941757ULL + 3037000493ULL;
    pthread_mutex_lock(&all.mu);
    f->next = all.first;
    all.first = f;
    pthread_mutex_unlock(&all.mu);
    return &f->device;
}

void fake_look(void)
{
    look_at_all();
}

void fake_break(struct hvd_device_port *d, enum fake_trouble trouble)
{
    fake_of(d)->trouble = trouble;
}

void fake_drain(struct hvd_device_port *d)
{
    struct fake *f = fake_of(d);
    bool is_busy = true;

    for (int i = 0; i < 100000 && is_busy; i++) {
        look_at_all();
        pthread_mutex_lock(&f->mu);
        is_busy = false;
        for (int k = 0; k < N_STREAMS; k++)
            is_busy = is_busy || f->streams[k].first;
        pthread_mutex_unlock(&f->mu);
    }
    if (is_busy)
        die("work does not end");
}

void fake_destroy(struct hvd_device_port *d)
{
    struct fake *f = fake_of(d);

    fake_drain(d);
    pthread_mutex_lock(&all.mu);
    struct fake **at = &all.first;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    pthread_mutex_unlock(&all.mu);
    if (f->blocks)
        die("memory was not freed");
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
