/*
 * Handing memory from one process of a host to the others. The name of the socket and the token
 * travel by other means; whoever presents the token gets the descriptor. Only processes of one host
 * and one network namespace meet here, which is exactly what "can share memory" has to mean.
 */
#include "worker/transport/shm_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 128

static hvd_status_t fail(struct hvd_err *err, const char *what)
{
    const int code = errno;

    if (code == EAGAIN || code == EWOULDBLOCK)
        return HVD_FAIL(err, HVD_ERR_TIMEOUT, code, "%s: timed out", what);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, code, "%s: %s", what, strerror(code));
}

/* No call on the socket takes longer. */
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

/* A message of one byte with room for a descriptor. Stays where it is. */
struct parcel {
    char byte;
    struct iovec data;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
};

static void parcel_init(struct parcel *p)
{
    *p = (struct parcel){.byte = 1, .data = {.iov_base = &p->byte, .iov_len = 1}};
    p->message = (struct msghdr){.msg_iov = &p->data,
                                 .msg_iovlen = 1,
                                 .msg_control = p->control,
                                 .msg_controllen = sizeof(p->control)};
}

/* --- Offering --------------------------------------------------------------------------------- */

static hvd_status_t make_memory(struct hvd_shm_offer *offer, size_t size, struct hvd_err *err)
{
    offer->fd = memfd_create("horovod", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (offer->fd < 0)
        return fail(err, "memfd_create");
    if (ftruncate(offer->fd, (off_t)size) != 0)
        return fail(err, "ftruncate of shared memory");
    /* Nobody can make a mapping fault by cutting the file. */
    if (fcntl(offer->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail(err, "sealing shared memory");
    return HVD_OK;
}

/* A listening socket; the kernel chooses a free name. */
static hvd_status_t make_listener(struct hvd_shm_offer *offer, struct hvd_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address);
    const socklen_t empty = sizeof(address.sun_family);

    offer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
    if (getrandom(&offer->token, sizeof(offer->token), 0) != (ssize_t)sizeof(offer->token))
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

/* Sends a descriptor with one byte. */
static bool send_descriptor(int to, int fd)
{
    struct parcel parcel;
    struct cmsghdr *head;

    parcel_init(&parcel);
    head = CMSG_FIRSTHDR(&parcel.message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    return sendmsg(to, &parcel.message, MSG_NOSIGNAL) == 1;
}

/* Whether this one knew the token and has got the memory. */
static bool serve_one(const struct hvd_shm_offer *offer, int taker, int timeout_ms)
{
    uint64_t token = 0;

    limit_time(taker, timeout_ms);
    return recv(taker, &token, sizeof(token), MSG_WAITALL) == (ssize_t)sizeof(token) &&
           token == offer->token && send_descriptor(taker, offer->fd);
}

hvd_status_t hvd_shm_offer_serve(struct hvd_shm_offer *offer, int n_takers, int timeout_ms,
                                 struct hvd_err *err)
{
    const int64_t deadline_ms = now_ms() + timeout_ms;

    while (n_takers > 0) {
        struct pollfd wait = {.fd = offer->listener, .events = POLLIN};
        const int64_t left_ms = deadline_ms - now_ms();
        const int n = left_ms > 0 ? poll(&wait, 1, (int)left_ms) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(err, "poll");
        if (n == 0)
            return HVD_FAIL(err, HVD_ERR_TIMEOUT, 0,
                            "%d ranks of this host did not fetch the shared memory", n_takers);
        int taker = accept4(offer->listener, NULL, NULL, SOCK_CLOEXEC);
        if (taker < 0)
            continue;
        n_takers -= serve_one(offer, taker, (int)left_ms);
        close(taker);
    }
    return HVD_OK;
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* The descriptor that comes with a byte; -1 when none does. */
static int receive_descriptor(int from)
{
    struct parcel parcel;
    int fd = -1;

    parcel_init(&parcel);
    if (recvmsg(from, &parcel.message, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&parcel.message);
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) {
        errno = EBADMSG;
        return -1;
    }
    memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
}

/* Asks for the memory over a connected or connecting socket. */
static hvd_status_t ask(int s, const struct hvd_shm_offer *offer, int *fd, struct hvd_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, offer->name, offer->name_len);
    if (connect(s, (const struct sockaddr *)&address,
                (socklen_t)(sizeof(address.sun_family) + offer->name_len)) != 0)
        return fail(err, "connecting to the rank that offers shared memory");
    if (send(s, &offer->token, sizeof(offer->token), MSG_NOSIGNAL) != (ssize_t)sizeof(offer->token))
        return fail(err, "asking for shared memory");
    *fd = receive_descriptor(s);
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
    (void)madvise(at, size, MADV_DONTFORK); /* a child has no business there */
    *segment = at;
    return HVD_OK;
}
