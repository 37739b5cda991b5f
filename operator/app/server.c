/*
 * Health and metrics over HTTP or HTTPS, on libmicrohttpd (with GnuTLS for TLS). Its epoll
 * descriptor and the listening socket are in one epoll set, which our event loop waits for. It
 * answers GET and HEAD of three paths: /healthz reports that the loop turns, /readyz that every
 * watch is alive, /metrics the metrics. A probe must be answered regardless of other clients. So
 * this file accepts connections, and connections.c bounds their number and the time of each. It
 * reads a changed certificate again before it accepts the next connection.
 */
#include "operator/app/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/app/clock.h"
#include "operator/app/connections.h"
#include "operator/app/listener.h"
#include "operator/kube/config.h"

#define SUBSYSTEM "server"
#define METRICS_MAX (1024 * 1024)
#define READY_MAX (16 * 1024)
#define PEM_MAX (256 * 1024)
#define MIN_CONNECTIONS 8
#define MAX_CONNECTIONS 512
#define REQUEST_MEMORY ((size_t)16 * 1024)
#define RESERVED_FDS 48   /* of the process, for everything but the clients */
#define OUT_OF_FDS_MS 100 /* wait before the next accept when no connection can be closed here */

/* Identifies one content of a file. */
struct stamp {
    struct timespec mtime;
    ino_t inode;
    off_t size;
};

struct hvd_server {
    struct MHD_Daemon *daemon;
    struct hvd_server_options options;
    struct stamp cert_stamp; /* of the daemon's certificate */
    struct stamp key_stamp;
    struct hvd_connections connections;
    size_t max_connections;
    int listen_fd;
    int fd;           /* the epoll set of listen_fd and the daemon's */
    int64_t due_ms;   /* when to check without a readable descriptor */
    int64_t pause_ms; /* no accept before this time; 0: no pause */
};

static bool follow_fd(const struct hvd_server *server, int fd, bool is_on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(server->fd, is_on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event) == 0;
}

