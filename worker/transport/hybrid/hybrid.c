/*
 * Composes transports: memory that ranks share, and a transport that reaches all ranks. The
 * locations of the ranks alone decide the route of a message or collective. So every rank chooses
 * the same route, and all messages between two ranks take one route.
 */
#include "worker/transport/hybrid/hybrid.h"

#include "base/clock.h"
#include "base/mem.h"
#include "worker/transport/hybrid/hybrid_internal.h"
#include "worker/transport/shm/shm_internal.h"

static struct hvd_hybrid *self(struct hvd_transport *t)
{
    return (struct hvd_hybrid *)t;
}

/* --- Messages --------------------------------------------------------------------------------- */

/* Whether messages between a rank and this one go through memory. */
static bool is_near(const struct hvd_hybrid *h, int rank)
{
    return h->world.near && h->world.team.domain_of[rank] == h->world.team.domain;
}

static hvd_status_t hybrid_send(struct hvd_transport *t, int to, const void *data, size_t len,
                                struct hvd_err *err)
{
    const struct hvd_hybrid *h = self(t);
    struct hvd_transport *near = h->world.near;

    if (is_near(h, to))
        return near->ops->send(near, h->world.team.local_rank_of[to], data, len, err);
    return h->far->ops->send(h->far, to, data, len, err);
}

static hvd_status_t receive_near(struct hvd_hybrid *h, struct hvd_inbound *in, struct hvd_err *err)
{
    struct hvd_transport *near = h->world.near;
    hvd_status_t st = near->ops->receive(near, in, err);

    if (st != HVD_OK && st != HVD_ERR_GONE)
        return st;
    in->from = h->world.team.local_peers[in->from];
    if (st == HVD_OK)
        return st;
    h->lost = in->from;
    return st;
}

static hvd_status_t hybrid_receive(struct hvd_transport *t, struct hvd_inbound *in,
                                   struct hvd_err *err)
{
    struct hvd_hybrid *h = self(t);
    hvd_status_t st = HVD_INPROGRESS;

    if (h->world.team.n_domains == 1)
        return receive_near(h, in, err);
    h->is_far_next = !h->is_far_next; /* alternates, so that neither transport starves the other */
    if (h->is_far_next || !h->world.near)
        st = h->far->ops->receive(h->far, in, err);
    if (st == HVD_INPROGRESS && h->world.near)
        st = receive_near(h, in, err);
    if (st == HVD_INPROGRESS && !h->is_far_next)
        st = h->far->ops->receive(h->far, in, err);
    if (st == HVD_INPROGRESS && h->watch.n > 0)
        st = hvd_hybrid_watch_look(&h->watch, hvd_clock_now_ns(), in, err);
    return st;
}

static void hybrid_flush(struct hvd_transport *t)
{
    const struct hvd_hybrid *h = self(t);

    if (h->world.near)
        hvd_shm_flush((struct hvd_shm *)h->world.near);
    if (h->world.team.n_domains > 1 && h->far->ops->flush)
        h->far->ops->flush(h->far);
}

static void hybrid_recycle(struct hvd_transport *t, struct hvd_inbound *in)
{
    const struct hvd_hybrid *h = self(t);
    struct hvd_transport *by = is_near(h, in->from) ? h->world.near : h->far;

    if (by->ops->recycle)
        by->ops->recycle(by, in);
    else
        hvd_free(in->data);
}

static const char *hybrid_host(const struct hvd_transport *t, int rank)
{
    const struct hvd_hybrid *h = (const struct hvd_hybrid *)t;

    return h->far->ops->host(h->far, rank);
}

/* Two ranks count as on one host where they share memory. */
static int hybrid_host_number(const struct hvd_transport *t, int rank)
{
    const struct hvd_hybrid *h = (const struct hvd_hybrid *)t;

    return h->world.team.domain_of[rank];
}

/* --- Collectives ------------------------------------------------------------------------------ */

/* Finds a process set; NULL when there is no such set. */
static struct hvd_hybrid_set *find_set(struct hvd_hybrid *h, uint32_t id)
{
    struct hvd_hybrid_set *set = h->sets;

