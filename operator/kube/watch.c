/*
 * Lists and watches one resource. No I/O and no clock of its own: it sends through the port, and
 * its caller steps it with the time, so tests drive every path. The essential state is the last
 * resource version seen. It survives broken streams; 410 or garbage discards it.
 *
 * Objects are processed one by one while their bytes arrive, so neither a page nor a line is ever
 * in memory as a whole. An object that cannot be read entirely is passed on with the parts that
 * were read.
 */
#include "operator/kube/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/api/shape.h"
#include "operator/api/version.h"
#include "operator/kube/backoff.h"
#include "operator/kube/codec.h"

#define SUBSYSTEM "watch"
#define DEFAULT_PAGE 250
#define SILENCE_MS 90000 /* bookmarks arrive every minute, or a little later */
#define WATCH_MIN_S 240
#define CUT_S 230 /* a shorter stream did not end because of its age */
#define WATCH_SPREAD_S 61
#define WATCH_GRACE_MS 15000
#define VERSION_MAX 64
#define PROBLEM_MAX 256
#define METADATA_LIST                                                                              \
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#define METADATA_WATCH "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

static const struct hvd_backoff backoff = {.first_ms = 200, .max_ms = 15000};

enum state {
    STATE_WAIT,
    STATE_LIST,
    STATE_PROBE,
    STATE_WATCH,
};

struct hvd_watch {
    struct hvd_watch_options options;
    enum state state;
    bool is_synced;
    bool needs_list;
    bool is_doubtful;   /* the version may belong to a history that the server has lost */
    bool has_gone_back; /* this watch noticed it; the owner has not taken that yet */
    bool is_rewound;    /* the history was lost: the next list begins with a call of the
                           handler's rewind */
    bool has_news;      /* this stream has sent something */
    bool has_bookmarks; /* the server has sent one on any stream */
    bool is_missing;    /* the server answered with 404 */
    bool is_open;       /* the server has accepted the watch */
    bool was_open;      /* at the last step */
    bool has_received;  /* something arrived since the last step */
    int64_t changed_ms; /* when is_open changed; -1: before the first step */
    int64_t received_ms;
    int64_t begun_ms;    /* when the stream was requested */
    unsigned n_silences; /* streams given up in a row because nothing arrived */
    uint64_t all_silences;
    unsigned n_cuts;     /* streams that the server ended before their time */
    unsigned n_failures; /* in a row */
    int64_t delay_ms;    /* from the next step on; -1: due_ms is valid */
    int64_t due_ms;
    uint32_t random;
    struct hvd_kube_call *call;     /* under way; NULL in STATE_WAIT */
    struct hvd_picker picker;       /* of the page or the stream under way */
    struct hvd_shape page_shape[3]; /* fields to read of a page of the list */
    struct hvd_shape line_shape[3]; /* fields to read of a line of the watch */
    unsigned limit;                 /* objects in the next page */
    unsigned n_items;               /* received of this page */
    bool has_begun;                 /* the handler's begin was called for this list */
    bool has_page;                  /* the whole page has arrived */
    char *next_token;               /* from this page, for the next one; NULL: it is the last */
    char *continue_token;           /* of the page under way; NULL for the first */
    char version[VERSION_MAX];
    char page_version[VERSION_MAX];
    struct hvd_err text_err; /* why a line or a page ended the answer */
    char problem[PROBLEM_MAX];
};

static const char *plural(const struct hvd_watch *watch)
{
    return hvd_kind_info(watch->options.kind)->resource;
}

static uint32_t next_random(struct hvd_watch *watch)
{
    uint32_t x = watch->random;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    watch->random = x;
    return x;
}

static void wait_for(struct hvd_watch *watch, int64_t delay_ms)
{
    watch->state = STATE_WAIT;
    watch->call = NULL;
    watch->delay_ms = delay_ms;
}

/* Starts the list over; the part received so far is not trusted. */
static void forget_position(struct hvd_watch *watch)
{
    watch->needs_list = true;
    hvd_free(watch->continue_token);
    watch->continue_token = NULL;
}

