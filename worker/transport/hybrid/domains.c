/*
 * Which ranks can share memory. Ranks on one kernel and in one network namespace can pass memory
 * over a UNIX socket without a name in the file system. Host names do not show that.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/hybrid/hybrid_internal.h"

/* Everything that decides whether two ranks can share memory. */
struct domain {
    uint64_t kernel;
    uint64_t network;
    uint64_t host; /* see hvd_hybrid_options */
    uint64_t pids;
    int64_t pid;
    uint64_t wants_shm;
};

/* A hash of a file's text; 0 when it cannot be read. */
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

/* The number of a namespace of this process; 0 when it has none. */
static uint64_t namespace_of(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static struct domain find_domain(const struct hvd_hybrid_options *options)
{
    struct domain domain = {
        .kernel = hash_file("/proc/sys/kernel/random/boot_id"),
        .network = namespace_of("/proc/self/ns/net"),
        .host = options->host,
        .pids = namespace_of("/proc/self/ns/pid"),
        .pid = getpid(),
        .wants_shm = options->wants_shm,
    };

    if (domain.kernel == 0 || domain.network == 0)
        domain.wants_shm = false;
    return domain;
}

static bool is_one_domain(const struct domain *a, const struct domain *b)
{
    return a->kernel == b->kernel && a->network == b->network && a->host == b->host;
}

/* Whether the two ranks are processes of one host that see each other's numbers. */
static bool can_watch(const struct domain *a, const struct domain *b)
{
    return is_one_domain(a, b) && a->kernel != 0 && a->network != 0 && a->pids != 0 &&
           a->pids == b->pids && a->pid != b->pid;
}

/* The first rank of the same domain, which may be `rank` itself. */
static int first_in_domain(const struct domain *domains, int rank)
{
    int first = rank;

    for (int before = rank - 1; before >= 0; before--)
        if (is_one_domain(&domains[before], &domains[rank]))
            first = before;
    return first;
}

/* Whether the rank has a process of its own: within one process, as in tests, ranks do not see each
 * other's locks. */
static bool is_process(const struct domain *domains, int size, int rank)
{
    for (int i = 0; i < size; i++)
        if (i != rank && domains[i].pid == domains[rank].pid &&
            domains[i].pids == domains[rank].pids && is_one_domain(&domains[i], &domains[rank]))
            return false;
    return true;
}

/* Adds the processes that this rank can watch. */
static hvd_status_t add_processes(struct hvd_hybrid *h, const struct domain *domains,
                                  struct hvd_err *err)
{
    const int size = h->world.team.size;
    const hvd_status_t st = hvd_hybrid_watch_init(&h->watch, size, err);

    for (int rank = 0; st == HVD_OK && rank < size; rank++)
        if (can_watch(&domains[h->world.team.rank], &domains[rank]))
            hvd_hybrid_watch_add(&h->watch, rank, (pid_t)domains[rank].pid);
    return st;
}

hvd_status_t hvd_hybrid_domains_find(struct hvd_hybrid *h, int *keys, struct hvd_err *err)
{
    const struct domain mine = find_domain(&h->options);
    const int size = h->world.team.size;
    struct domain *domains = hvd_calloc((size_t)size, sizeof(*domains));

    if (!domains)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for where the ranks are");
    hvd_status_t st =
        hvd_hybrid_allgather(h->far, &h->world.team, &mine, sizeof(mine), domains, err);
    if (st == HVD_OK) {
        bool wants_shm = true;
        for (int rank = 0; rank < size; rank++)
            wants_shm = wants_shm && domains[rank].wants_shm;
        for (int rank = 0; rank < size; rank++)
            keys[rank] = wants_shm ? first_in_domain(domains, rank) : rank;
        h->has_processes = is_process(domains, size, h->world.team.rank);
        st = add_processes(h, domains, err);
    }
    hvd_free(domains);
    return st;
}