    if (id == 0)
        return &h->world;
    while (set && set->team.set != id)
        set = set->next;
    return set;
}

/* Whether the collective goes through leaders. */
static bool is_for_hosts(const struct hvd_hybrid_set *set, const struct hvd_collective *c)
{
    return set->hosts && hvd_hosts_moves(c->op);
}

/* The transport of collectives that do not go through leaders. */
static struct hvd_transport *mover_of(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    return set->team.n_domains == 1 && set->near ? set->near : h->far;
}

/* Whether the collective moves over `far`, which wakes no sleeper. */
static bool is_far(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set,
                   const struct hvd_collective *c)
{
    return is_for_hosts(set, c) || mover_of(h, set) == h->far;
}

static hvd_status_t hybrid_start(struct hvd_transport *t, struct hvd_collective *c,
                                 struct hvd_err *err)
{
    struct hvd_hybrid *h = self(t);
    const struct hvd_hybrid_set *set = find_set(h, c->set);

    if (!set)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "no process set %u", c->set);
    struct hvd_transport *mover = mover_of(h, set);
    hvd_status_t st = is_for_hosts(set, c) ? hvd_hosts_start(set->hosts, c, err)
                                           : mover->ops->start(mover, c, err);
    h->n_far += st == HVD_OK && is_far(h, set, c);
    return st;
}

static hvd_status_t hybrid_test(struct hvd_transport *t, struct hvd_collective *c,
                                struct hvd_err *err)
{
    struct hvd_hybrid *h = self(t);
    const struct hvd_hybrid_set *set = find_set(h, c->set);
    struct hvd_transport *mover = mover_of(h, set);
    hvd_status_t st =
        is_for_hosts(set, c) ? hvd_hosts_test(set->hosts, c, err) : mover->ops->test(mover, c, err);

    h->n_far -= st == HVD_OK && is_far(h, set, c);
    if (st == HVD_INPROGRESS)
        hybrid_flush(t); /* sends messages even if the caller does not receive */
    if (st != HVD_INPROGRESS || h->lost < 0 || !is_for_hosts(set, c))
        return st;
    return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0,
                    "rank %d is lost: its process ended during the job", h->lost);
}

static void hybrid_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct hvd_hybrid *h = self(t);
    const struct hvd_hybrid_set *set = find_set(h, c->set);
    struct hvd_transport *mover = mover_of(h, set);

    if (is_for_hosts(set, c))
        hvd_hosts_abandon(set->hosts, c);
    else
        mover->ops->abandon(mover, c);
    h->n_far -= is_far(h, set, c);
}

static int hybrid_awaits(struct hvd_transport *t, const struct hvd_collective *c, int *ranks,
                         int room)
{
    struct hvd_hybrid *h = self(t);
    const struct hvd_hybrid_set *set = find_set(h, c->set);
    struct hvd_transport *mover = mover_of(h, set);

    if (is_for_hosts(set, c))
        return hvd_hosts_awaits(set->hosts, ranks, room);
    return mover->ops->awaits ? mover->ops->awaits(mover, c, ranks, room) : 0;
}

static uint64_t hybrid_moved(struct hvd_transport *t, const struct hvd_collective *c)
{
    struct hvd_hybrid *h = self(t);
    const struct hvd_hybrid_set *set = find_set(h, c->set);
    struct hvd_transport *mover = mover_of(h, set);

    if (is_for_hosts(set, c))
        return hvd_hosts_moved(set->hosts);
    return mover->ops->moved ? mover->ops->moved(mover, c) : 0;
}

/* --- Sleep ------------------------------------------------------------------------------------ */

static uint32_t hybrid_listen(struct hvd_transport *t)
{
    struct hvd_transport *near = self(t)->world.near;

    return near->ops->listen(near);
}

static bool has_news(const struct hvd_hybrid_set *set)
{
    return (set->hosts && hvd_hosts_has_news(set->hosts)) ||
           (set->near && hvd_shm_has_news(set->near));
}

