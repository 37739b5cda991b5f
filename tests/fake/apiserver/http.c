/*
 * HTTP/1.1 on loopback: connections, requests out of bytes, answers into bytes. One request of a
 * connection at a time; a connection that carries a watch does nothing else.
 */
#include "tests/fake/apiserver/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "tests/fake/apiserver/handle.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/watch.h"

#define MAX_EVENTS 64
#define READ_SIZE 65536

static void poll_for(struct fake_conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};

    if (conn->polled == events)
        return;
    conn->polled = events;
    (void)epoll_ctl(conn->server->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

void fake_close(struct fake_conn *conn)
{
    if (conn->has_closed)
        return;
    conn->has_closed = true;
    fake_timer_stop(&conn->server->timers, &conn->timer);
    fake_watch_end(conn);
    (void)close(conn->fd);
}

static void free_conn(struct fake_conn *conn)
{
    DL_DELETE(conn->server->conns, conn);
    hvd_buf_fini(&conn->in);
    hvd_buf_fini(&conn->out);
    free(conn);
}

static void on_slow(void *ctx)
{
    fake_flush(ctx);
}

void fake_flush(struct fake_conn *conn)
{
    while (!conn->has_closed && conn->sent < conn->out.len) {
        size_t left = conn->out.len - conn->sent;
        ssize_t n;

        if (conn->slow_bytes && left > conn->slow_bytes)
            left = conn->slow_bytes;
        n = send(conn->fd, conn->out.data + conn->sent, left, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            poll_for(conn, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            fake_close(conn);
            return;
        }
        conn->sent += (size_t)n;
        if (conn->slow_bytes && conn->sent < conn->out.len) {
            conn->timer.fire = on_slow;
            conn->timer.ctx = conn;
            fake_timer_start(&conn->server->timers, &conn->timer, conn->slow_us);
            return;
        }
    }
    if (conn->has_closed)
        return;
    hvd_buf_reset(&conn->out);
    conn->sent = 0;
    conn->slow_bytes = conn->watch ? conn->slow_bytes : 0;
    poll_for(conn, EPOLLIN);
    if (conn->wants_close)
        fake_close(conn);
}

static const char *reason_of(int code)
{
    return code < 300 ? "OK" : code < 500 ? "Client Error" : "Server Error";
}

static void put_date(struct fake_conn *conn)
{
    const char *text = conn->server->config.date;
    time_t now = fake_unix_s();
    char date[64];
    struct tm tm;

    (void)gmtime_r(&now, &tm);
    (void)strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (!text || *text)
        fake_printf(&conn->out, "Date: %s\r\n", text ? text : date);
}

void fake_send(struct fake_conn *conn, const struct fake_answer *answer)
{
    fake_printf(&conn->out, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", answer->code,
                reason_of(answer->code));
    put_date(conn);
    if (answer->retry_after_s >= 0)
        fake_printf(&conn->out, "Retry-After: %lld\r\n", (long long)answer->retry_after_s);
    fake_printf(&conn->out, "Content-Length: %zu\r\n\r\n", answer->body.len);
    if (answer->body.len)
        fake_add(&conn->out, answer->body.data, answer->body.len);
}

void fake_send_stream_head(struct fake_conn *conn)
{
    fake_puts(&conn->out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n");
    put_date(conn);
    fake_puts(&conn->out, "Transfer-Encoding: chunked\r\n\r\n");
}

void fake_send_chunk(struct fake_conn *conn, const void *data, size_t len)
{
    fake_printf(&conn->out, "%zx\r\n", len);
    if (len)
        fake_add(&conn->out, data, len);
    fake_puts(&conn->out, "\r\n");
}

/* ---- requests out of bytes ---- */

struct head {
    size_t len; /* with the empty line */
    size_t body_len;
    bool expects;
    struct fake_request request;
};

static void take_header(struct head *head, char *line)
{
    struct fake_request *r = &head->request;
    char *value = strchr(line, ':');

    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " ");
    if (strcasecmp(line, "content-length") == 0)
        head->body_len = (size_t)strtoul(value, NULL, 10);
    else if (strcasecmp(line, "accept") == 0)
        r->accept = value;
    else if (strcasecmp(line, "content-type") == 0)
        r->content_type = value;
    else if (strcasecmp(line, "user-agent") == 0)
        r->agent = value;
    else if (strcasecmp(line, "authorization") == 0)
        r->authorization = value;
    else if (strcasecmp(line, "expect") == 0)
        head->expects = true;
}

/* Cuts a copy of the head (text, changed) into its parts. False when it is no request. */
static bool parse_head(char *text, struct head *head)
{
    struct fake_request *r = &head->request;
    char *state = NULL;
    char *line = strtok_r(text, "\r\n", &state);
    char *version;

    r->accept = r->content_type = r->agent = r->authorization = "";
    r->method = line;
    r->target = line ? strchr(line, ' ') : NULL;
    if (!r->target)
        return false;
    *r->target++ = '\0';
    version = strchr(r->target, ' ');
    if (!version)
        return false;
    *version = '\0';
    while ((line = strtok_r(NULL, "\r\n", &state)) != NULL)
        take_header(head, line);
    return true;
}

static void on_bad_request(struct fake_conn *conn)
{
    fake_puts(&conn->out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    conn->wants_close = true;
    fake_flush(conn);
}

static void serve(struct fake_conn *conn, struct head *head)
{
    char *body = fake_new(head->body_len + 1);

    memcpy(body, conn->in.data + head->len, head->body_len);
    hvd_buf_consume(&conn->in, head->len + head->body_len);
    conn->is_busy = true;
    head->request.conn = conn;
    head->request.body = (struct hvd_strview){body, head->body_len};
    fake_handle(&head->request);
    free(body);
}

/* Serves the request at the beginning of in, if it is complete. */
static bool serve_one(struct fake_conn *conn)
{
    char *end = conn->in.len ? strstr(conn->in.data, "\r\n\r\n") : NULL;
    struct head head = {0};
    char *text;
    bool is_complete;

    if (!end || conn->is_busy || conn->is_hung || conn->has_closed)
        return false;
    head.len = (size_t)(end - conn->in.data) + 4;
    text = fake_must(strndup(conn->in.data, head.len));
    if (!parse_head(text, &head)) {
        free(text);
        on_bad_request(conn);
        return false;
    }
    is_complete = conn->in.len >= head.len + head.body_len;
    if (is_complete) {
        serve(conn, &head);
    } else if (head.expects) {
        fake_puts(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
        fake_flush(conn);
    }
    free(text);
    return is_complete;
}

static void serve_all(struct fake_conn *conn)
{
    while (serve_one(conn))
        ;
}

void fake_finish_request(struct fake_conn *conn)
{
    conn->is_busy = false;
    fake_flush(conn);
    if (!conn->has_closed && conn->in.len)
        serve_all(conn);
}

static void on_readable(struct fake_conn *conn)
{
    static char bytes[READ_SIZE];
    ssize_t n = recv(conn->fd, bytes, sizeof(bytes), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        fake_close(conn);
        return;
    }
    if (n > 0)
        fake_add(&conn->in, bytes, (size_t)n);
    serve_all(conn);
}

static void on_connection(struct fake_server *server)
{
    int on = 1;
    int fd;

    while ((fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct fake_conn *conn = fake_new(sizeof(*conn));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        conn->server = server;
        conn->fd = fd;
        conn->polled = EPOLLIN;
        conn->in = fake_buf();
        conn->out = fake_buf();
        DL_APPEND(server->conns, conn);
        (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

/* ---- the loop ---- */

int fake_listen(struct fake_server *server, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->listen_fd};
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &server->signal_fd};
    struct epoll_event alarm = {.events = EPOLLIN, .data.ptr = &server->timer_fd};
    socklen_t size = sizeof(address);
    int on = 1;

    server->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->epoll_fd < 0 || server->listen_fd < 0 || server->timer_fd < 0)
        return -1;
    (void)setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(server->listen_fd, (struct sockaddr *)&address, size) != 0 ||
        listen(server->listen_fd, 1024) != 0 ||
        getsockname(server->listen_fd, (struct sockaddr *)&address, &size) != 0)
        return -1;
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &event);
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->signal_fd, &stop);
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->timer_fd, &alarm);
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &stop); /* if it is a pipe */
    return ntohs(address.sin_port);
}

