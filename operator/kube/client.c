/*
 * The API client: every request and every watch stream is an easy handle on one libcurl multi
 * handle, which puts them on one HTTP/2 connection. One thread steps it. on_done runs outside
 * libcurl and may send further requests; on_data runs inside it and may not. A call stays on the
 * client's list from send until its on_done has returned, or until cancel.
 */
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/api/shape.h"
#include "operator/kube/client_internal.h"
#include "operator/kube/httpdate.h"

/* For an answer that is read whole: a Lease. */
#define BODY_MAX ((size_t)2 * 1024 * 1024)
/* For the fields read of a list that is collected: events, or the pods of a job. */
#define LIST_MAX ((size_t)64 * 1024 * 1024)
#define ERROR_BODY_MAX ((size_t)256 * 1024)
#define COPY_MAX (LIST_MAX + BODY_MAX) /* at least what a picker makes */
#define DEFAULT_TIMEOUT_MS 30000
#define NAME_MAX_BYTES 256
#define MAX_FDS 8
/* For bytes from the network, one buffer for each request under way. libcurl stops reading the
 * connection while one is full. A 16 KiB frame of HTTP/2 fits into each buffer. A stream's buffer
 * is larger: it holds what libcurl reads at once, which is twice as much. */
#define BUFFER 20480L
#define STREAM_BUFFER 32768L
#define LIST_BUFFER 65536L
/* libcurl 7.88 may read a whole answer and notice its end only when more bytes arrive on the
 * connection. The API server ends each answer with a line end: so long after one the answer is
 * complete. */
#define LATE_END_MS 100
/* Connections that stay open. The memory of an idle one lies among short-lived allocations, and
 * keeps that memory from returning to the system. A server of HTTP/2 needs one; without TLS a burst
 * of work opens more. */
#define MAX_CONNECTIONS 16L

static const char silent[] = "the API server is silent: the connection was given up";

struct hvd_kube_call {
    struct hvd_kube_client *client;
    struct hvd_kube_call *prev, *next;
    CURL *easy;
    struct curl_slist *headers;
    struct hvd_kube_request request; /* path strings point to ns and name below */
    struct hvd_picker picker;        /* of the body; of a stream only for an error */
    struct hvd_shape list[3];        /* the fields to read of a list that is collected */
    struct hvd_buf body;             /* the picker's copy, when it is complete */
    bool has_begun;                  /* the body has begun */
    bool is_unreadable;              /* the body is no JSON, or an error that is too long */
    hvd_status_t data_status;        /* the last result of on_data, or why no body was collected */
    bool is_retried;                 /* with a new token */
    bool is_open;                    /* on_open was called */
    bool is_dropped;                 /* its connection was given up; on_done is due */
    int64_t sent_ms;
    int64_t whole_ms; /* when the received part ended with a line end and may be all; 0: it did
                         not */
    int64_t date_s;   /* of the headers of the current answer; 0: none yet */
    char ns[NAME_MAX_BYTES];
    char name[NAME_MAX_BYTES];
    char error[CURL_ERROR_SIZE];
};

struct hvd_kube_client {
    struct hvd_kube_session session;
    struct hvd_kube_client_options options;
    struct hvd_kube_api api;
    CURLM *multi;
    struct hvd_kube_call *calls;
    int64_t received_ms; /* when the server last sent anything */
    bool is_closing;
    bool is_ahead;   /* the last flush moved bytes; ended calls are not processed yet */
    bool has_unsent; /* libcurl has not processed some requests yet */
    bool is_deaf;    /* a request timed out, and the server sent nothing since it was sent */
};

hvd_status_t hvd_kube_client_global_init(struct hvd_err *err)
{
    CURLcode rc = curl_global_init(CURL_GLOBAL_DEFAULT);

    if (rc != CURLE_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, (int)rc, "libcurl: %s", curl_easy_strerror(rc));
    return HVD_OK;
}

void hvd_kube_client_global_fini(void)
{
    curl_global_cleanup();
}

static hvd_status_t keep_copy(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct hvd_kube_call *call = ctx;

    (void)is_item;
    return hvd_buf_add(&call->body, copy.data, copy.len);
}

