/*
 * The listening socket of the health server, and the options of each accepted connection. No HTTP
 * here.
 */
#include "operator/app/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

/* The kernel gives up data that a client has not acknowledged for so long, also after close. */
#define SILENCE_MS 10000
/* How much of an answer the kernel buffers; beyond it the client's own time limit applies. */
#define SEND_BYTES (16 * 1024)

/* Fills the address; for all interfaces the IPv6 one, whose socket accepts IPv4 as well. */
static socklen_t make_address(const char *host, unsigned port, struct sockaddr_storage *out)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    struct sockaddr_in *four = (struct sockaddr_in *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof(*four);
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    if (*host)
        (void)inet_pton(AF_INET6, host, &six->sin6_addr);
    return sizeof(*six);
}

/* The listening socket, or -1 with errno. */
static int open_at(const char *host, unsigned port)
{
    struct sockaddr_storage address;
    socklen_t len = make_address(host, port, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    int is_six_only = *host ? 1 : 0;
    int sys;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (address.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_six_only, sizeof(is_six_only));
    if (bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    sys = errno;
    (void)close(fd);
    errno = sys;
    return -1;
}

hvd_status_t hvd_listener_open(const struct hvd_listen *listen, int *fd, struct hvd_err *err)
{
    bool is_ipv6 = strchr(listen->host, ':') != NULL;
    int opened = open_at(listen->host, listen->port);

    if (opened < 0 && !*listen->host && errno != EADDRINUSE)
        opened = open_at("0.0.0.0", listen->port);
    if (opened < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot listen on %s%s%s:%u: %s",
                        is_ipv6 ? "[" : "", listen->host, is_ipv6 ? "]" : "", listen->port,
                        strerror(errno));
    *fd = opened;
    return HVD_OK;
}

/* Errors of the connection itself, which Linux reports from accept: the next one may be fine. */
static bool is_lost(int sys)
{
    static const int lost[] = {EINTR,       ECONNABORTED, ENETDOWN, EPROTO,
                               ENOPROTOOPT, EHOSTDOWN,    ENONET,   EHOSTUNREACH,
                               EOPNOTSUPP,  ENETUNREACH,  ETIMEDOUT};

    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        if (lost[i] == sys)
            return true;
    return false;
}

hvd_status_t hvd_listener_accept(int fd, struct hvd_client_socket *out)
{
    struct hvd_client_socket client = {.fd = -1};
    unsigned silence_ms = SILENCE_MS;
    int send_bytes = SEND_BYTES;

    do {
        client.address_len = sizeof(client.address);
        client.fd = accept4(fd, (struct sockaddr *)&client.address, &client.address_len,
                            SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (client.fd < 0 && is_lost(errno));
    if (client.fd < 0)
        return errno == EAGAIN ? HVD_ERR_NOT_FOUND : HVD_ERR_UNAVAILABLE;
    (void)setsockopt(client.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
    (void)setsockopt(client.fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
    *out = client;
    return HVD_OK;
}
