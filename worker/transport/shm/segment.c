/*
 * Passes memory from one process of a host to the others. The socket's name and the token travel
 * another way; a process that presents the token gets the descriptor. Only processes of one host
 * and one network namespace can connect: exactly those that can share memory.
 *
 * All other users of the host can connect too, because the socket's name is no secret. A connected
 * process is a guest, which is read when it has sent something. A silent guest keeps its place
 * until another one needs it; guests of other users lose theirs first.
 */
#include "worker/transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define BACKLOG 128
#define MORE_GUESTS 64 /* beyond the number of takers */
#define RETRY_MS 10    /* wait when descriptors have run out and no guest holds one */

static hvd_status_t fail(struct hvd_err *err, const char *what)
{
    const int code = errno;

    if (code == EAGAIN || code == EWOULDBLOCK)
        return HVD_FAIL(err, HVD_ERR_TIMEOUT, code, "%s: timed out", what);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, code, "%s: %s", what, strerror(code));
}

/* Limits the time of each call on the socket. */
static void limit_time(int fd, int timeout_ms)
{
    const struct timeval limit = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = timeout_ms % 1000 * 1000L};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A message of one number with room for a descriptor. Must not be moved: it points into itself. */
struct parcel {
    uint64_t proof;
    struct iovec data;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
};

static void parcel_init(struct parcel *p, uint64_t proof)
{
    *p = (struct parcel){.proof = proof,
                         .data = {.iov_base = &p->proof, .iov_len = sizeof(p->proof)}};
    p->message = (struct msghdr){.msg_iov = &p->data,
                                 .msg_iovlen = 1,
                                 .msg_control = p->control,
                                 .msg_controllen = sizeof(p->control)};
}

/* --- Offering --------------------------------------------------------------------------------- */

/* Fails where the memory would exceed `ulimit -f`: growing it would end the process by SIGXFSZ. */
static hvd_status_t check_file_size(size_t size, struct hvd_err *err)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        size <= limit.rlim_cur)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_SYSTEM, EFBIG,
                    "%zu bytes of shared memory are more than ulimit -f allows (%llu KiB)", size,
                    (unsigned long long)limit.rlim_cur / 1024);
}