/* What to read of the answer; an error is a Status, whatever the request. */
static struct hvd_pick_options pick_options(struct hvd_kube_call *call, bool is_good)
{
    static const struct hvd_shape status[] = {{"kind", NULL},    {"code", NULL},
                                              {"reason", NULL},  {"message", NULL},
                                              {"details", NULL}, {NULL, NULL}};
    const struct hvd_kube_request *r = &call->request;
    struct hvd_pick_options options = {.shape = r->shape, .max_bytes = BODY_MAX};

    if (!is_good) {
        options = (struct hvd_pick_options){.shape = status, .max_bytes = ERROR_BODY_MAX};
    } else if (r->verb == HVD_VERB_LIST) {
        options = hvd_shape_pick(r->path.kind);
        call->list[0].name = "metadata";
        call->list[1] = (struct hvd_shape){"items", options.object};
        options.shape = call->list;
        options.max_total = LIST_MAX;
    } else if (r->shape && r->shape == hvd_shape_of_kind(r->path.kind)) {
        options = hvd_shape_pick(r->path.kind);
    }
    options.take = keep_copy;
    options.ctx = call;
    return options;
}

/* Picks the body while it arrives. A body that is no JSON is read to its end, because the code
 * counts. */
static hvd_status_t gather(struct hvd_kube_call *call, struct hvd_strview bytes, bool is_good)
{
    hvd_status_t st;

    if (!call->has_begun) {
        const struct hvd_pick_options options = pick_options(call, is_good);

        hvd_picker_init(&call->picker, &options);
        call->has_begun = true;
    }
    if (call->is_unreadable)
        return HVD_OK;
    st = hvd_picker_feed(&call->picker, bytes);
    call->is_unreadable = st != HVD_OK && (st == HVD_ERR_INVALID || !is_good);
    return call->is_unreadable ? HVD_OK : st;
}

static void forget_body(struct hvd_kube_call *call)
{
    hvd_picker_fini(&call->picker);
    hvd_buf_fini(&call->body);
    call->has_begun = false;
    call->is_unreadable = false;
}

static size_t on_write(char *data, size_t size, size_t n, void *ctx)
{
    struct hvd_kube_call *call = ctx;
    const struct hvd_strview bytes = {data, size * n};
    long code = 0;

    call->client->received_ms = hvd_kube_session_now_ms();
    if (call->request.verb != HVD_VERB_WATCH && bytes.len)
        call->whole_ms = data[bytes.len - 1] == '\n' ? call->client->received_ms : 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &code);
    if (call->request.on_data && code >= 200 && code < 300)
        call->data_status = call->request.on_data(call->request.ctx, bytes);
    else
        call->data_status = gather(call, bytes, code >= 200 && code < 300);
    return call->data_status == HVD_OK ? bytes.len : 0;
}

/* A proxy's own answer (502 to 504) has the proxy's time. */
static void note_date(struct hvd_kube_call *call, long code)
{
    const struct hvd_kube_client_options *options = &call->client->options;
    const struct hvd_kube_date date = {call->date_s, call->sent_ms, call->client->received_ms};

    if (options->dated && call->date_s && code >= 200 && code < 500)
        options->dated(options->observe_ctx, &date);
    call->date_s = 0;
}

/* Takes one header line; the empty line ends the headers. */
static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct hvd_kube_call *call = ctx;
    size_t len = size * n;
    long code = 0;

    call->client->received_ms = hvd_kube_session_now_ms();
    if (len > 2 || (len && data[0] != '\r' && data[0] != '\n')) {
        int64_t date_s = hvd_httpdate_parse((struct hvd_strview){data, len});
        call->date_s = date_s ? date_s : call->date_s;
        return len;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &code);
    note_date(call, code);
    if (!call->is_open && call->request.on_open && code >= 200 && code < 300) {
        call->is_open = true;
        call->request.on_open(call->request.ctx);
    }
    return len;
}

static void free_headers(struct hvd_kube_call *call)
{
    for (struct curl_slist *h = call->headers; h; h = h->next)
        if (hvd_str_has_prefix(h->data, "Authorization:"))
            explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(call->headers);
    call->headers = NULL;
}

static void destroy_call(struct hvd_kube_call *call)
{
    if (!call)
        return;
    if (call->easy)
        curl_easy_cleanup(call->easy);
    free_headers(call);
    forget_body(call);
    hvd_free(call);
}