/* Prepares the picker for a page or a stream. */
static void start_picking(struct hvd_watch *watch, const struct hvd_shape *shape, hvd_pick_fn take)
{
    struct hvd_pick_options options = hvd_shape_pick(watch->options.kind);

    options.shape = shape;
    options.has_items = true;
    options.take = take;
    options.ctx = watch;
    hvd_picker_fini(&watch->picker);
    hvd_picker_init(&watch->picker, &options);
    hvd_err_clear(&watch->text_err);
}

/* Logs one line for the 1st, 2nd, 4th, 8th ... failure in a row. */
static void log_failure(const struct hvd_watch *watch, const char *text, int64_t delay_ms)
{
    char failures[16], delay[24];

    if (watch->n_failures & (watch->n_failures - 1))
        return;
    (void)snprintf(failures, sizeof(failures), "%u", watch->n_failures);
    (void)snprintf(delay, sizeof(delay), "%lld", (long long)delay_ms);
    HVD_LOG_KV(watch->options.log, HVD_LOG_WARN, SUBSYSTEM, "cannot follow a resource, retrying",
               {"resource", plural(watch)}, {"error", text}, {"failures", failures},
               {"retry_ms", delay});
}

static void fail(struct hvd_watch *watch, const char *text, int64_t at_least_ms)
{
    int64_t delay_ms;

    watch->is_doubtful = true;
    watch->n_failures++;
    (void)snprintf(watch->problem, sizeof(watch->problem), "%s", text);
    delay_ms = hvd_backoff_ms(&backoff, watch->n_failures, next_random(watch));
    if (delay_ms < at_least_ms)
        delay_ms = at_least_ms;
    log_failure(watch, text, delay_ms);
    wait_for(watch, delay_ms);
}

static void succeed(struct hvd_watch *watch)
{
    if (watch->n_failures)
        HVD_LOG_KV(watch->options.log, HVD_LOG_INFO, SUBSYSTEM, "following the resource again",
                   {"resource", plural(watch)});
    watch->n_failures = 0;
    watch->problem[0] = '\0';
}

static void set_version(struct hvd_watch *watch, const char *version)
{
    (void)snprintf(watch->version, sizeof(watch->version), "%s", version);
}

/* The server is at an older version than it sent before: its etcd was restored from a backup. A
 * watch from the known version would be silent until the server reaches it. */
static void go_back(struct hvd_watch *watch, const char *version)
{
    HVD_LOG_KV(watch->options.log, HVD_LOG_WARN, SUBSYSTEM,
               "the server is back at an older version, listing again", {"resource", plural(watch)},
               {"known", watch->version}, {"version", version});
    forget_position(watch);
    watch->version[0] = '\0';
    watch->is_rewound = true;
    watch->has_gone_back = true;
    wait_for(watch, 0);
}

/* ---- list ---- */

static void start_list(struct hvd_watch *watch);

static unsigned full_page(const struct hvd_watch *watch)
{
    return watch->options.page_limit ? watch->options.page_limit : DEFAULT_PAGE;
}

/* Calls the handler's begin before the first object of the list, or before its end. */
static void begin_list(struct hvd_watch *watch)
{
    const struct hvd_watch_handler *h = &watch->options.handler;

    if (watch->is_rewound && h->rewind)
        h->rewind(h->ctx, watch->options.kind);
    watch->is_rewound = false;
    if (!watch->has_begun)
        h->begin(h->ctx, watch->options.kind);
    watch->has_begun = true;
}

/* Drops an object whose name is unreadable: the others must not wait for it. */
static hvd_status_t take_item(struct hvd_watch *watch, struct hvd_strview copy)
{
    const struct hvd_watch_handler *h = &watch->options.handler;
    cJSON *item = NULL;
    hvd_status_t st = hvd_object_parse(copy, false, &item);

    if (st == HVD_ERR_NOMEM)
        return HVD_FAIL(&watch->text_err, st, 0, "list of %s: out of memory", plural(watch));
    begin_list(watch);
    watch->n_items++;
    if (st == HVD_OK)
        h->put(h->ctx, watch->options.kind, item);
    else
        HVD_LOG_KV(watch->options.log, HVD_LOG_ERROR, SUBSYSTEM, "cannot read an object of a list",
                   {"resource", plural(watch)}, {"error", hvd_status_str(st)});
    hvd_json_drop(item);
    return HVD_OK;
}

