/*
 * Watch streams. Each has a place in its kind's log and is fed from there once a turn, so that it
 * misses nothing and sees each change once, whatever it selects; faults are put in on the way out.
 */
#include "tests/fake/apiserver/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/http.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/patch.h"

#define MAX_UNSENT ((size_t)4 << 20)
#define REORDER_US 50000

struct fake_watch {
    struct fake_watch *prev, *next;
    struct fake_conn *conn;
    const struct fake_kind *kind;
    char *ns;       /* NULL: all */
    char *name;     /* NULL: all */
    char *selector; /* NULL: all */
    bool is_meta;
    bool has_bookmarks;
    bool has_fault;
    struct fake_fault fault; /* its texts are not ours and not used */
    int64_t n_events;
    uint64_t place; /* the version up to which all was sent */
    char *held;     /* an event that comes behind the next one */
    char *held_key;
    struct fake_timer timeout;
    struct fake_timer bookmark;
    struct fake_timer late;    /* for held */
    struct fake_timer latency; /* the injected one */
};

static void send_line(struct fake_watch *w, const struct hvd_buf *line)
{
    fake_send_chunk(w->conn, line->data, line->len);
}

static void release_held(struct fake_watch *w)
{
    if (!w->held)
        return;
    fake_send_chunk(w->conn, w->held, strlen(w->held));
    free(w->held);
    free(w->held_key);
    w->held = w->held_key = NULL;
}

static void end_stream(struct fake_watch *w)
{
    fake_send_chunk(w->conn, NULL, 0);
    w->conn->wants_close = true;
}

static void send_bookmark(struct fake_watch *w)
{
    struct hvd_buf line = fake_buf();

    release_held(w);
    fake_printf(&line,
                "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
                "\"metadata\":{\"resourceVersion\":\"%" PRIu64 "\"}}}\n",
                w->is_meta ? "PartialObjectMetadata" : w->kind->name,
                w->is_meta ? "meta.k8s.io/v1" : w->kind->api_version, w->place);
    send_line(w, &line);
    hvd_buf_fini(&line);
}

static void send_error(struct fake_watch *w, int code)
{
    struct hvd_buf line = fake_buf();

    release_held(w);
    fake_printf(&line,
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
                "\"metadata\":{},\"status\":\"Failure\",\"message\":\"%s: %" PRIu64 " (%" PRIu64
                ")\",\"reason\":\"%s\",\"code\":%d}}\n",
                code == 410 ? "too old resource version" : "injected fault", w->place,
                w->conn->server->store.number, code == 410 ? "Expired" : "InternalError", code);
    send_line(w, &line);
    hvd_buf_fini(&line);
    end_stream(w);
}

/* Ends the stream as a fault of that kind does; false for other kinds. The watch may be gone then.
 */
static bool break_stream(struct fake_watch *w, enum fake_fault_action action, int code)
{
    struct fake_conn *conn = w->conn;

    switch (action) {
    case FAKE_FAULT_ANSWER:
        send_error(w, code);
        break;
    case FAKE_FAULT_DROP:
        fake_flush(conn);
        fake_close(conn);
        return true;
    case FAKE_FAULT_GARBAGE:
        fake_send_chunk(w->conn, "this is not JSON\n", 17);
        end_stream(w);
        break;
    case FAKE_FAULT_HALF:
        fake_send_chunk(w->conn, "{\"type\":\"ADDED\",\"obj", 20);
        w->conn->wants_close = true;
        break;
    case FAKE_FAULT_HANG:
        w->conn->is_hung = true;
        return true;
    default:
        return false;
    }
    fake_flush(conn);
    return true;
}

/* ---- events ---- */

static bool is_in_scope(const struct fake_watch *w, const struct fake_event *event)
{
    const char *slash = strchr(event->now->key, '/');
    size_t len = (size_t)(slash - event->now->key);

    if (w->ns && (strlen(w->ns) != len || strncmp(w->ns, event->now->key, len) != 0))
        return false;
    return !w->name || strcmp(w->name, slash + 1) == 0;
}

/* The object as it left the selection: as it was, at the version of its leaving. */
static void put_as_it_was(struct hvd_buf *line, const struct fake_watch *w,
                          const struct fake_event *event)
{
    struct fake_version copy = *event->was;
    cJSON *doc = fake_must(cJSON_Parse(event->was->text));
    char number[24];

    (void)snprintf(number, sizeof(number), "%" PRIu64, event->number);
    fake_set_str(fake_object_at(doc, "metadata"), "resourceVersion", number);
    copy.doc = doc;
    copy.text = fake_must(cJSON_PrintUnformatted(doc));
    copy.len = strlen(copy.text);
    copy.meta = NULL;
    fake_version_put(line, &copy, w->is_meta ? FAKE_FORM_META : FAKE_FORM_FULL);
    cJSON_free(copy.text);
    cJSON_free(copy.meta);
    cJSON_Delete(doc);
}