static bool add_header(struct hvd_kube_call *call, const char *key, const char *value)
{
    struct curl_slist *longer;
    char line[256];
    struct hvd_strview text = hvd_strview_of(value);

    if (text.len + strlen(key) + 3 > sizeof(line))
        return false;
    (void)snprintf(line, sizeof(line), "%s: %s", key, value);
    longer = curl_slist_append(call->headers, line);
    if (longer)
        call->headers = longer;
    return longer != NULL;
}

/* Builds the headers with the current token. */
static CURLcode set_headers(struct hvd_kube_call *call)
{
    const struct hvd_kube_request *r = &call->request;
    bool ok;

    free_headers(call);
    ok = add_header(call, "Accept", r->accept ? r->accept : "application/json");
    if (ok && r->content_type)
        ok = add_header(call, "Content-Type", r->content_type);
    if (ok)
        ok = hvd_kube_session_add_auth(&call->client->session, &call->headers);
    return ok ? curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers)
              : CURLE_OUT_OF_MEMORY;
}

static CURLcode set_body(struct hvd_kube_call *call)
{
    const struct hvd_kube_request *r = &call->request;
    CURLcode rc =
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, hvd_kube_api_verb_method(r->verb));

    if (rc == CURLE_OK && r->body) {
        rc = curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(r->body));
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, r->body);
    }
    return rc;
}

static CURLcode configure(struct hvd_kube_call *call, const char *url)
{
    const struct hvd_kube_request *r = &call->request;
    long timeout_ms = (long)(r->timeout_ms ? r->timeout_ms : DEFAULT_TIMEOUT_MS);
    CURLcode rc = hvd_kube_session_apply(&call->client->session, call->easy);

    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_URL, url);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_BUFFERSIZE,
                              r->verb == HVD_VERB_LIST    ? LIST_BUFFER
                              : r->verb == HVD_VERB_WATCH ? STREAM_BUFFER
                                                          : BUFFER);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, r->is_fresh ? 1L : 0L);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->error);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_write);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    if (rc == CURLE_OK)
        rc = set_body(call);
    return rc == CURLE_OK ? set_headers(call) : rc;
}

static hvd_status_t put_url(const struct hvd_kube_client *client,
                            const struct hvd_kube_request *request, struct hvd_buf *url)
{
    hvd_status_t st = hvd_buf_puts(url, client->session.server);

    if (st == HVD_OK)
        st = hvd_url_put_path(url, &request->path);
    if (st == HVD_OK && request->query)
        st = hvd_buf_puts(url, request->query);
    return st;
}

/* Copies the names, which messages need after send has returned. */
static void copy_request(struct hvd_kube_call *call, const struct hvd_kube_request *request)
{
    call->request = *request;
    if (request->path.ns) {
        (void)snprintf(call->ns, sizeof(call->ns), "%s", request->path.ns);
        call->request.path.ns = call->ns;
    }
    if (request->path.name) {
        (void)snprintf(call->name, sizeof(call->name), "%s", request->path.name);
        call->request.path.name = call->name;
    }
}

static hvd_status_t start_call(struct hvd_kube_client *client, struct hvd_kube_call *call,
                               const char *url, struct hvd_err *err)
{
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    CURLMcode mc;

    call->easy = curl_easy_init();
    if (call->easy)
        rc = configure(call, url);
    if (rc != CURLE_OK)
        return HVD_FAIL(err, rc == CURLE_OUT_OF_MEMORY ? HVD_ERR_NOMEM : HVD_ERR_SYSTEM, (int)rc,
                        "%s: %s", url, curl_easy_strerror(rc));
    call->request.body = NULL;
    call->request.query = NULL;
    mc = curl_multi_add_handle(client->multi, call->easy);
    if (mc != CURLM_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, (int)mc, "%s: %s", url, curl_multi_strerror(mc));
    return HVD_OK;
}

static hvd_status_t client_send(void *self, const struct hvd_kube_request *request,
                                struct hvd_kube_call **out, struct hvd_err *err)
{
    struct hvd_kube_client *client = self;
    struct hvd_kube_call *call;
    struct hvd_buf url;
    hvd_status_t st;