/* Reads the members of the page besides its items; they may precede or follow the items. */
static hvd_status_t take_page(struct hvd_watch *watch, struct hvd_strview copy)
{
    struct hvd_list_page page;
    cJSON *doc = NULL;
    hvd_status_t st = hvd_json_read(copy, &doc);

    if (st != HVD_OK)
        return HVD_FAIL(&watch->text_err, st, 0, "list of %s: %s", plural(watch),
                        hvd_status_str(st));
    st = hvd_kube_codec_list(doc, &page, &watch->text_err);
    if (st == HVD_OK) {
        (void)snprintf(watch->page_version, sizeof(watch->page_version), "%s",
                       page.resource_version);
        hvd_free(watch->next_token);
        watch->next_token = *page.continue_token ? hvd_strdup(page.continue_token) : NULL;
        if (*page.continue_token && !watch->next_token)
            st = HVD_FAIL(&watch->text_err, HVD_ERR_NOMEM, 0, "list of %s: out of memory",
                          plural(watch));
    }
    watch->has_page = st == HVD_OK;
    hvd_json_drop(doc);
    return st;
}

static hvd_status_t take_list_text(void *ctx, struct hvd_strview copy, bool is_item)
{
    return is_item ? take_item(ctx, copy) : take_page(ctx, copy);
}

static hvd_status_t on_list_data(void *ctx, struct hvd_strview bytes)
{
    struct hvd_watch *watch = ctx;

    watch->has_received = true;
    return hvd_picker_feed(&watch->picker, bytes);
}

/* Requests the next page, or completes the list. */
static void finish_page(struct hvd_watch *watch)
{
    const struct hvd_watch_handler *h = &watch->options.handler;

    begin_list(watch);
    watch->limit = watch->limit < full_page(watch) / 2 ? watch->limit * 2 : full_page(watch);
    hvd_free(watch->continue_token);
    watch->continue_token = watch->next_token;
    watch->next_token = NULL;
    if (watch->continue_token) {
        start_list(watch);
        return;
    }
    if (hvd_version_is_older(watch->page_version, watch->version)) {
        go_back(watch, watch->page_version);
        return;
    }
    set_version(watch, watch->page_version);
    watch->needs_list = false;
    watch->is_doubtful = false;
    watch->is_synced = true;
    h->end(h->ctx, watch->options.kind, watch->version);
    HVD_LOG_KV(watch->options.log, HVD_LOG_DEBUG, SUBSYSTEM, "listed", {"resource", plural(watch)},
               {"version", watch->version});
    succeed(watch);
    wait_for(watch, 0);
}

/* Whether a smaller page may help: this one was too large, or did not arrive in time. */
static bool is_about_size(hvd_status_t st, const struct hvd_kube_response *response)
{
    return st == HVD_ERR_TIMEOUT || st == HVD_ERR_TOO_LARGE ||
           (st == HVD_ERR_UNAVAILABLE && response->code >= 500);
}

/* Requests half as many objects, or as many as have arrived: the same page again, if possible. */
static void fail_page(struct hvd_watch *watch, hvd_status_t st,
                      const struct hvd_kube_response *response)
{
    const char *text = *watch->text_err.msg                      ? watch->text_err.msg
                       : response->err && response->status == st ? response->err->msg
                                                                 : hvd_status_str(st);

    if (is_about_size(st, response)) {
        watch->limit = watch->limit > 1 ? watch->limit / 2 : 1;
        if (watch->n_items && watch->n_items < watch->limit)
            watch->limit = watch->n_items;
    }
    if (st != HVD_ERR_TIMEOUT && st != HVD_ERR_TOO_LARGE && st != HVD_ERR_UNAVAILABLE)
        forget_position(watch);
    if (st == HVD_ERR_NOT_FOUND && watch->options.kind == HVD_KIND_HOROVODJOB)
        text = "the server has no HorovodJob: install it by kubectl apply -f crds/";
    fail(watch, text, response->retry_after_ms);
}