/* Writes the event as this watch sees it; false when it does not. */
static bool put_event(struct hvd_buf *line, const struct fake_watch *w,
                      const struct fake_event *event)
{
    bool saw = event->was && fake_selects(w->selector, event->was->labels);
    bool sees_now = !event->is_deleted && fake_selects(w->selector, event->now->labels);

    if (!(saw || sees_now) || !is_in_scope(w, event))
        return false;
    fake_printf(line, "{\"type\":\"%s\",\"object\":",
                !sees_now ? "DELETED"
                : saw     ? "MODIFIED"
                          : "ADDED");
    if (!sees_now && !event->is_deleted)
        put_as_it_was(line, w, event);
    else
        fake_version_put(line, event->now, w->is_meta ? FAKE_FORM_META : FAKE_FORM_FULL);
    fake_puts(line, "}\n");
    return true;
}

static void on_late(void *ctx)
{
    struct fake_watch *w = ctx;

    release_held(w);
    fake_flush(w->conn);
}

/* Sends an event through the fault, if there is one. */
static void send_event(struct fake_watch *w, const struct hvd_buf *line,
                       const struct fake_event *event)
{
    const struct fake_fault *f = &w->fault;
    bool is_struck = w->has_fault && w->n_events >= f->after_events &&
                     (f->n_events < 0 || w->n_events < f->after_events + f->n_events);

    w->n_events++;
    if (w->held && strcmp(w->held_key, event->now->key) == 0)
        release_held(w); /* never two of one object in the wrong order */
    if (is_struck && f->action == FAKE_FAULT_REORDER && !w->held) {
        w->held = fake_must(strndup(line->data, line->len));
        w->held_key = fake_copy(event->now->key);
        fake_timer_start(&w->conn->server->timers, &w->late, REORDER_US);
        return;
    }
    send_line(w, line);
    if (is_struck && f->action == FAKE_FAULT_DUPLICATE)
        send_line(w, line);
    release_held(w);
}

/* Whether the stream has come to where its fault ends it. */
static bool is_at_break(const struct fake_watch *w)
{
    return w->has_fault && w->n_events >= w->fault.after_events &&
           w->fault.action != FAKE_FAULT_DUPLICATE && w->fault.action != FAKE_FAULT_REORDER &&
           w->fault.action != FAKE_FAULT_SLOW && w->fault.action != FAKE_FAULT_DELAY;
}