static hvd_status_t make_memory(struct hvd_shm_offer *offer, size_t size, struct hvd_err *err)
{
    const hvd_status_t st = check_file_size(size, err);

    if (st != HVD_OK)
        return st;
    offer->fd = memfd_create("horovod", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (offer->fd < 0)
        return fail(err, "memfd_create");
    if (ftruncate(offer->fd, (off_t)size) != 0)
        return fail(err, "ftruncate of shared memory");
    /* The seals prevent that a process shrinks the file and makes the mappings fault. */
    if (fcntl(offer->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail(err, "sealing shared memory");
    return HVD_OK;
}

/* Makes a listening socket; the kernel chooses a free name. */
static hvd_status_t make_listener(struct hvd_shm_offer *offer, struct hvd_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address);
    const socklen_t empty = sizeof(address.sun_family);

    offer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (offer->listener < 0)
        return fail(err, "socket");
    if (bind(offer->listener, (const struct sockaddr *)&address, empty) != 0)
        return fail(err, "bind");
    if (listen(offer->listener, BACKLOG) != 0)
        return fail(err, "listen");
    if (getsockname(offer->listener, (struct sockaddr *)&address, &len) != 0)
        return fail(err, "getsockname");
    if (len - empty > sizeof(offer->name))
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "a socket name of %u bytes", (unsigned)len);
    offer->name_len = (unsigned)(len - empty);
    memcpy(offer->name, address.sun_path, offer->name_len);
    return HVD_OK;
}

hvd_status_t hvd_shm_offer_init(struct hvd_shm_offer *offer, size_t size, struct hvd_err *err)
{
    *offer = (struct hvd_shm_offer){.fd = -1, .listener = -1};
    if (getrandom(&offer->token, sizeof(offer->token), 0) != (ssize_t)sizeof(offer->token) ||
        getrandom(&offer->proof, sizeof(offer->proof), 0) != (ssize_t)sizeof(offer->proof))
        return fail(err, "getrandom");
    hvd_status_t st = make_memory(offer, size, err);
    return st == HVD_OK ? make_listener(offer, err) : st;
}

void hvd_shm_offer_fini(struct hvd_shm_offer *offer)
{
    if (offer->fd >= 0)
        close(offer->fd);
    if (offer->listener >= 0)
        close(offer->listener);
    offer->fd = -1;
    offer->listener = -1;
}

/* --- Serving ---------------------------------------------------------------------------------- */

/* A connected process that has not presented the token yet. */
struct guest {
    int fd;
    bool is_stranger; /* runs as another user */
    size_t n_read;    /* bytes of the token */
    char token[sizeof(uint64_t)];
};

/* The state of hvd_shm_offer_serve; the oldest guest comes first. */
struct service {
    const struct hvd_shm_offer *offer;
    struct guest *guests; /* owned; room for n_max */
    struct pollfd *waits; /* owned: the listener, then the guests */
    int n_max;
    int n;
    int n_takers; /* have not taken the memory yet */
};

/* Sends the descriptor with the proof. */
static bool send_descriptor(int to, const struct hvd_shm_offer *offer)
{
    struct parcel parcel;
    struct cmsghdr *head;

    parcel_init(&parcel, offer->proof);
    head = CMSG_FIRSTHDR(&parcel.message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &offer->fd, sizeof(offer->fd));
    return sendmsg(to, &parcel.message, MSG_NOSIGNAL) == (ssize_t)sizeof(parcel.proof);
}

static void dismiss(struct service *s, int at)
{
    close(s->guests[at].fd);
    s->n--;
    memmove(&s->guests[at], &s->guests[at + 1], (size_t)(s->n - at) * sizeof(s->guests[0]));
}

/* Makes room: removes the oldest guest of another user, or else the oldest of all. */
static void dismiss_oldest(struct service *s)
{
    int oldest = 0;

    for (int i = s->n - 1; i >= 0; i--)
        if (s->guests[i].is_stranger)
            oldest = i;
    if (s->n > 0)
        dismiss(s, oldest);
}

static bool is_stranger(int fd)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.uid != geteuid();
}

/* Accepts a guest. */
static void admit(struct service *s)
{
    int fd;

    if (s->n == s->n_max)
        dismiss_oldest(s);
    fd = accept4(s->offer->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (s->n == 0)
            (void)poll(NULL, 0, RETRY_MS);
        dismiss_oldest(s);
    }
    if (fd >= 0)
        s->guests[s->n++] = (struct guest){.fd = fd, .is_stranger = is_stranger(fd)};
}