static void on_list_done(void *ctx, const struct hvd_kube_response *response)
{
    struct hvd_watch *watch = ctx;
    hvd_status_t st = response->status;

    if (st == HVD_ERR_CANCELED) {
        wait_for(watch, INT64_MAX / 2);
        return;
    }
    watch->has_received |= response->code != 0;
    watch->is_missing = st == HVD_ERR_NOT_FOUND;
    if (st == HVD_OK)
        st = hvd_picker_end(&watch->picker);
    if (st == HVD_OK && !watch->has_page)
        st = HVD_ERR_INVALID;
    if (st == HVD_ERR_INVALID && response->status == HVD_OK && !*watch->text_err.msg)
        hvd_err_set(&watch->text_err, st, 0, "list of %s: the answer is cut short", plural(watch));
    hvd_picker_reset(&watch->picker);
    if (st == HVD_OK)
        finish_page(watch);
    else
        fail_page(watch, st, response);
}

static hvd_status_t put_list_query(const struct hvd_watch *watch, struct hvd_buf *query)
{
    char limit[16];
    bool first = true;
    hvd_status_t st;

    (void)snprintf(limit, sizeof(limit), "%u", watch->limit);
    st = hvd_url_put_query(query, &first, "limit", limit);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "labelSelector", watch->options.label_selector);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "fieldSelector", watch->options.field_selector);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "continue", watch->continue_token);
    return st;
}

static void start_list(struct hvd_watch *watch)
{
    struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST,
        .path = {.kind = watch->options.kind, .ns = watch->options.ns},
        .accept = watch->options.is_metadata_only ? METADATA_LIST : NULL,
        .on_data = on_list_data,
        .on_done = on_list_done,
        .ctx = watch,
    };
    struct hvd_buf query;
    struct hvd_err err = {0};
    hvd_status_t st;

    hvd_buf_init(&query, 16 * 1024);
    st = put_list_query(watch, &query);
    request.query = query.data;
    watch->state = STATE_LIST;
    watch->n_items = 0;
    watch->has_page = false;
    watch->has_begun &= watch->continue_token != NULL;
    start_picking(watch, watch->page_shape, take_list_text);
    if (st == HVD_OK)
        st = watch->options.api->send(watch->options.api->self, &request, &watch->call, &err);
    if (st != HVD_OK) {
        forget_position(watch);
        fail(watch, *err.msg ? err.msg : hvd_status_str(st), 0);
    }
    hvd_buf_fini(&query);
}

/* ---- whether the server is at the version from which to watch, or beyond it ---- */

static void on_probe_done(void *ctx, const struct hvd_kube_response *response)
{
    struct hvd_watch *watch = ctx;
    const char *version = hvd_kube_api_text(
        cJSON_GetObjectItemCaseSensitive(response->body, "metadata"), "resourceVersion");

    watch->has_received |= response->code != 0;
    if (response->status == HVD_ERR_CANCELED) {
        wait_for(watch, INT64_MAX / 2);
    } else if (response->status != HVD_OK) {
        watch->is_missing |= response->status == HVD_ERR_NOT_FOUND;
        if (response->status == HVD_ERR_NOT_FOUND)
            forget_position(watch);
        fail(watch, response->err ? response->err->msg : hvd_status_str(response->status),
             response->retry_after_ms);
    } else if (hvd_version_is_older(version, watch->version)) {
        go_back(watch, version);
    } else {
        if (!hvd_version_number(version) || !hvd_version_number(watch->version))
            forget_position(watch);
        watch->is_doubtful = false;
        wait_for(watch, 0);
    }
}