static void bury(struct fake_server *server)
{
    struct fake_conn *conn, *next;

    DL_FOREACH_SAFE(server->conns, conn, next)
    {
        if (conn->has_closed)
            free_conn(conn);
    }
}

static void on_event(struct fake_server *server, const struct epoll_event *event)
{
    struct fake_conn *conn = event->data.ptr;

    if (event->data.ptr == &server->listen_fd) {
        on_connection(server);
        return;
    }
    if (event->data.ptr == &server->signal_fd) {
        server->is_stopped = true;
        return;
    }
    if (event->data.ptr == &server->timer_fd)
        return; /* set anew before the next wait */
    if (!conn->has_closed && event->events & EPOLLOUT)
        fake_flush(conn);
    if (!conn->has_closed && event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        on_readable(conn);
}

/* Lets the wait end when the next timer is due: the time-out of epoll_wait is too coarse. */
static void set_alarm(struct fake_server *server)
{
    int64_t wait_us = fake_timers_wait_us(&server->timers);
    struct itimerspec when = {0};

    if (wait_us == 0)
        when.it_value.tv_nsec = 1;
    if (wait_us > 0)
        when.it_value = (struct timespec){wait_us / 1000000, wait_us % 1000000 * 1000};
    (void)timerfd_settime(server->timer_fd, 0, &when, NULL);
}

bool fake_turn(struct fake_server *server)
{
    struct epoll_event events[MAX_EVENTS];
    int n;

    set_alarm(server);
    n = epoll_wait(server->epoll_fd, events, MAX_EVENTS, -1);
    if (n < 0 && errno != EINTR)
        return false;
    for (int i = 0; i < n; i++)
        on_event(server, &events[i]);
    fake_timers_run(&server->timers);
    fake_play_step(server);
    fake_watches_flush(server);
    bury(server);
    return true;
}

void fake_http_fini(struct fake_server *server)
{
    struct fake_conn *conn = NULL;

    DL_FOREACH(server->conns, conn)
    {
        fake_close(conn);
    }
    bury(server);
    (void)close(server->listen_fd);
    (void)close(server->timer_fd);
    (void)close(server->epoll_fd);
}