    if (client->is_closing)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "the API client is shutting down");
    call = hvd_calloc(1, sizeof(*call));
    if (!call)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "API request: out of memory");
    hvd_buf_init(&url, 16 * 1024);
    call->client = client;
    hvd_buf_init(&call->body, COPY_MAX);
    copy_request(call, request);
    call->sent_ms = hvd_kube_session_now_ms();
    (void)hvd_kube_session_refresh(&client->session, call->sent_ms, false);
    st = put_url(client, request, &url);
    if (st != HVD_OK)
        hvd_err_set(err, st, 0, "URL of %s: %s", hvd_kind_info(request->path.kind)->resource,
                    hvd_status_str(st));
    else
        st = start_call(client, call, url.data, err);
    hvd_buf_fini(&url);
    if (st != HVD_OK) {
        destroy_call(call);
        return st;
    }
    DL_APPEND(client->calls, call);
    if (out)
        *out = call;
    client->has_unsent = true;
    /* The server builds the next page while the caller processes this one. */
    if (request->verb == HVD_VERB_LIST)
        (void)hvd_kube_client_flush(client);
    return HVD_OK;
}

static void detach(struct hvd_kube_call *call)
{
    struct hvd_kube_client *client = call->client;

    if (!call->is_dropped)
        (void)curl_multi_remove_handle(client->multi, call->easy);
    DL_DELETE(client->calls, call);
}

static void client_cancel(void *self, struct hvd_kube_call *call)
{
    (void)self;
    detach(call);
    destroy_call(call);
}

/* The status for a transfer that ended without an HTTP answer. */
static hvd_status_t judge_transport(const struct hvd_kube_call *call, CURLcode rc,
                                    struct hvd_err *err)
{
    hvd_status_t st = rc == CURLE_OPERATION_TIMEDOUT ? HVD_ERR_TIMEOUT : HVD_ERR_UNAVAILABLE;
    char what[512];

    (void)hvd_kube_api_describe(&call->request, what, sizeof(what));
    if (call->data_status != HVD_OK)
        return HVD_FAIL(err, call->data_status, 0, "%s: %s", what,
                        hvd_status_str(call->data_status));
    hvd_err_set(err, st, (int)rc, "%s: %s: %s", what, call->client->session.config->server,
                call->error[0] ? call->error : curl_easy_strerror(rc));
    return st;
}

/* Repeats the request after a 401 if the token has rotated meanwhile. */
static bool retry_with_new_token(struct hvd_kube_call *call, long code)
{
    struct hvd_kube_client *client = call->client;
    const char *sent = NULL;
    bool is_new;

    if (code != 401 || call->is_retried || !client->session.config->token_file)
        return false;
    (void)hvd_kube_session_refresh(&client->session, hvd_kube_session_now_ms(), true);
    for (struct curl_slist *h = call->headers; h; h = h->next)
        if (hvd_str_has_prefix(h->data, "Authorization: Bearer "))
            sent = h->data + strlen("Authorization: Bearer ");
    is_new = !hvd_str_equal(sent, client->session.token);
    if (!is_new || set_headers(call) != CURLE_OK)
        return false;
    forget_body(call);
    call->whole_ms = 0;
    call->is_retried = true;
    (void)curl_multi_remove_handle(client->multi, call->easy);
    return curl_multi_add_handle(client->multi, call->easy) == CURLM_OK;
}

static void observe(const struct hvd_kube_call *call, long code)
{
    const struct hvd_kube_client_options *options = &call->client->options;
    struct hvd_kube_observation observation = {call->request.verb, call->request.path.kind, code,
                                               0};
    curl_off_t total_us = 0;

    (void)curl_easy_getinfo(call->easy, CURLINFO_TOTAL_TIME_T, &total_us);
    observation.total_us = (int64_t)total_us;
    if (options->observe)
        options->observe(options->observe_ctx, &observation);
}

/* Whether the request left on a connection on which nothing arrived since. */
static bool is_unheard(const struct hvd_kube_call *call, CURLcode rc)
{
    curl_off_t ready_us = 0;

    (void)curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    return rc == CURLE_OPERATION_TIMEDOUT && ready_us > 0 &&
           call->client->received_ms < call->sent_ms;
}