/* Requests any one object: the answer has the server's current version. */
static void start_probe(struct hvd_watch *watch)
{
    struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST,
        .path = {.kind = watch->options.kind, .ns = watch->options.ns},
        .accept = METADATA_LIST,
        .is_fresh = watch->n_silences && watch->has_bookmarks,
        .on_done = on_probe_done,
        .ctx = watch,
    };
    struct hvd_buf query;
    struct hvd_err err = {0};
    bool first = true;
    hvd_status_t st;

    hvd_buf_init(&query, 16 * 1024);
    st = hvd_url_put_query(&query, &first, "limit", "1");
    if (st == HVD_OK)
        st = hvd_url_put_query(&query, &first, "fieldSelector", watch->options.field_selector);
    request.query = query.data;
    watch->state = STATE_PROBE;
    if (st == HVD_OK)
        st = watch->options.api->send(watch->options.api->self, &request, &watch->call, &err);
    if (st != HVD_OK)
        fail(watch, *err.msg ? err.msg : hvd_status_str(st), 0);
    hvd_buf_fini(&query);
}

/* ---- watch ---- */

static hvd_status_t take_line(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct hvd_watch *watch = ctx;
    const struct hvd_watch_handler *h = &watch->options.handler;
    struct hvd_watch_event event;
    hvd_status_t st = hvd_kube_codec_watch(copy, &event, &watch->text_err);

    (void)is_item;
    if (st != HVD_OK)
        return st;
    if (hvd_version_is_older(event.resource_version, watch->version)) {
        st = HVD_FAIL(&watch->text_err, HVD_ERR_GONE, 0, "an event of version %s after %s",
                      event.resource_version, watch->version);
        watch->is_doubtful = true;
        hvd_json_drop(event.doc);
        return st;
    }
    watch->has_news = true;
    if (event.type == HVD_WATCH_PUT)
        h->put(h->ctx, watch->options.kind, event.object);
    else if (event.type == HVD_WATCH_REMOVE)
        h->remove(h->ctx, watch->options.kind, event.object);
    else
        watch->has_bookmarks = true;
    set_version(watch, event.resource_version);
    hvd_json_drop(event.doc);
    return HVD_OK;
}

static void on_watch_open(void *ctx)
{
    struct hvd_watch *watch = ctx;

    watch->is_open = true;
    watch->has_received = true;
}

static hvd_status_t on_watch_data(void *ctx, struct hvd_strview bytes)
{
    struct hvd_watch *watch = ctx;

    watch->has_received = true;
    watch->n_silences = 0;
    return hvd_kube_codec_feed(&watch->picker, bytes);
}

static void on_watch_done(void *ctx, const struct hvd_kube_response *response)
{
    struct hvd_watch *watch = ctx;
    const char *text = *watch->text_err.msg ? watch->text_err.msg
                       : response->err      ? response->err->msg
                                            : "the stream ended at once";

    hvd_picker_reset(&watch->picker);
    watch->is_open = false;
    switch (response->status) {
    case HVD_ERR_CANCELED:
        wait_for(watch, INT64_MAX / 2);
        return;
    case HVD_OK:
    case HVD_ERR_TIMEOUT:
        break;
    case HVD_ERR_GONE:
        HVD_LOG_KV(watch->options.log, HVD_LOG_INFO, SUBSYSTEM, "version too old, listing again",
                   {"resource", plural(watch)}, {"version", watch->version});
        forget_position(watch);
        if (watch->is_doubtful)
            fail(watch, text, 0);
        else
            wait_for(watch, 0);
        return;
    case HVD_ERR_NOT_FOUND: /* its definition was removed: a new one is another resource */
        watch->is_missing = true;
        forget_position(watch);
        fail(watch, text, response->retry_after_ms);
        return;
    case HVD_ERR_INVALID:
    case HVD_ERR_TOO_LARGE:
    case HVD_ERR_NOMEM:
        forget_position(watch);
        fail(watch, text, response->retry_after_ms);
        return;
    default:
        fail(watch, text, response->retry_after_ms);
        return;
    }
    if (watch->has_news || response->status == HVD_ERR_TIMEOUT) {
        succeed(watch);
        wait_for(watch, 0);
    } else {
        fail(watch, text, 0);
    }
}

