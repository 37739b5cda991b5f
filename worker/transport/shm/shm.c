/*
 * The life of a rank in a shared segment: the layout, attaching and leaving. The port's functions
 * are in rounds.c (collectives), ring.c (messages) and sleep.c. One thread at a time calls all of
 * them, except wake.
 */
#include "worker/transport/shm/shm.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/shm/shm_internal.h"

#define STAGE_DEFAULT ((size_t)128 << 10)
#define RING_TOTAL ((size_t)256 << 10) /* all rings that end at a rank, together */
#define RING_MIN ((size_t)4 << 10)
#define SPINS 512
#define FAREWELL_NS 5000000000

static size_t aligned(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static struct hvd_shm_shape with_defaults(const struct hvd_shm_shape *shape)
{
    struct hvd_shm_shape full = *shape;
    const size_t n = shape->n_ranks > 0 ? (size_t)shape->n_ranks : 1;

    if (full.stage_bytes == 0)
        full.stage_bytes = STAGE_DEFAULT > n * HVD_SHM_PAGE ? STAGE_DEFAULT : n * HVD_SHM_PAGE;
    if (full.small_bytes == 0)
        full.small_bytes = HVD_SHM_SMALL_MAX;
    if (full.ring_bytes == 0)
        for (full.ring_bytes = RING_TOTAL / 2;
             full.ring_bytes > RING_MIN && full.ring_bytes * n > RING_TOTAL;)
            full.ring_bytes /= 2;
    return full;
}

/* The offsets of the areas; the last one is the size of the segment. */
struct layout {
    size_t cpu_locations;
    size_t cells;
    size_t rings;
    size_t stages;
    size_t end;
};

static struct layout lay_out(const struct hvd_shm_shape *shape)
{
    const size_t n = (size_t)shape->n_ranks;
    struct layout at = {.cpu_locations = n * sizeof(struct hvd_shm_wake_flag)};

    at.cells = aligned(at.cpu_locations + n * sizeof(struct hvd_cpu_location), HVD_SHM_LINE);
    at.rings = at.cells + n * 2 * sizeof(struct hvd_shm_cell);
    at.stages =
        aligned(at.rings + n * n * (sizeof(struct hvd_shm_ring) + shape->ring_bytes), HVD_SHM_PAGE);
    at.end = at.stages + n * 2 * (shape->stage_bytes + HVD_SHM_PAGE);
    return at;
}

/* Checks, among others, that a stage holds a line of every rank's part, and the counts of an
 * alltoall. */
static bool is_legal(const struct hvd_shm_shape *shape)
{
    return shape->n_ranks >= 1 && shape->small_bytes <= HVD_SHM_SMALL_MAX &&
           shape->stage_bytes >= (size_t)shape->n_ranks * HVD_SHM_LINE &&
           shape->stage_bytes % HVD_SHM_LINE == 0 && shape->ring_bytes >= HVD_SHM_LINE &&
           (shape->ring_bytes & (shape->ring_bytes - 1)) == 0;
}

size_t hvd_shm_size(const struct hvd_shm_shape *shape)
{
    const struct hvd_shm_shape full = with_defaults(shape);

    return is_legal(&full) ? lay_out(&full).end : 0;
}

static const char *shm_host(const struct hvd_transport *t, int rank)
{
    (void)t;
    (void)rank;
    return NULL;
}

const struct hvd_shm_counts *hvd_shm_counts(const struct hvd_transport *t)
{
    return &((const struct hvd_shm *)t)->counts;
}

static void free_shm(struct hvd_shm *s)
{
    if (s->owns_mapping)
        munmap(s->segment, lay_out(&s->shape).end);
    if (s->fd >= 0)
        close(s->fd);
    hvd_shm_moves_fini(s);
    hvd_shm_letters_fini(s);
    hvd_free(s->letters);
    hvd_free(s->arrivals);
    hvd_free(s->is_lost);
    hvd_free(s->is_told);
    hvd_free(s->names);
    hvd_free(s->scratch);
    hvd_free(s->sources);
    hvd_free(s->doorbells);
    hvd_free(s->order);
    hvd_free(s);
}

/* Sends the messages that still wait here, before this rank leaves; the others do receive them. */
static void say_farewell(struct hvd_shm *s)
{
    struct timespec now;
    int64_t give_up_s = 0;

    while (s->n_letters > 0 && s->lost < 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (give_up_s == 0)
            give_up_s = now.tv_sec + FAREWELL_NS / 1000000000;
        if (now.tv_sec > give_up_s)
            return;
        hvd_shm_flush(s);
        hvd_shm_check_alive(s);
        sched_yield();
    }
}

static bool shm_destroy(struct hvd_transport *t, bool clean)
{
    struct hvd_shm *s = (struct hvd_shm *)t;

    if (clean) {
        say_farewell(s);
        atomic_store(&s->wake_flags[t->topology.rank].has_left, 1);
    }
    free_shm(s);
    return true;
}

static const struct hvd_transport_ops shm_ops = {
    .name = "shm",
    .send = hvd_shm_send,
    .receive = hvd_shm_receive,
    .recycle = hvd_shm_recycle,
    .start = hvd_shm_start,
    .test = hvd_shm_test,
    .awaits = hvd_shm_awaits,
    .moved = hvd_shm_moved,
    .abandon = hvd_shm_abandon,
    .host = shm_host,
    .destroy = shm_destroy,
    .listen = hvd_shm_listen,
    .sleep = hvd_shm_sleep,
    .wake = hvd_shm_wake,
    .blocks_peer = hvd_shm_blocks_peer,
};

/* Faults this rank's stages in, before their first use, so that they lie in memory near it. Ignores
 * failures: later faults have the same effect. */
static void populate(const struct hvd_shm *s)
{
#ifdef MADV_POPULATE_WRITE
    const size_t bytes = 2 * (s->shape.stage_bytes + HVD_SHM_PAGE);

    (void)madvise(hvd_shm_stage(s, s->base.topology.rank, 0), bytes, MADV_POPULATE_WRITE);
#else
    (void)s;
#endif
}

static void set_areas(struct hvd_shm *s, const struct hvd_shm_options *options)
{
    const struct layout at = lay_out(&s->shape);
    char *base = s->segment;

    s->wake_flags = (struct hvd_shm_wake_flag *)(void *)base;
    s->cpu_locations = (struct hvd_cpu_location *)(void *)(base + at.cpu_locations);
    s->cells = (struct hvd_shm_cell *)(void *)(base + at.cells);
    s->rings = base + at.rings;
    s->stages = base + at.stages;
    const struct hvd_shm *doorbell = (const struct hvd_shm *)options->doorbell;
    for (int rank = 0; s->names && rank < s->shape.n_ranks; rank++)
        s->names[rank] = options->names ? options->names[rank] : rank;
    for (int rank = 0; s->doorbells && rank < s->shape.n_ranks; rank++)
        s->doorbells[rank] =
            doorbell ? doorbell->doorbells[options->doorbell_ranks[rank]] : &s->wake_flags[rank];
}

/* Publishes this rank's location to the others. */
static void publish_cpu_location(struct hvd_shm *s, const struct hvd_shm_options *options)
{
    const struct hvd_shm *doorbell = (const struct hvd_shm *)options->doorbell;
    struct hvd_cpu_location *cpu_location = &s->cpu_locations[s->base.topology.rank];

    if (options->cpu_location)
        *cpu_location = *options->cpu_location;
    else if (doorbell)
        *cpu_location = doorbell->cpu_locations[doorbell->base.topology.rank];
    else if (s->fd >= 0)
        hvd_cpu_location_read(NULL, -1, cpu_location);
    else
        hvd_cpu_location_init(cpu_location);
}

void hvd_shm_tune_once(struct hvd_shm *s)
{
    if (s->is_tuned)
        return;
    s->is_tuned = true;
    hvd_shm_tune(s->cpu_locations, s->shape.n_ranks, s->shape.stage_bytes, &s->tuning, s->order);
    if (s->tuning.is_crowded)
        s->n_spins = 0;
    for (int i = 0; i < HVD_SHM_PACES; i++)
        s->paces[i].is_past = s->tuning.is_apart;
}

hvd_status_t hvd_shm_create(const struct hvd_shm_options *options, struct hvd_transport **out,
                            struct hvd_err *err)
{
    const size_t n = (size_t)options->shape.n_ranks;
    const struct hvd_shm_shape shape = with_defaults(&options->shape);
    struct hvd_shm *s = hvd_calloc(1, sizeof(*s));

    if (!s || !is_legal(&shape)) {
        const hvd_status_t why = s ? HVD_ERR_INVALID : HVD_ERR_NOMEM;
        if (options->owns_mapping)
            munmap(options->segment, hvd_shm_size(&options->shape));
        if (options->fd >= 0)
            close(options->fd);
        hvd_free(s);
        return HVD_FAIL(err, why, 0, "shared memory for %zu ranks: %s", n, hvd_status_str(why));
    }
    *s = (struct hvd_shm){
        .base = {.ops = &shm_ops, .topology = options->topology},
        .shape = shape,
        .segment = options->segment,
        .owns_mapping = options->owns_mapping,
        .fd = options->fd,
        .n_spins = options->is_crowded ? 0 : SPINS,
        .letters = hvd_calloc(n, sizeof(struct hvd_shm_letter *)),
        .arrivals = hvd_calloc(n, sizeof(struct hvd_shm_arrival)),
        .is_lost = hvd_calloc(n, sizeof(bool)),
        .is_told = hvd_calloc(n, sizeof(bool)),
        .names = hvd_calloc(n, sizeof(int)),
        .scratch = hvd_malloc(HVD_SHM_SCRATCH, 1),
        .sources = hvd_calloc(n, sizeof(const char *)),
        .doorbells = hvd_calloc(n, sizeof(struct hvd_shm_wake_flag *)),
        .order = hvd_calloc(n, sizeof(int)),
        .lost = -1,
    };
    set_areas(s, options);
    hvd_status_t st = HVD_OK;
    if (!s->letters || !s->arrivals || !s->is_lost || !s->is_told || !s->scratch || !s->sources ||
        !s->doorbells || !s->order || !s->names)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the shared memory transport");
    if (st == HVD_OK)
        st = hvd_shm_lock(s, err);
    if (st == HVD_OK) {
        publish_cpu_location(s, options);
        populate(s);
    }
    if (st != HVD_OK) {
        free_shm(s);
        return st;
    }
    *out = &s->base;
    return HVD_OK;
}