static size_t find_place(const struct fake_log *log, uint64_t number)
{
    size_t low = 0, high = log->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (log->events[middle].number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Feeds the stream; false when it has ended, and the watch may be gone. */
static bool feed(struct fake_watch *w)
{
    struct fake_server *server = w->conn->server;
    const struct fake_log *log = &server->store.logs[fake_kind_index(w->kind)];
    struct hvd_buf line = fake_buf();

    for (size_t i = find_place(log, w->place);
         i < log->n && w->conn->out.len - w->conn->sent < MAX_UNSENT; i++) {
        const struct fake_event *event = &log->events[i];

        w->place = event->number;
        hvd_buf_reset(&line);
        if (!put_event(&line, w, event))
            continue;
        send_event(w, &line, event);
        if (is_at_break(w)) {
            hvd_buf_fini(&line);
            return !break_stream(w, w->fault.action, w->fault.code);
        }
    }
    hvd_buf_fini(&line);
    return true;
}

static bool is_silent(const struct fake_watch *w)
{
    const struct fake_conn *conn = w->conn;

    return conn->has_closed || conn->wants_close || conn->is_hung ||
           (conn->server->is_frozen && conn->is_agent);
}

static void on_watch_latency(void *ctx)
{
    struct fake_watch *w = ctx;

    if (!is_silent(w) && feed(w))
        fake_flush(w->conn);
}

void fake_watches_flush(struct fake_server *server)
{
    struct fake_watch *w, *next;

    DL_FOREACH_SAFE(server->watches, w, next)
    {
        const struct fake_log *log = &server->store.logs[fake_kind_index(w->kind)];

        if (is_silent(w) || !log->n || log->events[log->n - 1].number <= w->place)
            continue;
        if (server->config.watch_latency_us) {
            if (!w->latency.place)
                fake_timer_start(&server->timers, &w->latency, server->config.watch_latency_us);
            continue;
        }
        if (feed(w))
            fake_flush(w->conn);
    }
}

/* ---- life ---- */

static void on_timeout(void *ctx)
{
    struct fake_watch *w = ctx;

    if (is_silent(w) || !feed(w))
        return;
    if (w->has_bookmarks)
        send_bookmark(w);
    end_stream(w);
    fake_flush(w->conn);
}

static void on_bookmark(void *ctx)
{
    struct fake_watch *w = ctx;
    struct fake_server *server = w->conn->server;

    fake_timer_start(&server->timers, &w->bookmark, server->config.bookmark_us);
    if (is_silent(w) || !feed(w))
        return;
    w->place = server->store.number;
    send_bookmark(w);
    fake_flush(w->conn);
}

/* Without a version, or at "0": everything that is there comes first. */
static void send_all(struct fake_watch *w)
{
    struct fake_store *store = &w->conn->server->store;
    struct fake_object *object, *next;
    struct hvd_buf line = fake_buf();

    HASH_ITER(hh, store->objects[fake_kind_index(w->kind)], object, next)
    {
        const struct fake_event event = {object->now->number, NULL, object->now, false};

        hvd_buf_reset(&line);
        if (put_event(&line, w, &event))
            send_event(w, &line, &event);
    }
    w->place = store->number;
    hvd_buf_fini(&line);
}

static struct fake_watch *make(const struct fake_request *request, const struct fake_fault *fault)
{
    struct fake_watch *w = fake_new(sizeof(*w));
    const char *bookmarks = fake_query(request, "allowWatchBookmarks");

    w->conn = request->conn;
    w->kind = request->kind;
    w->ns = fake_copy(request->ns);
    w->name = fake_copy(request->name);
    w->selector = fake_copy(fake_query(request, "labelSelector"));
    w->is_meta = request->is_meta;
    w->has_bookmarks = bookmarks && (strcmp(bookmarks, "true") == 0 || strcmp(bookmarks, "1") == 0);
    if (fault) {
        w->has_fault = true;
        w->fault = *fault;
    }
    w->timeout = (struct fake_timer){.fire = on_timeout, .ctx = w};
    w->bookmark = (struct fake_timer){.fire = on_bookmark, .ctx = w};
    w->late = (struct fake_timer){.fire = on_late, .ctx = w};
    w->latency = (struct fake_timer){.fire = on_watch_latency, .ctx = w};
    return w;
}

void fake_watch_start(const struct fake_request *request, const struct fake_fault *fault)
{
    struct fake_conn *conn = request->conn;
    struct fake_server *server = conn->server;
    struct fake_watch *w = make(request, fault);
    const char *timeout = fake_query(request, "timeoutSeconds");
    const char *version = fake_query(request, "resourceVersion");
    int64_t timeout_s = timeout ? strtol(timeout, NULL, 10) : 1800;

    conn->watch = w;
    DL_APPEND(server->watches, w);
    fake_send_stream_head(w->conn);
    fake_timer_start(&server->timers, &w->timeout, timeout_s * 1000000);
    if (w->has_bookmarks)
        fake_timer_start(&server->timers, &w->bookmark, server->config.bookmark_us);
    if (!version || !*version || strcmp(version, "0") == 0)
        send_all(w);
    else
        w->place = strtoull(version, NULL, 10);
    if (w->place < server->store.logs[fake_kind_index(w->kind)].forgotten)
        send_error(w, 410);
    else if (is_at_break(w))
        (void)break_stream(w, w->fault.action, w->fault.code);
    if (!conn->has_closed)
        fake_flush(conn);
}

void fake_watch_end(struct fake_conn *conn)
{
    struct fake_watch *w = conn->watch;

    if (!w)
        return;
    conn->watch = NULL;
    fake_timer_stop(&conn->server->timers, &w->timeout);
    fake_timer_stop(&conn->server->timers, &w->bookmark);
    fake_timer_stop(&conn->server->timers, &w->late);
    fake_timer_stop(&conn->server->timers, &w->latency);
    DL_DELETE(conn->server->watches, w);
    free(w->ns);
    free(w->name);
    free(w->selector);
    free(w->held);
    free(w->held_key);
    free(w);
}

int fake_watches_count(const struct fake_server *server)
{
    const struct fake_watch *w = NULL;
    int n = 0;

    DL_FOREACH(server->watches, w)
    {
        n++;
    }
    return n;
}

int fake_watches_do(struct fake_server *server, const char *resource, const char *action)
{
    static const char *const names[] = {"gone", "drop", "half", "garbage", "hang", "bookmark"};
    static const enum fake_fault_action kinds[] = {
        FAKE_FAULT_ANSWER, FAKE_FAULT_DROP, FAKE_FAULT_HALF, FAKE_FAULT_GARBAGE, FAKE_FAULT_HANG};
    struct fake_watch *w, *next;
    size_t which = 0;
    int n = 0;

    while (which < 6 && strcmp(names[which], action) != 0)
        which++;
    if (which == 6)
        return -1;
    DL_FOREACH_SAFE(server->watches, w, next)
    {
        if (is_silent(w) || (resource && strcmp(resource, w->kind->resource) != 0))
            continue;
        n++;
        if (which < 5) {
            (void)break_stream(w, kinds[which], 410);
        } else {
            send_bookmark(w);
            fake_flush(w->conn);
        }
    }
    return n;
}
