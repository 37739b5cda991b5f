/*
 * Health and metrics over HTTP or HTTPS, on libmicrohttpd (TLS is GnuTLS's there) with its epoll
 * descriptor in our event loop. It answers GET and HEAD of three paths. /healthz says that the loop
 * turns, /readyz that every watch is alive. At most 32 connections, each given up after 10 idle
 * seconds. A certificate that has changed is read again before the next connection is accepted.
 */
#include "operator/app/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/kube/config.h"

#define SUBSYSTEM "server"
#define METRICS_MAX (1024 * 1024)
#define READY_MAX (16 * 1024)
#define PEM_MAX (256 * 1024)
#define MAX_CONNECTIONS 32
#define IDLE_S 10

/* Tells one content of a file from the next. */
struct stamp {
    struct timespec mtime;
    ino_t inode;
    off_t size;
};

struct hvd_server {
    struct MHD_Daemon *daemon;
    struct hvd_server_options options;
    struct stamp cert_stamp; /* of what the daemon has */
    struct stamp key_stamp;
    int fd;
};

static void take_daemon(struct hvd_server *server, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);

    server->daemon = daemon;
    server->fd = info ? info->epoll_fd : -1;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    if (MHD_add_response_header(response, "Content-Type",
                                "text/plain; version=0.0.4; charset=utf-8") == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_metrics(const struct hvd_server *server,
                                     struct MHD_Connection *connection)
{
    enum MHD_Result result;
    struct hvd_buf text;

    hvd_buf_init(&text, METRICS_MAX);
    if (server->options.handler.put_metrics(server->options.handler.ctx, &text) == HVD_OK)
        result = reply(connection, MHD_HTTP_OK, text.data ? text.data : "");
    else
        result = reply(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    hvd_buf_fini(&text);
    return result;
}

static enum MHD_Result reply_ready(const struct hvd_server *server,
                                   struct MHD_Connection *connection)
{
    enum MHD_Result result;
    struct hvd_buf why;

    hvd_buf_init(&why, READY_MAX);
    if (server->options.handler.is_ready(server->options.handler.ctx, &why))
        result = reply(connection, MHD_HTTP_OK, "ok\n");
    else
        result =
            reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, why.data ? why.data : "not ready\n");
    hvd_buf_fini(&why);
    return result;
}

/* The signature is libmicrohttpd's. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    const struct hvd_server *server = ctx;

    (void)version;
    (void)data;
    if (!*state) {
        *state = connection;
        return MHD_YES;
    }
    if (*size) {
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (strcmp(url, "/healthz") == 0)
        return reply(connection, MHD_HTTP_OK, "ok\n");
    if (strcmp(url, "/readyz") == 0)
        return reply_ready(server, connection);
    if (strcmp(url, "/metrics") == 0)
        return reply_metrics(server, connection);
    return reply(connection, MHD_HTTP_NOT_FOUND, "/healthz, /readyz and /metrics are here\n");
}

/* Fills the address; for all interfaces the one that takes IPv4 as well. */
static unsigned make_address(const struct hvd_listen *listen, struct sockaddr_storage *out)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    struct sockaddr_in *four = (struct sockaddr_in *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, listen->host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(listen->port);
        return MHD_NO_FLAG;
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(listen->port);
    if (!listen->host[0])
        return MHD_USE_DUAL_STACK;
    (void)inet_pton(AF_INET6, listen->host, &six->sin6_addr);
    return MHD_USE_IPv6;
}

/* ---- certificates ---- */

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    hvd_free(text);
}

/* When a file was written and which one it is: a mounted Secret changes by a new link. */
static struct stamp stamp_of(const char *path)
{
    struct stamp stamp = {0};
    struct stat st;

    if (stat(path, &st) == 0)
        stamp = (struct stamp){st.st_mtim, st.st_ino, st.st_size};
    return stamp;
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
    return a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
           a->inode == b->inode && a->size == b->size;
}

static hvd_status_t read_pair(struct hvd_server *server, char **cert, char **key,
                              struct hvd_err *err)
{
    hvd_status_t st;

    server->cert_stamp = stamp_of(server->options.cert_file);
    server->key_stamp = stamp_of(server->options.key_file);
    st = hvd_kube_read_file(server->options.cert_file, PEM_MAX, cert, err);
    return st == HVD_OK ? hvd_kube_read_file(server->options.key_file, PEM_MAX, key, err) : st;
}

/* ---- the daemon: one per certificate, all on the same socket ---- */

struct start {
    struct sockaddr_storage address;
    unsigned flags;
    int fd; /* a socket that listens already, which becomes the daemon's; -1: none */
    const char *cert;
    const char *key;
};