static void hybrid_sleep(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns)
{
    const struct hvd_hybrid *h = self(t);
    struct hvd_transport *near = h->world.near;
    bool has = has_news(&h->world);

    for (const struct hvd_hybrid_set *set = h->sets; set && !has; set = set->next)
        has = has_news(set);
    near->ops->sleep(near, ticket, has ? 0 : timeout_ns);
}

static void hybrid_wake(struct hvd_transport *t)
{
    struct hvd_transport *near = self(t)->world.near;

    near->ops->wake(near);
}

/* Collectives through leaders poll no longer than a call of MPI takes. */
static bool hybrid_blocks_peer(const struct hvd_transport *t)
{
    const struct hvd_hybrid *h = (const struct hvd_hybrid *)t;
    bool blocks = h->world.near && hvd_shm_blocks_peer(h->world.near);

    for (const struct hvd_hybrid_set *set = h->sets; set && !blocks; set = set->next)
        blocks = set->near && hvd_shm_blocks_peer(set->near);
    return blocks;
}

/* MPI wakes no sleeper: where there are other domains, one of their messages may come at any
 * time. */
static bool hybrid_wakes(const struct hvd_transport *t)
{
    const struct hvd_hybrid *h = (const struct hvd_hybrid *)t;

    return h->world.team.n_domains == 1 && h->n_far == 0;
}

/* --- Process sets ----------------------------------------------------------------------------- */

/* Makes the part of a set with several domains that moves collectives between them. */
static hvd_status_t make_hosts(struct hvd_hybrid *h, struct hvd_hybrid_set *set,
                               struct hvd_err *err)
{
    struct hvd_team *team = &set->team;
    const uint32_t peers_set = hvd_hybrid_peers_set(team->set, team->local_rank);
    const size_t n = (size_t)(team->n_local > team->n_domains ? team->n_local : team->n_domains);
    int *ranks = hvd_malloc(n, sizeof(int));
    hvd_status_t st = HVD_OK;

    if (!ranks)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for collectives between hosts");
    if (team->local_rank < team->n_leaders) {
        hvd_team_peers(team, team->local_rank, ranks);
        st = h->far->ops->add_set(h->far, peers_set, ranks, team->n_domains, err);
        set->has_peers = st == HVD_OK;
    }
    for (int local_rank = 0; local_rank < team->n_local; local_rank++)
        ranks[local_rank] = h->world.team.local_rank_of[team->ranks[team->local_peers[local_rank]]];
    const struct hvd_hosts_options options = {
        .shape = h->options.hosts,
        .team = team,
        .far = h->far,
        .peers_set = peers_set,
        .doorbell = team->n_local > 1 ? h->world.near : NULL,
        .doorbell_ranks = ranks,
        .segment = hvd_hybrid_hosts_area(h, set),
    };
    if (st == HVD_OK)
        st = hvd_hosts_create(&options, &set->hosts, err);
    hvd_free(ranks);
    return st;
}

/* Sets up all of a set but its team. keys: see hvd_hybrid_share. */
static hvd_status_t set_up(struct hvd_hybrid *h, struct hvd_hybrid_set *set, const int *keys,
                           struct hvd_err *why, struct hvd_err *err)
{
    hvd_status_t st = hvd_hybrid_share(h, set, keys, why, err);

    if (st == HVD_OK && set->segment && set->team.n_domains > 1)
        st = make_hosts(h, set, err);
    return st;
}

/* Frees a set. is_quiet: nothing writes to its memory any more. Otherwise the memory stays, and so
 * does all that describes it. */
static void tear_down(struct hvd_hybrid *h, struct hvd_hybrid_set *set, bool clean, bool is_quiet)
{
    if (set->has_peers && clean)
        h->far->ops->remove_set(h->far, hvd_hybrid_peers_set(set->team.set, set->team.local_rank));
    if (is_quiet)
        hvd_hosts_destroy(set->hosts);
    if (is_quiet || !set->hosts)
        hvd_hybrid_unshare(set, clean);
    if (is_quiet)
        hvd_team_fini(&set->team);
}