/* Parses the body; *out stays NULL when there is none. Fails only for lack of memory. */
static hvd_status_t read_body(struct hvd_kube_call *call, bool is_good, cJSON **out)
{
    struct hvd_strview copy;
    hvd_status_t st = HVD_OK;

    if (!call->has_begun || call->is_unreadable)
        return HVD_OK;
    st = hvd_picker_end(&call->picker);
    copy = (struct hvd_strview){call->body.data, call->body.len};
    if (st == HVD_OK && copy.len)
        st = is_good && call->request.shape ? hvd_object_parse(copy, false, out)
                                            : hvd_json_read(copy, out);
    forget_body(call);
    return st == HVD_ERR_NOMEM ? st : HVD_OK;
}

static void finish_call(struct hvd_kube_call *call, CURLcode rc)
{
    struct hvd_kube_client *client = call->client;
    struct hvd_kube_response response = {.status = HVD_ERR_UNAVAILABLE};
    struct hvd_err err = {0};
    curl_off_t retry_after_s = 0;
    cJSON *body = NULL;
    hvd_status_t read;
    char what[512];

    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &response.code);
    (void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    observe(call, response.code);
    client->is_deaf |= is_unheard(call, rc);
    if (rc == CURLE_OK && retry_with_new_token(call, response.code))
        return;
    detach(call);
    read = read_body(call, response.code < 300, &body);
    if (rc != CURLE_OK)
        response.status = judge_transport(call, rc, &err);
    else
        response.status = hvd_kube_api_judge(&call->request, response.code, body, &err);
    if (response.status == HVD_OK && read != HVD_OK)
        response.status = HVD_FAIL(&err, read, 0, "%s %s: out of memory",
                                   hvd_kube_api_verb_name(call->request.verb),
                                   hvd_kind_info(call->request.path.kind)->resource);
    if (response.status == HVD_OK && !call->request.on_data && !body)
        response.status =
            HVD_FAIL(&err, HVD_ERR_UNAVAILABLE, (int)response.code, "%s: the answer is not JSON",
                     hvd_kube_api_describe(&call->request, what, sizeof(what)));
    response.retry_after_ms = (int64_t)retry_after_s * 1000;
    response.body = body;
    response.err = response.status == HVD_OK ? NULL : &err;
    call->request.on_done(call->request.ctx, &response);
    hvd_json_drop(body);
    destroy_call(call);
}

/* A call whose whole answer has arrived although libcurl has not noticed its end; NULL: none. The
 * reader of the answer notices a missing part. */
static struct hvd_kube_call *find_late(const struct hvd_kube_client *client)
{
    const int64_t now_ms = hvd_kube_session_now_ms();
    struct hvd_kube_call *call;

    DL_FOREACH(client->calls, call)
    {
        if (call->whole_ms && now_ms - call->whole_ms >= LATE_END_MS)
            return call;
    }
    return NULL;
}

/* Whether the end of an answer is still due. */
static bool awaits_end(const struct hvd_kube_client *client)
{
    const struct hvd_kube_call *call;

    DL_FOREACH(client->calls, call)
    {
        if (call->whole_ms)
            return true;
    }
    return false;
}

static CURLM *new_multi(void)
{
    CURLM *multi = curl_multi_init();

    if (multi)
        (void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, MAX_CONNECTIONS);
    return multi;
}

/* A stream may be silent alone: a server may send no bookmarks, or only one of several connections
 * may be dead. */
static void client_suspect(void *self, int64_t silent_ms)
{
    struct hvd_kube_client *client = self;

    if (hvd_kube_session_now_ms() - client->received_ms >= silent_ms)
        hvd_kube_client_drop(client, silent);
}

hvd_status_t hvd_kube_client_create(const struct hvd_kube_client_options *options,
                                    struct hvd_kube_client **out, struct hvd_err *err)
{
    struct hvd_kube_client *client = hvd_calloc(1, sizeof(*client));
    hvd_status_t st;

    if (!client)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "API client: out of memory");
    client->options = *options;
    client->api = (struct hvd_kube_api){
        .self = client, .send = client_send, .cancel = client_cancel, .suspect = client_suspect};
    client->multi = new_multi();
    st = hvd_kube_session_init(&client->session, options->config, err);
    if (st == HVD_OK && !client->multi)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "API client: out of memory");
    if (st != HVD_OK) {
        hvd_kube_client_destroy(client);
        return st;
    }
    *out = client;
    return HVD_OK;
}

static struct hvd_kube_call *next_dropped(const struct hvd_kube_client *client)
{
    struct hvd_kube_call *call;

    DL_FOREACH(client->calls, call)
    {
        if (call->is_dropped)
            return call;
    }
    return NULL;
}

