/*
 * Choosing and composing transports. The ranks tell each other where they live, over `far`; when
 * that may be one place, rank 0 offers memory and the others take it; then all hear whether that
 * worked for everybody. Each of the three steps is an allgather, so every rank decides the same.
 */
#include "worker/transport/hybrid.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/shm_segment.h"

#define TIMEOUT_MS 10000

struct hybrid {
    struct hvd_transport base; /* first */
    struct hvd_transport *near;
    struct hvd_transport *far;
    int n_far; /* collectives that move where nobody wakes */
};

/* Where a rank lives. Equal `kernel` and `network`: a UNIX socket may connect the two. */
struct home {
    uint64_t kernel;
    uint64_t network;
    uint64_t pids;
    int64_t pid;
    uint64_t wants_shm;
};

/* --- The ops: everything goes to the near one, but for the names ------------------------------ */

static struct hvd_transport *near_of(struct hvd_transport *t)
{
    return ((struct hybrid *)t)->near;
}

/* Process sets but the whole job go the far way. */
static struct hvd_transport *mover_of(struct hvd_transport *t, const struct hvd_collective *c)
{
    return c->set == 0 ? near_of(t) : ((struct hybrid *)t)->far;
}

static hvd_status_t hybrid_send(struct hvd_transport *t, int to, const void *data, size_t len,
                                struct hvd_err *err)
{
    return near_of(t)->ops->send(near_of(t), to, data, len, err);
}

static hvd_status_t hybrid_receive(struct hvd_transport *t, struct hvd_inbound *in,
                                   struct hvd_err *err)
{
    return near_of(t)->ops->receive(near_of(t), in, err);
}

static void hybrid_recycle(struct hvd_transport *t, struct hvd_inbound *in)
{
    near_of(t)->ops->recycle(near_of(t), in);
}

static hvd_status_t hybrid_start(struct hvd_transport *t, struct hvd_collective *c,
                                 struct hvd_err *err)
{
    hvd_status_t st = mover_of(t, c)->ops->start(mover_of(t, c), c, err);

    ((struct hybrid *)t)->n_far += st == HVD_OK && c->set != 0;
    return st;
}

static hvd_status_t hybrid_test(struct hvd_transport *t, struct hvd_collective *c,
                                struct hvd_err *err)
{
    hvd_status_t st = mover_of(t, c)->ops->test(mover_of(t, c), c, err);

    ((struct hybrid *)t)->n_far -= st == HVD_OK && c->set != 0;
    return st;
}

static void hybrid_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    mover_of(t, c)->ops->abandon(mover_of(t, c), c);
    ((struct hybrid *)t)->n_far -= c->set != 0;
}

static hvd_status_t hybrid_add_set(struct hvd_transport *t, uint32_t set, const int *ranks,
                                   int n_ranks, struct hvd_err *err)
{
    struct hvd_transport *far = ((struct hybrid *)t)->far;

    return far->ops->add_set(far, set, ranks, n_ranks, err);
}

static void hybrid_remove_set(struct hvd_transport *t, uint32_t set)
{
    struct hvd_transport *far = ((struct hybrid *)t)->far;

    far->ops->remove_set(far, set);
}

static const char *hybrid_host(const struct hvd_transport *t, int rank)
{
    const struct hybrid *h = (const struct hybrid *)t;

    return h->far->ops->host(h->far, rank);
}

static bool hybrid_destroy(struct hvd_transport *t, bool clean)
{
    struct hybrid *h = (struct hybrid *)t;

    bool is_quiet = h->near->ops->destroy(h->near, clean);
    is_quiet = h->far->ops->destroy(h->far, clean) && is_quiet;
    hvd_free(h);
    return is_quiet;
}

static uint32_t hybrid_listen(struct hvd_transport *t)
{
    return near_of(t)->ops->listen(near_of(t));
}

static void hybrid_sleep(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns)
{
    near_of(t)->ops->sleep(near_of(t), ticket, timeout_ns);
}

static void hybrid_wake(struct hvd_transport *t)
{
    near_of(t)->ops->wake(near_of(t));
}