static hvd_status_t hybrid_add_set(struct hvd_transport *t, uint32_t id, const int *ranks,
                                   int n_ranks, struct hvd_err *err)
{
    struct hvd_hybrid *h = self(t);
    hvd_status_t st = h->far->ops->add_set(h->far, id, ranks, n_ranks, err);

    if (st != HVD_OK)
        return st;
    struct hvd_hybrid_set *set = hvd_calloc(1, sizeof(*set));
    int *keys = hvd_malloc((size_t)n_ranks, sizeof(int));
    if (!set || !keys)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for process set %u", id);
    else
        st = hvd_team_init(&set->team, id, ranks, n_ranks, h->base.topology.rank, err);
    if (st == HVD_OK) {
        for (int i = 0; i < n_ranks; i++)
            keys[i] = h->world.team.domain_of[ranks[i]];
        st = set_up(h, set, keys, NULL, err);
    }
    hvd_free(keys);
    if (st == HVD_OK) {
        set->next = h->sets;
        h->sets = set;
        return HVD_OK;
    }
    if (set)
        tear_down(h, set, false, true);
    hvd_free(set);
    return st;
}

static bool hybrid_adds_aside(const struct hvd_transport *t)
{
    const struct hvd_transport *far = ((const struct hvd_hybrid *)t)->far;

    return far->ops->adds_aside && far->ops->adds_aside(far);
}

static void hybrid_remove_set(struct hvd_transport *t, uint32_t id)
{
    struct hvd_hybrid *h = self(t);

    for (struct hvd_hybrid_set **at = &h->sets; *at; at = &(*at)->next) {
        struct hvd_hybrid_set *set = *at;
        if (set->team.set != id)
            continue;
        *at = set->next;
        tear_down(h, set, true, true);
        hvd_free(set);
        break;
    }
    h->far->ops->remove_set(h->far, id);
}

/* --- Life ------------------------------------------------------------------------------------- */

static bool hybrid_destroy(struct hvd_transport *t, bool clean)
{
    struct hvd_hybrid *h = self(t);
    bool is_quiet = true;

    hvd_hybrid_watch_fini(&h->watch);
    if (!clean && t->is_left) { /* the thread of add_set uses everything below */
        h->far->is_left = true;
        h->far->ops->destroy(h->far, false);
        return false;
    }
    while (clean && h->sets) {
        struct hvd_hybrid_set *next = h->sets->next;
        tear_down(h, h->sets, true, true);
        hvd_free(h->sets);
        h->sets = next;
    }
    if (clean)
        tear_down(h, &h->world, true, true);
    is_quiet = h->far->ops->destroy(h->far, clean);
    while (!clean && h->sets) {
        struct hvd_hybrid_set *next = h->sets->next;
        tear_down(h, h->sets, false, is_quiet);
        if (is_quiet)
            hvd_free(h->sets);
        h->sets = next;
    }
    if (!clean)
        tear_down(h, &h->world, false, is_quiet);
    if (is_quiet)
        hvd_free(h);
    return is_quiet;
}

#define COMMON_OPS                                                                                 \
    .send = hybrid_send, .receive = hybrid_receive, .recycle = hybrid_recycle,                     \
    .flush = hybrid_flush, .start = hybrid_start, .test = hybrid_test, .awaits = hybrid_awaits,    \
    .moved = hybrid_moved, .add_set = hybrid_add_set, .adds_aside = hybrid_adds_aside,             \
    .remove_set = hybrid_remove_set, .abandon = hybrid_abandon, .host = hybrid_host,               \
    .destroy = hybrid_destroy
#define SHARING_OPS COMMON_OPS, .name = "shm+mpi", .host_number = hybrid_host_number

static const struct hvd_transport_ops hybrid_ops = {
    SHARING_OPS,         .listen = hybrid_listen, .sleep = hybrid_sleep,
    .wake = hybrid_wake, .wakes = hybrid_wakes,   .blocks_peer = hybrid_blocks_peer,
};

/* For a rank that shares memory with no other, in a job where others do. */
static const struct hvd_transport_ops lone_ops = {SHARING_OPS};

/* For a rank that watches others of its host, in a job where no two share memory. */
static const struct hvd_transport_ops watch_ops = {COMMON_OPS, .name = "mpi"};