/* The connections belong to the multi handle; closing them resets them (SO_LINGER, session.c). */
void hvd_kube_client_drop(struct hvd_kube_client *client, const char *why)
{
    struct hvd_err err = {.status = HVD_ERR_UNAVAILABLE};
    const struct hvd_kube_response dropped = {.status = HVD_ERR_UNAVAILABLE, .err = &err};
    struct hvd_kube_call *call;
    char what[256];

    client->is_deaf = false;
    DL_FOREACH(client->calls, call)
    {
        (void)curl_multi_remove_handle(client->multi, call->easy);
        call->is_dropped = true;
    }
    (void)curl_multi_cleanup(client->multi);
    client->multi = new_multi();
    while ((call = next_dropped(client)) != NULL) {
        (void)hvd_kube_api_describe(&call->request, what, sizeof(what));
        (void)snprintf(err.msg, sizeof(err.msg), "%s: %s", what, why);
        observe(call, 0);
        detach(call);
        call->request.on_done(call->request.ctx, &dropped);
        destroy_call(call);
    }
}

void hvd_kube_client_destroy(struct hvd_kube_client *client)
{
    struct hvd_err err = {.status = HVD_ERR_CANCELED, .msg = "the API client is shutting down"};
    const struct hvd_kube_response canceled = {.status = HVD_ERR_CANCELED, .err = &err};

    if (!client)
        return;
    client->is_closing = true;
    while (client->calls) {
        struct hvd_kube_call *call = client->calls;
        detach(call);
        call->request.on_done(call->request.ctx, &canceled);
        destroy_call(call);
    }
    if (client->multi)
        (void)curl_multi_cleanup(client->multi);
    hvd_kube_session_fini(&client->session);
    hvd_free(client);
}

const struct hvd_kube_api *hvd_kube_client_api(const struct hvd_kube_client *client)
{
    return &client->api;
}

bool hvd_kube_client_flush(struct hvd_kube_client *client)
{
    int n_running = 0;

    if (!client->has_unsent || !client->multi)
        return false;
    client->has_unsent = false;
    /* An error here recurs in the next step, which reports it. */
    (void)curl_multi_perform(client->multi, &n_running);
    client->is_ahead = true;
    return true;
}

hvd_status_t hvd_kube_client_step(struct hvd_kube_client *client, struct hvd_err *err)
{
    int n_running = 0;
    int n_left = 0;
    struct hvd_kube_call *late;
    CURLMcode mc;
    CURLMsg *msg;

    if (!client->multi)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "API client: out of memory");
    client->is_ahead = false;
    client->has_unsent = false;
    mc = curl_multi_perform(client->multi, &n_running);
    if (mc != CURLM_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, (int)mc, "libcurl: %s", curl_multi_strerror(mc));
    while ((msg = curl_multi_info_read(client->multi, &n_left)) != NULL) {
        struct hvd_kube_call *call = NULL;
        CURLcode rc = msg->data.result;

        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        finish_call(call, rc);
    }
    while ((late = find_late(client)) != NULL)
        finish_call(late, CURLE_OK);
    if (client->is_deaf)
        hvd_kube_client_drop(client, silent);
    return HVD_OK;
}

hvd_status_t hvd_kube_client_wait(struct hvd_kube_client *client, const int *fds, unsigned n,
                                  int timeout_ms, unsigned *readable, struct hvd_err *err)
{
    struct curl_waitfd extra[MAX_FDS] = {0};
    unsigned bits = 0;
    CURLMcode mc;

    if (n > MAX_FDS)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "too many descriptors to wait for");
    for (unsigned i = 0; i < n; i++)
        extra[i] = (struct curl_waitfd){.fd = fds[i], .events = CURL_WAIT_POLLIN};
    if (timeout_ms > LATE_END_MS && awaits_end(client))
        timeout_ms = LATE_END_MS;
    mc = curl_multi_poll(client->multi, extra, n, client->is_ahead ? 0 : timeout_ms, NULL);
    if (mc != CURLM_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, (int)mc, "libcurl: %s", curl_multi_strerror(mc));
    for (unsigned i = 0; i < n; i++)
        bits |= extra[i].revents ? 1u << i : 0;
    if (readable)
        *readable = bits;
    return HVD_OK;
}