static hvd_status_t put_watch_query(const struct hvd_watch *watch, unsigned timeout_s,
                                    struct hvd_buf *query)
{
    char timeout[16];
    bool first = true;
    hvd_status_t st;

    (void)snprintf(timeout, sizeof(timeout), "%u", timeout_s);
    st = hvd_url_put_query(query, &first, "watch", "true");
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "allowWatchBookmarks", "true");
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "resourceVersion", watch->version);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "timeoutSeconds", timeout);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "labelSelector", watch->options.label_selector);
    if (st == HVD_OK)
        st = hvd_url_put_query(query, &first, "fieldSelector", watch->options.field_selector);
    return st;
}

static void start_watch(struct hvd_watch *watch, int64_t now_ms)
{
    unsigned timeout_s = WATCH_MIN_S + next_random(watch) % WATCH_SPREAD_S;
    struct hvd_kube_request request = {
        .verb = HVD_VERB_WATCH,
        .path = {.kind = watch->options.kind, .ns = watch->options.ns},
        .accept = watch->options.is_metadata_only ? METADATA_WATCH : NULL,
        .timeout_ms = (int64_t)timeout_s * 1000 + WATCH_GRACE_MS,
        .is_fresh = watch->n_silences && watch->has_bookmarks,
        .on_open = on_watch_open,
        .on_data = on_watch_data,
        .on_done = on_watch_done,
        .ctx = watch,
    };
    struct hvd_buf query;
    struct hvd_err err = {0};
    hvd_status_t st;

    hvd_buf_init(&query, 16 * 1024);
    st = put_watch_query(watch, timeout_s, &query);
    request.query = query.data;
    watch->has_news = false;
    watch->begun_ms = now_ms;
    watch->state = STATE_WATCH;
    start_picking(watch, watch->line_shape, take_line);
    if (st == HVD_OK)
        st = watch->options.api->send(watch->options.api->self, &request, &watch->call, &err);
    if (st != HVD_OK)
        fail(watch, *err.msg ? err.msg : hvd_status_str(st), 0);
    hvd_buf_fini(&query);
}

/* ---- silence ---- */

static int64_t silent_at_ms(const struct hvd_watch *watch)
{
    int64_t received_ms =
        watch->received_ms > watch->begun_ms ? watch->received_ms : watch->begun_ms;

    return received_ms + SILENCE_MS;
}

/*
 * The server sends a bookmark about every minute. So a silent stream is dead even if TCP keeps it
 * open, or it waits for a version that the server has not reached. A probe finds out, and a second
 * stream without a bookmark ends in a list. A server without bookmarks costs a new stream every 90
 * seconds, which is logged at exponentially growing intervals.
 */
static void give_up_stream(struct hvd_watch *watch)
{
    const struct hvd_kube_api *api = watch->options.api;
    char times[16];

    api->cancel(api->self, watch->call);
    watch->is_open = false;
    watch->n_silences++;
    watch->all_silences++;
    watch->is_doubtful = true;
    if (watch->has_bookmarks && watch->n_silences > 1)
        forget_position(watch);
    (void)snprintf(times, sizeof(times), "%u", watch->n_silences);
    if ((watch->n_silences & (watch->n_silences - 1)) == 0)
        HVD_LOG_KV(watch->options.log, HVD_LOG_WARN, SUBSYSTEM,
                   "nothing came for 90 s, not even a bookmark: connecting anew",
                   {"resource", plural(watch)}, {"in_a_row", times});
    wait_for(watch, 0);
    if (api->suspect)
        api->suspect(api->self, SILENCE_MS);
}

/* ---- life ---- */

hvd_status_t hvd_watch_create(const struct hvd_watch_options *options, struct hvd_watch **out,
                              struct hvd_err *err)
{
    struct hvd_watch *watch = hvd_calloc(1, sizeof(*watch));