/* Sets up set 0: finds the domains, then shares memory within each. */
static hvd_status_t join(struct hvd_hybrid *h, struct hvd_err *why, struct hvd_err *err)
{
    const int size = h->far->topology.size;
    int *ranks = hvd_malloc((size_t)size, sizeof(int));
    hvd_status_t st = HVD_OK;

    if (!ranks)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    for (int rank = 0; rank < size; rank++)
        ranks[rank] = rank;
    st = hvd_team_init(&h->world.team, 0, ranks, size, h->far->topology.rank, err);
    if (st == HVD_OK)
        st = hvd_hybrid_domains_find(h, ranks, err);
    if (st == HVD_OK)
        st = set_up(h, &h->world, ranks, why, err);
    if (st == HVD_OK && !h->world.near)
        hvd_hybrid_watch_open(&h->watch);
    else
        hvd_hybrid_watch_fini(&h->watch);
    hvd_free(ranks);
    return st;
}

static const char *own_host(const struct hvd_hybrid *h)
{
    const char *host = h->far->ops->host(h->far, h->world.team.rank);

    return host ? host : "unknown";
}

static void log_choice(const struct hvd_hybrid *h, const struct hvd_hybrid_options *options,
                       const struct hvd_err *why)
{
    const struct hvd_team *team = &h->world.team;

    if (why->status != HVD_OK)
        hvd_log(options->log, HVD_LOG_WARN, "transport", "rank %d on host %s shares no memory: %s",
                team->rank, own_host(h), why->msg);
    else if (h->world.segment)
        hvd_log(options->log, HVD_LOG_INFO, "transport",
                "%s: %d ranks in %d groups that share memory, rank %d with %d others; %d ranks of "
                "each group speak to the other groups",
                h->base.ops->name, team->size, team->n_domains, team->rank, team->n_local - 1,
                team->n_domains > 1 ? team->n_leaders : 0);
    else if (h->watch.n > 0)
        hvd_log(options->log, HVD_LOG_INFO, "transport",
                "mpi: no two ranks share memory, and rank %d watches %d others of its host",
                team->rank, h->watch.n);
}

/* Warns where MPI expects more shared memory than there is: it divides ranks by their launcher, and
 * that cannot change once MPI runs. */
static void warn_of_mpi(const struct hvd_hybrid *h, const struct hvd_hybrid_options *options)
{
    const int local_size = h->base.topology.local_size;

    if (options->wants_shm && h->world.team.n_local < local_size)
        hvd_log(options->log, HVD_LOG_WARN, "transport",
                "rank %d on host %s shares memory with %d of the %d other ranks that MPI takes to "
                "be on its "
                "host: should MPI's own shared memory fail between them, turn it off with "
                "OMPI_MCA_btl=^vader (Open MPI 5: ^sm)",
                h->world.team.rank, own_host(h), h->world.team.n_local - 1, local_size - 1);
}

hvd_status_t hvd_hybrid_create(struct hvd_transport *far, const struct hvd_hybrid_options *options,
                               struct hvd_transport **out, struct hvd_err *err)
{
    struct hvd_hybrid *h = hvd_calloc(1, sizeof(*h));
    struct hvd_err why = {0};
    hvd_status_t st;

    if (!h) {
        far->ops->destroy(far, false);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    }
    *h = (struct hvd_hybrid){
        .base = {.topology = far->topology}, .far = far, .options = *options, .lost = -1};
    st = join(h, &why, err);
    h->base.ops = h->world.near ? &hybrid_ops : h->world.segment ? &lone_ops : &watch_ops;
    if (st == HVD_OK) {
        log_choice(h, options, &why);
        warn_of_mpi(h, options);
    }
    h->options.log = NULL;
    if (st == HVD_OK && (h->world.segment || h->watch.n > 0)) {
        *out = &h->base;
        return HVD_OK;
    }
    hvd_hybrid_watch_fini(&h->watch);
    tear_down(h, &h->world, false, true);
    hvd_free(h);
    if (st == HVD_OK)
        *out = far;
    else
        far->ops->destroy(far, false);
    return st;
}
