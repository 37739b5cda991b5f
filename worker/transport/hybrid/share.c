/*
 * Gives the ranks of a domain shared memory. The first rank of each domain offers memory, the
 * others take it; then all ranks learn which of them succeeded. Both steps are allgathers, so every
 * rank decides the same. If one rank of a domain did not get the memory, each of its ranks becomes
 * a domain of its own.
 *
 * The memory begins with a segment of shm.h if the domain has to pass messages, or is the whole
 * set. A segment of hosts.h follows if there are other domains.
 */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/hybrid/hybrid_internal.h"
#include "worker/transport/shm/segment.h"

#define TIMEOUT_MS 10000
#define PAGE ((size_t)4096)
#define RING_MIN ((size_t)128)

hvd_status_t hvd_hybrid_allgather(struct hvd_transport *far, const struct hvd_team *team,
                                  const void *mine, size_t len, void *all, struct hvd_err *err)
{
    int64_t *counts = hvd_malloc((size_t)team->size, sizeof(int64_t));
    hvd_status_t st;

    if (!counts)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    for (int i = 0; i < team->size; i++)
        counts[i] = (int64_t)len;
    struct hvd_collective c = {.op = HVD_ALLGATHER,
                               .dtype = HVD_UINT8,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .set = team->set,
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

/* --- Layout ----------------------------------------------------------------------------------- */

/* Only set 0 passes messages, and only among several ranks. Another set needs a segment of shm.h
 * for its collectives, if it is a single domain. */
static bool needs_near(const struct hvd_hybrid_set *set)
{
    return set->team.n_local > 1 && (set->team.set == 0 || set->team.n_domains == 1);
}

static struct hvd_shm_shape near_shape(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    struct hvd_shm_shape shape = h->options.shape;

    shape.n_ranks = set->team.n_local;
    if (set->team.set != 0)
        shape.ring_bytes = RING_MIN; /* set 0 passes its messages */
    if (set->team.n_domains > 1)     /* its collectives, too, go another way */
        shape.stage_bytes = (size_t)set->team.n_local * RING_MIN;
    return shape;
}

static size_t near_bytes(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    const struct hvd_shm_shape shape = near_shape(h, set);

    return needs_near(set) ? (hvd_shm_size(&shape) + PAGE - 1) / PAGE * PAGE : 0;
}

static size_t segment_bytes(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    size_t bytes = near_bytes(h, set);

    if (set->team.n_domains > 1)
        bytes += hvd_hosts_size(&h->options.hosts, set->team.n_local, set->team.size);
    return bytes;
}

void *hvd_hybrid_hosts_area(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    return (char *)set->segment + near_bytes(h, set);
}

/* --- A domain's memory ------------------------------------------------------------------------ */

/* For each local peer, by local rank: its rank in set 0's domain, and in the second half its rank
 * in the job. The caller frees it. NULL: out of memory. */
static int *find_numbers(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set)
{
    const int n = set->team.n_local;
    int *numbers = hvd_malloc((size_t)n * 2, sizeof(int));

    for (int local_rank = 0; numbers && local_rank < n; local_rank++) {
        numbers[n + local_rank] = set->team.ranks[set->team.local_peers[local_rank]];
        numbers[local_rank] = h->world.team.local_rank_of[numbers[n + local_rank]];
    }
    return numbers;
}

/* Attaches to the part of shm.h. Takes ownership of fd. */
static hvd_status_t attach_near(const struct hvd_hybrid *h, struct hvd_hybrid_set *set, int fd,
                                struct hvd_err *err)
{
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    const struct hvd_team *team = &set->team;
    int *numbers = find_numbers(h, set);
    const struct hvd_shm_options options = {
        .shape = near_shape(h, set),
        .topology = {.rank = team->local_rank,
                     .size = team->n_local,
                     .local_rank = team->local_rank,
                     .local_size = team->n_local},
        .segment = set->segment,
        .fd = h->has_processes ? fd : -1,
        .is_crowded = n_processors > 0 && h->world.team.n_local > n_processors,
        .doorbell = set == &h->world ? NULL : h->world.near,
        .doorbell_ranks = numbers,
        .names = numbers ? numbers + team->n_local : NULL,
    };
    hvd_status_t st = HVD_OK;

    if (!h->has_processes || !numbers)
        close(fd);
    if (!numbers)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for setting up shared memory");
    else
        st = hvd_shm_create(&options, &set->near, err);
    hvd_free(numbers);
    return st;
}

/* Maps the memory and attaches to it. Takes ownership of fd. */
static hvd_status_t attach(const struct hvd_hybrid *h, struct hvd_hybrid_set *set, int fd,
                           struct hvd_err *err)
{
    hvd_status_t st = hvd_shm_map(fd, set->segment_bytes, &set->segment, err);

    if (st == HVD_OK && needs_near(set))
        return attach_near(h, set, fd, err);
    close(fd);
    return st;
}

/* Passes the memory from the first local peer to the others. `offers`: of all ranks. */
static hvd_status_t exchange(const struct hvd_hybrid *h, struct hvd_hybrid_set *set,
                             struct hvd_shm_offer *mine, const struct hvd_shm_offer *offers,
                             struct hvd_err *err)
{
    const int timeout_ms = h->options.timeout_ms > 0 ? h->options.timeout_ms : TIMEOUT_MS;
    const struct hvd_shm_offer *offer = &offers[set->team.local_peers[0]];
    int fd = -1;
    hvd_status_t st;

    if (offer->name_len == 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "rank %d could not offer memory",
                        set->team.ranks[set->team.local_peers[0]]);
    if (set->team.local_rank == 0) {
        st = hvd_shm_offer_serve(mine, set->team.n_local - 1, timeout_ms, err);
        fd = mine->fd;
        if (st == HVD_OK)
            mine->fd = -1;
    } else {
        st = hvd_shm_offer_take(offer, set->segment_bytes, timeout_ms, &fd, err);
    }
    return st == HVD_OK ? attach(h, set, fd, err) : st;
}

void hvd_hybrid_unshare(struct hvd_hybrid_set *set, bool clean)
{
    if (set->near)
        set->near->ops->destroy(set->near, clean);
    if (set->segment)
        munmap(set->segment, set->segment_bytes);
    set->near = NULL;
    set->segment = NULL;
}

/* --- All domains ------------------------------------------------------------------------------ */

/* Splits the domains in which a rank failed to share; whether any two ranks still share memory. */
static bool regroup(struct hvd_team *team, const char *is_good, int *keys)
{
    const int size = team->size;
    bool shares = false;

    for (int rank = 0; rank < size; rank++)
        keys[rank] = team->domain_of[rank] + size;
    for (int rank = 0; rank < size; rank++)
        for (int local_peer = 0; !is_good[rank] && local_peer < size; local_peer++)
            if (team->domain_of[local_peer] == team->domain_of[rank])
                keys[local_peer] = local_peer;
    hvd_team_divide(team, keys);
    for (int domain = 0; domain < team->n_domains; domain++)
        shares = shares || team->domain_sizes[domain] > 1;
    return shares;
}

/* Maps private memory for a rank that is alone in its domain but not in the set. */
static hvd_status_t map_alone(const struct hvd_hybrid *h, struct hvd_hybrid_set *set,
                              struct hvd_err *err)
{
    set->segment_bytes = segment_bytes(h, set);
    set->segment =
        mmap(NULL, set->segment_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (set->segment != MAP_FAILED)
        return HVD_OK;
    set->segment = NULL;
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for collectives between hosts");
}

/* Tries to share memory with the local peers, and exchanges the outcome with all ranks. */
static hvd_status_t try(struct hvd_hybrid *h, struct hvd_hybrid_set *set, void *all,
                        struct hvd_err *why, struct hvd_err *err)
{
    struct hvd_shm_offer offer = {.fd = -1, .listener = -1};
    hvd_status_t shared = HVD_OK;

    set->segment_bytes = segment_bytes(h, set);
    if (set->team.local_rank == 0 && set->team.n_local > 1)
        shared = hvd_shm_offer_init(&offer, set->segment_bytes, why);
    if (shared != HVD_OK)
        offer.name_len = 0;
    hvd_status_t st = hvd_hybrid_allgather(h->far, &set->team, &offer, sizeof(offer), all, err);
    if (st == HVD_OK && shared == HVD_OK && set->team.n_local > 1)
        shared = exchange(h, set, &offer, all, why);
    hvd_shm_offer_fini(&offer);
    const char is_good = shared == HVD_OK;
    return st == HVD_OK ? hvd_hybrid_allgather(h->far, &set->team, &is_good, 1, all, err) : st;
}

hvd_status_t hvd_hybrid_share(struct hvd_hybrid *h, struct hvd_hybrid_set *set, const int *keys,
                              struct hvd_err *why, struct hvd_err *err)
{
    const size_t n = (size_t)set->team.size;

    hvd_team_divide(&set->team, keys);
    if (set->team.n_domains == set->team.size)
        return HVD_OK;
    int *new_keys = hvd_malloc(n, sizeof(int));
    void *all = hvd_calloc(n, sizeof(struct hvd_shm_offer));
    hvd_status_t st = HVD_ERR_NOMEM;
    if (new_keys && all)
        st = try(h, set, all, why, err);
    else
        hvd_err_set(err, st, 0, "out of memory for setting up shared memory");
    if (st == HVD_OK) {
        const int n_local = set->team.n_local;
        const bool shares = regroup(&set->team, all, new_keys);
        if (set->team.n_local < n_local) {
            hvd_hybrid_unshare(set, true);
            hvd_err_set(why, HVD_ERR_UNAVAILABLE, 0, "another rank could not share the memory");
        }
        if (shares && !set->segment)
            st = map_alone(h, set, err);
    }
    hvd_free(new_keys);
    hvd_free(all);
    return st;
}