static bool hybrid_wakes(const struct hvd_transport *t)
{
    return ((const struct hybrid *)t)->n_far == 0;
}

static const struct hvd_transport_ops hybrid_ops = {
    .name = "shm+mpi",
    .send = hybrid_send,
    .receive = hybrid_receive,
    .recycle = hybrid_recycle,
    .start = hybrid_start,
    .test = hybrid_test,
    .add_set = hybrid_add_set,
    .remove_set = hybrid_remove_set,
    .abandon = hybrid_abandon,
    .host = hybrid_host,
    .destroy = hybrid_destroy,
    .listen = hybrid_listen,
    .sleep = hybrid_sleep,
    .wake = hybrid_wake,
    .wakes = hybrid_wakes,
};

/* --- What the ranks tell each other ----------------------------------------------------------- */

/* Every rank's `len` bytes, in the order of the ranks, in all. Waits for them. */
static hvd_status_t tell_all(struct hvd_transport *far, const void *mine, size_t len, void *all,
                             struct hvd_err *err)
{
    const int size = far->topology.size;
    int64_t *counts = hvd_malloc((size_t)size, sizeof(int64_t));
    hvd_status_t st;

    if (!counts)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    for (int i = 0; i < size; i++)
        counts[i] = (int64_t)len;
    struct hvd_collective c = {.op = HVD_ALLGATHER,
                               .dtype = HVD_UINT8,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .input = mine,
                               .output = all,
                               .count = (int64_t)len,
                               .counts = counts};
    st = far->ops->start(far, &c, err);
    if (st == HVD_OK)
        while ((st = far->ops->test(far, &c, err)) == HVD_INPROGRESS)
            sched_yield();
    hvd_free(counts);
    return st;
}

/* A number for the text of a file; 0 when it cannot be read. */
static uint64_t hash_file(const char *path)
{
    char text[64] = "";
    uint64_t hash = 14695981039346656037u;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return len > 0 ? hash : 0;
}

/* The number of a namespace of this process; 0 when there is none. */
static uint64_t namespace_of(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static struct home find_home(bool wants_shm)
{
    struct home home = {
        .kernel = hash_file("/proc/sys/kernel/random/boot_id"),
        .network = namespace_of("/proc/self/ns/net"),
        .pids = namespace_of("/proc/self/ns/pid"),
        .pid = getpid(),
        .wants_shm = wants_shm,
    };

    if (home.kernel == 0 || home.network == 0)
        home.wants_shm = false;
    return home;
}

static bool is_one_home(const struct home *homes, int size)
{
    for (int i = 0; i < size; i++)
        if (!homes[i].wants_shm || homes[i].kernel != homes[0].kernel ||
            homes[i].network != homes[0].network)
            return false;
    return true;
}

/* Ranks in one process, as in tests, cannot see each other's locks. */
static bool are_processes(const struct home *homes, int size)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < i; j++)
            if (homes[i].pid == homes[j].pid && homes[i].pids == homes[j].pids)
                return false;
    return true;
}

/* --- Setting up ------------------------------------------------------------------------------- */

/* What setting up needs and leaves. */
struct setup {
    struct hvd_transport *far;
    const struct hvd_hybrid_options *options;
    struct hvd_shm_shape shape;
    size_t size_bytes;
    int timeout_ms;
    bool has_processes;
    void *all; /* room for what all ranks tell; owned */
    struct hvd_transport *near;
};

/* Maps the memory and attaches to it. fd is taken over. */
static hvd_status_t attach(struct setup *set, int fd, struct hvd_err *err)
{
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct hvd_shm_options options = {
        .shape = set->shape,
        .topology = set->far->topology,
        .owns_mapping = true,
        .fd = set->has_processes ? fd : -1,
        .is_crowded = n_processors > 0 && set->shape.n_ranks > n_processors,
    };
    hvd_status_t st = hvd_shm_map(fd, set->size_bytes, &options.segment, err);

    if (st != HVD_OK || !set->has_processes)
        close(fd);
    return st == HVD_OK ? hvd_shm_create(&options, &set->near, err) : st;
}