static hvd_status_t take_daemon(struct hvd_server *server, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);

    server->daemon = daemon;
    return info && follow_fd(server, info->epoll_fd, true) ? HVD_OK : HVD_ERR_SYSTEM;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    bool is_last = code == MHD_HTTP_CONTENT_TOO_LARGE;
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                "text/plain; version=0.0.4; charset=utf-8") == MHD_YES &&
        (!is_last || MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close")))
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static hvd_status_t put_own_metrics(const struct hvd_server *server, struct hvd_buf *out)
{
    return hvd_buf_printf(
        out,
        "# HELP horovod_operator_http_connections Clients that are connected.\n"
        "# TYPE horovod_operator_http_connections gauge\n"
        "horovod_operator_http_connections %zu\n"
        "# HELP horovod_operator_http_connections_closed_total Connections closed at their "
        "deadline, or to make room for new ones.\n"
        "# TYPE horovod_operator_http_connections_closed_total counter\n"
        "horovod_operator_http_connections_closed_total{reason=\"deadline\"} %llu\n"
        "horovod_operator_http_connections_closed_total{reason=\"room\"} %llu\n",
        hvd_connections_count(&server->connections),
        (unsigned long long)server->connections.n_overdue,
        (unsigned long long)server->connections.n_evicted);
}

static enum MHD_Result reply_metrics(const struct hvd_server *server,
                                     struct MHD_Connection *connection)
{
    enum MHD_Result result;
    struct hvd_buf text;

    hvd_buf_init(&text, METRICS_MAX);
    if (server->options.handler.put_metrics(server->options.handler.ctx, &text) == HVD_OK &&
        put_own_metrics(server, &text) == HVD_OK)
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

static struct hvd_connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* No path here reads a body, and waiting for its end would cost time. */
static bool has_body(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return (length && strcmp(length, "0") != 0) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* The signature is libmicrohttpd's. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct hvd_server *server = ctx;
    struct hvd_connection *entry = connection_of(connection);

    (void)version;
    (void)data;
    if (!*state) { /* the headers are complete */
        *state = connection;
        if (entry)
            hvd_connections_enter(&server->connections, entry, HVD_CONNECTION_ANSWER,
                                  hvd_clock_ms());
        return has_body(connection)
                   ? reply(connection, MHD_HTTP_CONTENT_TOO_LARGE, "no request has a body here\n")
                   : MHD_YES;
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

/* The answer was sent, or the request has failed: the next one has its own time. */
static void on_answered(void *ctx, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    struct hvd_server *server = ctx;
    struct hvd_connection *entry = connection_of(connection);

    (void)code;
    *state = NULL;
    if (entry)
        hvd_connections_enter(&server->connections, entry, HVD_CONNECTION_REQUEST, hvd_clock_ms());
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode code)
{
    struct hvd_server *server = ctx;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        hvd_connections_remove(&server->connections, *socket_ctx);
        *socket_ctx = NULL;
        return;
    }
    *socket_ctx = hvd_connections_add(&server->connections, info->connect_fd, hvd_clock_ms());
    if (!*socket_ctx)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

/* ---- certificates ---- */

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    hvd_free(text);
}

/* When a file was written, and which file it is: a mounted Secret changes by a new link. */
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
    st = hvd_kube_config_read_file(server->options.cert_file, PEM_MAX, cert, err);
    return st == HVD_OK ? hvd_kube_config_read_file(server->options.key_file, PEM_MAX, key, err)
                        : st;
}

/* ---- the daemon: one per certificate; receives the accepted connections ---- */

static struct MHD_Daemon *start_daemon(struct hvd_server *server, const char *cert, const char *key)
{
    struct MHD_OptionItem options[] = {
        /* More than connections.c allows, to include those that it has shut down. */
        {MHD_OPTION_CONNECTION_LIMIT, 4 * (intptr_t)server->max_connections, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MEMORY, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_answered, server},
        {cert ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned tls = cert ? MHD_USE_TLS : MHD_NO_FLAG;

    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | tls, 0, NULL, NULL,
                            on_request, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

/* Replaces the daemon. A pair that cannot be used changes nothing. */
static void renew_daemon(struct hvd_server *server)
{
    char *cert = NULL, *key = NULL;
    struct MHD_Daemon *old = server->daemon;
    struct MHD_Daemon *daemon = NULL;
    struct hvd_err err = {0};

    if (read_pair(server, &cert, &key, &err) == HVD_OK)
        daemon = start_daemon(server, cert, key);
    if (daemon && take_daemon(server, daemon) != HVD_OK) {
        server->daemon = old;
        MHD_stop_daemon(daemon);
        daemon = NULL;
    }
    if (daemon)
        MHD_stop_daemon(old);
    HVD_LOG_KV(server->options.log, daemon ? HVD_LOG_INFO : HVD_LOG_ERROR, SUBSYSTEM,
               daemon ? "the certificate was read again"
                      : "the new certificate cannot be used, the old one stays",
               {"file", server->options.cert_file}, {"error", *err.msg ? err.msg : NULL});
    hvd_free(cert);
    wipe(key);
}

/* Checks the files before a client connects; costs nothing without clients. */
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

static hvd_status_t start_first(struct hvd_server *server, struct hvd_err *err)
{
    char *cert = NULL, *key = NULL;
    struct MHD_Daemon *daemon;
    hvd_status_t st = HVD_OK;

    if (server->options.cert_file)
        st = read_pair(server, &cert, &key, err);
    if (st == HVD_OK) {
        errno = 0;
        daemon = start_daemon(server, cert, key);
        if (daemon)
            st = take_daemon(server, daemon);
        else if (cert && !errno)
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s and %s: not a certificate and its key",
                          server->options.cert_file, server->options.key_file);
        else
            st = HVD_ERR_SYSTEM;
        if (st == HVD_ERR_SYSTEM)
            hvd_err_set(err, st, errno, "health server: %s", strerror(errno));
    }
    hvd_free(cert);
    wipe(key);
    return st;
}

/* How many clients may be connected: the operator's work needs the other descriptors. */
static size_t count_connections(void)
{
    struct rlimit limit = {0};
    rlim_t n;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return MAX_CONNECTIONS;
    n = limit.rlim_cur > RESERVED_FDS ? limit.rlim_cur - RESERVED_FDS : 0;
    if (n < MIN_CONNECTIONS)
        return MIN_CONNECTIONS;
    return n < MAX_CONNECTIONS ? (size_t)n : MAX_CONNECTIONS;
}

static hvd_status_t start(struct hvd_server *server, struct hvd_err *err)
{
    hvd_status_t st = hvd_listener_open(server->options.listen, &server->listen_fd, err);

    if (st != HVD_OK)
        return st;
    server->fd = epoll_create1(EPOLL_CLOEXEC);
    if (server->fd < 0 || !follow_fd(server, server->listen_fd, true))
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "health server: epoll: %s", strerror(errno));
    return start_first(server, err);
}

hvd_status_t hvd_server_create(const struct hvd_server_options *options, struct hvd_server **out,
                               struct hvd_err *err)
{
    struct hvd_server *server = hvd_calloc(1, sizeof(*server));
    hvd_status_t st;

    if (!server)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "health server: out of memory");
    server->options = *options;
    server->listen_fd = server->fd = -1;
    server->max_connections = count_connections();
    hvd_connections_init(&server->connections, server->max_connections);
    st = start(server, err);
    if (st != HVD_OK) {
        hvd_server_destroy(server);
        return st;
    }
    *out = server;
    return HVD_OK;
}

void hvd_server_destroy(struct hvd_server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (server->listen_fd >= 0)
        (void)close(server->listen_fd);
    if (server->fd >= 0)
        (void)close(server->fd);
    hvd_free(server);
}

int hvd_server_fd(const struct hvd_server *server)
{
    return server->fd;
}

/* ---- each step ---- */

static void make_room(struct hvd_server *server, size_t n)
{
    char most[24];

    if (!hvd_connections_make_room(&server->connections, n))
        return;
    (void)snprintf(most, sizeof(most), "%zu", server->max_connections);
    HVD_LOG_KV(server->options.log, HVD_LOG_WARN, SUBSYSTEM,
               "too many clients are connected: the oldest without a complete request are closed",
               {"most", most});
}

/* Out of descriptors or memory: closes one client, or else ignores the socket for a while, because
 * it would stay readable. */
static void pause_accepting(struct hvd_server *server, int64_t now_ms)
{
    if (hvd_connections_count(&server->connections)) {
        make_room(server,
                  server->max_connections - hvd_connections_count(&server->connections) + 1);
        return;
    }
    if (follow_fd(server, server->listen_fd, false))
        server->pause_ms = now_ms + OUT_OF_FDS_MS;
}

/* Hands on a part of the waiting clients: each gets a first chance to send a request before it can
 * become the oldest. */
static void accept_some(struct hvd_server *server, int64_t now_ms)
{
    struct hvd_client_socket client;
    hvd_status_t st = HVD_OK;
    size_t n = 0;

    for (; n < server->max_connections / 4 && st == HVD_OK; n++) {
        st = hvd_listener_accept(server->listen_fd, &client);
        if (st != HVD_OK)
            break;
        make_room(server, n + 1);
        (void)MHD_add_connection(server->daemon, client.fd, (struct sockaddr *)&client.address,
                                 client.address_len);
    }
    if (st == HVD_ERR_UNAVAILABLE)
        pause_accepting(server, now_ms);
}

static void serve(struct hvd_server *server, bool is_called, int64_t now_ms)
{
    if (server->pause_ms && server->pause_ms <= now_ms &&
        follow_fd(server, server->listen_fd, true)) {
        server->pause_ms = 0;
        is_called = true;
    }
    if (is_called && !server->pause_ms) {
        renew_if_changed(server);
        accept_some(server, now_ms);
    }
    (void)MHD_run(server->daemon);
}

int hvd_server_step(struct hvd_server *server)
{
    struct epoll_event events[2];
    int n = epoll_wait(server->fd, events, 2, 0);
    int64_t now_ms = hvd_clock_ms();
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool is_called = false;

    for (int i = 0; i < n; i++)
        is_called |= events[i].data.fd == server->listen_fd;
    if (n > 0 || server->due_ms <= now_ms) {
        (void)hvd_connections_expire(&server->connections, now_ms);
        serve(server, is_called, now_ms);
        server->due_ms = hvd_connections_expire(&server->connections, now_ms);
        if (server->pause_ms && server->pause_ms < server->due_ms)
            server->due_ms = server->pause_ms;
        if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES &&
            now_ms + (int64_t)wait_ms < server->due_ms)
            server->due_ms = now_ms + (int64_t)wait_ms;
    }
    if (server->due_ms == INT64_MAX)
        return -1;
    now_ms = server->due_ms - now_ms;
    return now_ms < 0 ? 0 : now_ms > 60000 ? 60000 : (int)now_ms;
}