/* Reads from a guest. Removes it once it has the memory, or fails to present the token. */
static void hear(struct service *s, int at)
{
    struct guest *guest = &s->guests[at];
    const ssize_t n =
        recv(guest->fd, guest->token + guest->n_read, sizeof(guest->token) - guest->n_read, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    guest->n_read += n > 0 ? (size_t)n : 0;
    if (n > 0 && guest->n_read < sizeof(guest->token))
        return;
    if (n > 0 && memcmp(guest->token, &s->offer->token, sizeof(guest->token)) == 0)
        s->n_takers -= send_descriptor(guest->fd, s->offer);
    dismiss(s, at);
}

/* Waits for the first event and handles all that are due. Returns 0 on timeout, -1 with errno. */
static int serve_step(struct service *s, int timeout_ms)
{
    s->waits[0] = (struct pollfd){.fd = s->offer->listener, .events = POLLIN};
    for (int i = 0; i < s->n; i++)
        s->waits[i + 1] = (struct pollfd){.fd = s->guests[i].fd, .events = POLLIN};

    const int n = poll(s->waits, (nfds_t)s->n + 1, timeout_ms);
    if (n <= 0)
        return n < 0 && errno == EINTR ? 1 : n;
    for (int i = s->n - 1; i >= 0 && s->n_takers > 0; i--) /* a removal moves later ones only */
        if (s->waits[i + 1].revents)
            hear(s, i);
    if (s->waits[0].revents)
        admit(s);
    return n;
}

static hvd_status_t serve(struct service *s, int timeout_ms, struct hvd_err *err)
{
    const int64_t deadline_ms = now_ms() + timeout_ms;

    while (s->n_takers > 0) {
        const int64_t left_ms = deadline_ms - now_ms();
        const int n = left_ms > 0 ? serve_step(s, (int)left_ms) : 0;
        if (n < 0)
            return fail(err, "poll");
        if (n == 0)
            return HVD_FAIL(err, HVD_ERR_TIMEOUT, 0,
                            "%d ranks of this host did not fetch the shared memory", s->n_takers);
    }
    return HVD_OK;
}

hvd_status_t hvd_shm_offer_serve(struct hvd_shm_offer *offer, int n_takers, int timeout_ms,
                                 struct hvd_err *err)
{
    struct service s = {.offer = offer, .n_takers = n_takers, .n_max = n_takers + MORE_GUESTS};
    hvd_status_t st = HVD_ERR_NOMEM;

    s.guests = hvd_malloc((size_t)s.n_max, sizeof(s.guests[0]));
    s.waits = hvd_malloc((size_t)s.n_max + 1, sizeof(s.waits[0]));
    if (s.guests && s.waits)
        st = serve(&s, timeout_ms, err);
    else
        hvd_err_set(err, st, 0, "out of memory for handing out shared memory");
    while (s.n > 0)
        dismiss(&s, s.n - 1);
    hvd_free(s.guests);
    hvd_free(s.waits);
    return st;
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Receives the descriptor together with the proof; -1 when none comes. */
static int receive_descriptor(int from, uint64_t proof)
{
    struct parcel parcel;
    int fd = -1;

    parcel_init(&parcel, 0);
    const ssize_t n = recvmsg(from, &parcel.message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    if (n < 0)
        return -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&parcel.message);
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    if (fd >= 0 && n == (ssize_t)sizeof(parcel.proof) && parcel.proof == proof)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = EBADMSG;
    return -1;
}

/* Requests the memory over a connected or connecting socket. */
static hvd_status_t ask(int s, const struct hvd_shm_offer *offer, int *fd, struct hvd_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, offer->name, offer->name_len);
    if (connect(s, (const struct sockaddr *)&address,
                (socklen_t)(sizeof(address.sun_family) + offer->name_len)) != 0)
        return fail(err, "connecting to the rank that offers shared memory");
    if (send(s, &offer->token, sizeof(offer->token), MSG_NOSIGNAL) != (ssize_t)sizeof(offer->token))
        return fail(err, "asking for shared memory");
    *fd = receive_descriptor(s, offer->proof);
    return *fd >= 0 ? HVD_OK : fail(err, "receiving shared memory");
}

hvd_status_t hvd_shm_offer_take(const struct hvd_shm_offer *offer, size_t size, int timeout_ms,
                                int *fd, struct hvd_err *err)
{
    struct stat about = {0};
    int found = -1;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (s < 0)
        return fail(err, "socket");
    limit_time(s, timeout_ms);
    hvd_status_t st = ask(s, offer, &found, err);
    close(s);
    if (st != HVD_OK)
        return st;
    if (fstat(found, &about) != 0 || about.st_size != (off_t)size) {
        close(found);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "shared memory of %lld bytes instead of %zu",
                        (long long)about.st_size, size);
    }
    *fd = found;
    return HVD_OK;
}

hvd_status_t hvd_shm_map(int fd, size_t size, void **segment, struct hvd_err *err)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return fail(err, "mapping shared memory");
    (void)madvise(at, size, MADV_DONTFORK); /* a child process must not use it */
    *segment = at;
    return HVD_OK;
}