/* Rank 0 makes the memory, the others fetch it. `offers` is what rank 0 told. */
static hvd_status_t share(struct setup *set, struct hvd_shm_offer *mine, struct hvd_err *err)
{
    const struct hvd_shm_offer *offers = set->all;
    int fd = -1;
    hvd_status_t st;

    if (offers[0].name_len == 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "rank 0 could not offer memory");
    if (set->far->topology.rank == 0) {
        st = hvd_shm_offer_serve(mine, set->shape.n_ranks - 1, set->timeout_ms, err);
        fd = mine->fd;
        if (st == HVD_OK)
            mine->fd = -1;
    } else {
        st = hvd_shm_offer_take(&offers[0], set->size_bytes, set->timeout_ms, &fd, err);
    }
    return st == HVD_OK ? attach(set, fd, err) : st;
}

/* The near transport into set->near, or why there is none into `why`; a failure is one of far. */
static hvd_status_t set_up(struct setup *set, struct hvd_err *why, struct hvd_err *err)
{
    struct hvd_transport *far = set->far;
    struct hvd_shm_offer offer = {.fd = -1, .listener = -1};
    const struct home home = find_home(set->options->wants_shm);
    hvd_status_t st = tell_all(far, &home, sizeof(home), set->all, err);

    if (st != HVD_OK)
        return st;
    set->has_processes = are_processes(set->all, far->topology.size);
    if (!is_one_home(set->all, far->topology.size)) {
        hvd_err_set(why, HVD_ERR_STATE, 0, "the ranks are on several hosts, or one has it off");
        return HVD_OK;
    }
    hvd_status_t shared = HVD_OK;
    if (far->topology.rank == 0)
        shared = hvd_shm_offer_init(&offer, set->size_bytes, why);
    if (shared != HVD_OK)
        offer.name_len = 0;
    st = tell_all(far, &offer, sizeof(offer), set->all, err);
    if (st == HVD_OK && shared == HVD_OK)
        shared = share(set, &offer, why);
    hvd_shm_offer_fini(&offer);
    const char is_good = shared == HVD_OK;
    if (st == HVD_OK)
        st = tell_all(far, &is_good, 1, set->all, err);
    if (st == HVD_OK && memchr(set->all, 0, (size_t)far->topology.size) && set->near) {
        set->near->ops->destroy(set->near, true);
        set->near = NULL;
        hvd_err_set(why, HVD_ERR_UNAVAILABLE, 0, "another rank could not share the memory");
    }
    return st;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

hvd_status_t hvd_hybrid_create(struct hvd_transport *far, const struct hvd_hybrid_options *options,
                               struct hvd_transport **out, struct hvd_err *err)
{
    struct hybrid *h = hvd_calloc(1, sizeof(*h));
    struct hvd_err why = {0};
    struct setup set = {
        .far = far,
        .options = options,
        .shape = options->shape,
        .timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS,
        .all = hvd_calloc((size_t)far->topology.size,
                          larger(sizeof(struct home), sizeof(struct hvd_shm_offer))),
    };
    hvd_status_t st = HVD_OK;

    set.shape.n_ranks = far->topology.size;
    set.size_bytes = hvd_shm_size(&set.shape);
    if (!h || !set.all)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    else if (far->topology.size > 1)
        st = set_up(&set, &why, err);
    hvd_free(set.all);
    if (st == HVD_OK && set.near) {
        *h = (struct hybrid){
            .base = {.ops = &hybrid_ops, .topology = far->topology}, .near = set.near, .far = far};
        *out = &h->base;
        return HVD_OK;
    }
    hvd_free(h);
    if (st != HVD_OK) {
        if (set.near)
            set.near->ops->destroy(set.near, false);
        far->ops->destroy(far, false);
        return st;
    }
    if (why.status != HVD_OK && why.status != HVD_ERR_STATE)
        hvd_log(options->log, HVD_LOG_WARN, "transport", "no shared memory: %s", why.msg);
    *out = far;
    return HVD_OK;
}
