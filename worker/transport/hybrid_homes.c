/*
 * Where ranks live: who is on the same kernel and in the same network namespace may pass memory to
 * each other over a UNIX socket without a name in the file system. Host names say nothing of it.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/hybrid_internal.h"

/* Where a rank lives. */
struct home {
    uint64_t kernel;
    uint64_t network;
    uint64_t host; /* see hvd_hybrid_options */
    uint64_t pids;
    int64_t pid;
    uint64_t wants_shm;
};

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

static struct home find_home(const struct hvd_hybrid_options *options)
{
    struct home home = {
        .kernel = hash_file("/proc/sys/kernel/random/boot_id"),
        .network = namespace_of("/proc/self/ns/net"),
        .host = options->host,
        .pids = namespace_of("/proc/self/ns/pid"),
        .pid = getpid(),
        .wants_shm = options->wants_shm,
    };

    if (home.kernel == 0 || home.network == 0)
        home.wants_shm = false;
    return home;
}

static bool is_one_home(const struct home *a, const struct home *b)
{
    return a->kernel == b->kernel && a->network == b->network && a->host == b->host;
}

/* The first rank with the same home; itself when there is none before. */
static int first_at_home(const struct home *homes, int rank)
{
    int first = rank;

    for (int before = rank - 1; before >= 0; before--)
        if (is_one_home(&homes[before], &homes[rank]))
            first = before;
    return first;
}

/* Ranks in one process, as in tests, cannot see each other's locks. */
static bool is_process(const struct home *homes, int size, int rank)
{
    for (int i = 0; i < size; i++)
        if (i != rank && homes[i].pid == homes[rank].pid && homes[i].pids == homes[rank].pids &&
            is_one_home(&homes[i], &homes[rank]))
            return false;
    return true;
}

hvd_status_t hvd_hybrid_find_homes(struct hvd_hybrid *h, int *keys, struct hvd_err *err)
{
    const struct home mine = find_home(&h->options);
    const int size = h->world.team.size;
    struct home *homes = hvd_calloc((size_t)size, sizeof(*homes));

    if (!homes)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for where the ranks are");
    hvd_status_t st = hvd_hybrid_tell(h->far, &h->world.team, &mine, sizeof(mine), homes, err);
    if (st == HVD_OK) {
        bool wants_shm = true;
        for (int rank = 0; rank < size; rank++)
            wants_shm = wants_shm && homes[rank].wants_shm;
        for (int rank = 0; rank < size; rank++)
            keys[rank] = wants_shm ? first_at_home(homes, rank) : rank;
        h->has_processes = is_process(homes, size, h->world.team.rank);
    }
    hvd_free(homes);
    return st;
}
