/*
 * Health and metrics over HTTP, on libmicrohttpd with its epoll descriptor in our event loop. It
 * answers GET and HEAD of three paths. /healthz says that the loop turns, /readyz that every watch
 * has listed once. At most 32 connections, each given up after 10 idle seconds.
 */
#include "operator/app/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include "base/mem.h"
#include "base/str.h"

#define METRICS_MAX (1024 * 1024)
#define MAX_CONNECTIONS 32
#define IDLE_S 10

struct hvd_server {
    struct MHD_Daemon *daemon;
    struct hvd_server_handler handler;
    int fd;
};

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
    if (server->handler.put_metrics(server->handler.ctx, &text) == HVD_OK)
        result = reply(connection, MHD_HTTP_OK, text.data ? text.data : "");
    else
        result = reply(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    hvd_buf_fini(&text);
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
        return server->handler.is_ready(server->handler.ctx)
                   ? reply(connection, MHD_HTTP_OK, "ok\n")
                   : reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                           "not ready: the API server's objects are not all listed yet\n");
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

static struct MHD_Daemon *start_daemon(struct hvd_server *server, const struct hvd_listen *listen)
{
    struct sockaddr_storage address;
    unsigned flags = make_address(listen, &address);

    return MHD_start_daemon(MHD_USE_EPOLL | flags, listen->port, NULL, NULL, on_request, server,
                            MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
}

hvd_status_t hvd_server_create(const struct hvd_listen *listen,
                               const struct hvd_server_handler *handler, struct hvd_server **out,
                               struct hvd_err *err)
{
    struct hvd_server *server = hvd_calloc(1, sizeof(*server));
    const union MHD_DaemonInfo *info;
    struct hvd_listen v4 = {.host = "0.0.0.0", .port = listen->port};

    if (!server)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "health server: out of memory");
    server->handler = *handler;
    server->daemon = start_daemon(server, listen);
    if (!server->daemon && !listen->host[0] && errno != EADDRINUSE)
        server->daemon = start_daemon(server, &v4);
    if (!server->daemon) {
        int sys = errno;
        hvd_free(server);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, sys, "cannot listen on %s%s%s:%u: %s",
                        strchr(listen->host, ':') ? "[" : "", listen->host,
                        strchr(listen->host, ':') ? "]" : "", listen->port, strerror(sys));
    }
    info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    server->fd = info ? info->epoll_fd : -1;
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

    (void)MHD_run(server->daemon);
    if (MHD_get_timeout(server->daemon, &wait_ms) != MHD_YES)
        return -1;
    return wait_ms > 60000 ? 60000 : (int)wait_ms;
}