    if (!watch)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "watch of %s: out of memory",
                        hvd_kind_info(options->kind)->resource);
    watch->options = *options;
    watch->page_shape[0].name = "metadata";
    watch->page_shape[1] = (struct hvd_shape){"items", hvd_shape_of_kind(options->kind)};
    watch->line_shape[0].name = "type";
    watch->line_shape[1] = (struct hvd_shape){"object", hvd_shape_of_kind(options->kind)};
    watch->needs_list = true;
    watch->changed_ms = -1;
    watch->random = options->seed ? options->seed : 1;
    watch->limit = full_page(watch);
    *out = watch;
    return HVD_OK;
}

void hvd_watch_destroy(struct hvd_watch *watch)
{
    if (!watch)
        return;
    if (watch->call)
        watch->options.api->cancel(watch->options.api->self, watch->call);
    hvd_picker_fini(&watch->picker);
    hvd_free(watch->continue_token);
    hvd_free(watch->next_token);
    hvd_free(watch);
}

static void note_health(struct hvd_watch *watch, int64_t now_ms)
{
    if (watch->was_open && !watch->is_open && now_ms - watch->begun_ms < CUT_S * 1000)
        watch->n_cuts++;
    if (watch->is_open != watch->was_open || watch->changed_ms < 0)
        watch->changed_ms = now_ms;
    watch->was_open = watch->is_open;
    if (watch->has_received)
        watch->received_ms = now_ms;
    watch->has_received = false;
}

/* A list has a deadline of its own. */
static int64_t due_under_way(const struct hvd_watch *watch)
{
    return watch->state == STATE_WATCH ? silent_at_ms(watch) : INT64_MAX;
}

int64_t hvd_watch_step(struct hvd_watch *watch, int64_t now_ms)
{
    note_health(watch, now_ms);
    if (watch->state == STATE_WATCH && now_ms >= silent_at_ms(watch))
        give_up_stream(watch);
    if (watch->state != STATE_WAIT)
        return due_under_way(watch);
    if (watch->delay_ms >= 0) {
        watch->due_ms = now_ms + watch->delay_ms;
        watch->delay_ms = -1;
    }
    if (now_ms < watch->due_ms)
        return watch->due_ms;
    if (watch->needs_list)
        start_list(watch);
    else if (watch->is_doubtful)
        start_probe(watch);
    else
        start_watch(watch, now_ms);
    if (watch->state != STATE_WAIT)
        return due_under_way(watch);
    return now_ms + (watch->delay_ms > 0 ? watch->delay_ms : 0);
}

bool hvd_watch_take_gone_back(struct hvd_watch *watch)
{
    const bool has_gone_back = watch->has_gone_back;

    watch->has_gone_back = false;
    return has_gone_back;
}

void hvd_watch_rewind(struct hvd_watch *watch)
{
    if (watch->is_rewound)
        return;
    if (watch->state != STATE_WAIT) {
        watch->options.api->cancel(watch->options.api->self, watch->call);
        watch->is_open = false;
        wait_for(watch, 0);
    }
    watch->version[0] = '\0';
    watch->is_rewound = true;
    forget_position(watch);
}

void hvd_watch_relist(struct hvd_watch *watch)
{
    if (watch->state == STATE_LIST)
        return;
    if (watch->state != STATE_WAIT) {
        watch->options.api->cancel(watch->options.api->self, watch->call);
        watch->is_open = false;
        wait_for(watch, 0);
    }
    forget_position(watch);
}

bool hvd_watch_is_synced(const struct hvd_watch *watch)
{
    return watch->is_synced;
}

struct hvd_watch_health hvd_watch_health(const struct hvd_watch *watch)
{
    return (struct hvd_watch_health){
        .is_synced = watch->is_synced,
        .is_missing = watch->is_missing,
        .is_open = watch->was_open,
        .changed_ms = watch->changed_ms,
        .received_ms = watch->received_ms,
        .n_silences = watch->all_silences,
        .n_cuts = watch->n_cuts,
        .problem = watch->problem,
    };
}