static struct MHD_Daemon *start_daemon(struct hvd_server *server, struct start *start)
{
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL},
        {start->fd >= 0 ? MHD_OPTION_LISTEN_SOCKET : MHD_OPTION_SOCK_ADDR, start->fd,
         start->fd >= 0 ? NULL : &start->address},
        {start->cert ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)start->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)start->key},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned tls = start->cert ? MHD_USE_TLS : MHD_NO_FLAG;

    return MHD_start_daemon(MHD_USE_EPOLL | tls | start->flags, server->options.listen->port, NULL,
                            NULL, on_request, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

/* A new daemon on the socket of the old one, which ends. A pair that cannot be used changes
 * nothing. */
static void renew_daemon(struct hvd_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct start start = {.fd = info ? fcntl(info->listen_fd, F_DUPFD_CLOEXEC, 0) : -1};
    char *cert = NULL, *key = NULL;
    struct MHD_Daemon *daemon = NULL;
    struct hvd_err err = {0};

    if (start.fd >= 0 && read_pair(server, &cert, &key, &err) == HVD_OK) {
        start.cert = cert;
        start.key = key;
        daemon = start_daemon(server, &start);
    }
    if (daemon) {
        int old_fd = MHD_quiesce_daemon(server->daemon);
        MHD_stop_daemon(server->daemon);
        if (old_fd >= 0)
            (void)close(old_fd);
        take_daemon(server, daemon);
    } else if (start.fd >= 0) {
        (void)close(start.fd);
    }
    HVD_LOG_KV(server->options.log, daemon ? HVD_LOG_INFO : HVD_LOG_ERROR, SUBSYSTEM,
               daemon ? "the certificate was read again"
                      : "the new certificate cannot be used, the old one stays",
               {"file", server->options.cert_file}, {"error", *err.msg ? err.msg : NULL});
    hvd_free(cert);
    wipe(key);
}

/* Looks at the files when somebody may be about to connect; costs nothing while nobody does. */
static void renew_if_changed(struct hvd_server *server)
{
    struct stamp cert, key;

    if (!server->options.cert_file)
        return;
    cert = stamp_of(server->options.cert_file);
    key = stamp_of(server->options.key_file);
    if (is_same(&cert, &server->cert_stamp) && is_same(&key, &server->key_stamp))
        return;
    renew_daemon(server);
}

static hvd_status_t fail_to_listen(const struct hvd_listen *listen, int sys, struct hvd_err *err)
{
    bool is_ipv6 = strchr(listen->host, ':') != NULL;

    return HVD_FAIL(err, HVD_ERR_SYSTEM, sys, "cannot listen on %s%s%s:%u: %s", is_ipv6 ? "[" : "",
                    listen->host, is_ipv6 ? "]" : "", listen->port, strerror(sys));
}

/* Listens at the address, for all interfaces on IPv4 where there is no IPv6. */
static hvd_status_t start_first(struct hvd_server *server, struct hvd_err *err)
{
    const struct hvd_listen *listen = server->options.listen;
    const struct hvd_listen v4 = {.host = "0.0.0.0", .port = listen->port};
    struct start start = {.fd = -1};
    char *cert = NULL, *key = NULL;
    struct MHD_Daemon *daemon;
    hvd_status_t st = HVD_OK;
    int sys;

    if (server->options.cert_file)
        st = read_pair(server, &cert, &key, err);
    if (st == HVD_OK) {
        start.cert = cert;
        start.key = key;
        start.flags = make_address(listen, &start.address);
        errno = 0;
        daemon = start_daemon(server, &start);
        if (!daemon && !listen->host[0] && errno != EADDRINUSE) {
            start.flags = make_address(&v4, &start.address);
            daemon = start_daemon(server, &start);
        }
        sys = errno;
        if (daemon)
            take_daemon(server, daemon);
        else if (cert && !sys)
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s and %s: not a certificate and its key",
                          server->options.cert_file, server->options.key_file);
        else
            st = fail_to_listen(listen, sys, err);
    }
    hvd_free(cert);
    wipe(key);
    return st;
}

hvd_status_t hvd_server_create(const struct hvd_server_options *options, struct hvd_server **out,
                               struct hvd_err *err)
{
    struct hvd_server *server = hvd_calloc(1, sizeof(*server));
    hvd_status_t st;

    if (!server)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "health server: out of memory");
    server->options = *options;
    st = start_first(server, err);
    if (st != HVD_OK) {
        hvd_free(server);
        return st;
    }
    *out = server;
    return HVD_OK;
}

void hvd_server_destroy(struct hvd_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    hvd_free(server);
}

int hvd_server_fd(const struct hvd_server *server)
{
    return server->fd;
}

int hvd_server_step(struct hvd_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;

    renew_if_changed(server);
    (void)MHD_run(server->daemon);
    if (MHD_get_timeout(server->daemon, &wait_ms) != MHD_YES)
        return -1;
    return wait_ms > 60000 ? 60000 : (int)wait_ms;
}
