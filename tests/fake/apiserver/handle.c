/*
 * From a request to its answer: which object it names, whether a fault strikes, what the store
 * says, and when the answer leaves.
 */
#include "tests/fake/apiserver/handle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/answer.h"
#include "tests/fake/apiserver/control.h"
#include "tests/fake/apiserver/http.h"
#include "tests/fake/apiserver/list.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/watch.h"
#include "tests/fake/apiserver/write.h"

#define N_QUERY_BUFFERS 8
#define QUERY_MAX 4096

/* ---- what it names ---- */

static int hex(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Decodes len bytes at in to out, which has room for them and the terminator. */
static void decode(const char *in, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++) {
        if (in[i] == '%' && i + 2 < len + 0 && hex(in[i + 1]) >= 0 && hex(in[i + 2]) >= 0) {
            *out++ = (char)(hex(in[i + 1]) * 16 + hex(in[i + 2]));
            i += 2;
        } else {
            *out++ = in[i] == '+' ? ' ' : in[i];
        }
    }
    *out = '\0';
}

const char *fake_query(const struct fake_request *request, const char *key)
{
    static char buffers[N_QUERY_BUFFERS][QUERY_MAX];
    static unsigned next;
    size_t key_len = strlen(key);

    for (const char *at = request->query; at && *at;) {
        size_t len = strcspn(at, "&");

        if (len > key_len && strncmp(at, key, key_len) == 0 && at[key_len] == '=' &&
            len - key_len < QUERY_MAX) {
            char *out = buffers[next++ % N_QUERY_BUFFERS];

            decode(at + key_len + 1, len - key_len - 1, out);
            return out;
        }
        at += len;
        at += *at == '&';
    }
    return NULL;
}

/* Cuts the next part off *rest; NULL at the end. */
static char *next_part(char **rest)
{
    char *part = *rest;
    char *slash;

    if (!part || !*part)
        return NULL;
    slash = strchr(part, '/');
    if (slash)
        *slash = '\0';
    *rest = slash ? slash + 1 : NULL;
    return part;
}

/* "/api/v1/..." or "/apis/group/version/...": *root is written, the rest returned. NULL: neither.
 */
static char *cut_root(char *path, char *root, size_t size)
{
    int n_slashes = hvd_str_has_prefix(path, "/api/")    ? 3
                    : hvd_str_has_prefix(path, "/apis/") ? 4
                                                         : 0;
    char *at = path;

    if (!n_slashes)
        return NULL;
    for (at = path + 1; *at; at++) {
        if (*at == '/' && --n_slashes == 1)
            break;
    }
    if (!*at)
        return NULL;
    (void)snprintf(root, size, "%.*s", (int)(at - path), path);
    return at + 1;
}

static bool parse_path(struct fake_request *r)
{
    char root[128];
    char *rest = cut_root(r->path, root, sizeof(root));
    char *part = next_part(&rest);

    r->subresource = "";
    if (part && strcmp(part, "namespaces") == 0 && rest && strchr(rest, '/')) {
        r->ns = next_part(&rest);
        part = next_part(&rest);
    }
    if (!part)
        return false;
    r->kind = fake_kind_at(root, part);
    r->name = next_part(&rest);
    if (rest && *rest)
        r->subresource = next_part(&rest);
    r->object_name = r->name;
    return r->kind && (!*r->subresource || strcmp(r->subresource, "status") == 0 ||
                       strcmp(r->subresource, "scale") == 0);
}

static bool find_verb(struct fake_request *r)
{
    static const struct {
        const char *method;
        bool has_name;
        enum fake_verb verb;
    } rows[] = {
        {"GET", true, FAKE_GET},    {"GET", false, FAKE_LIST},   {"POST", false, FAKE_CREATE},
        {"PUT", true, FAKE_UPDATE}, {"PATCH", true, FAKE_PATCH}, {"DELETE", true, FAKE_DELETE},
    };
    const char *watch = fake_query(r, "watch");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].method, r->method) != 0 || rows[i].has_name != (r->name != NULL))
            continue;
        r->verb = rows[i].verb;
        if (r->verb == FAKE_LIST && watch &&
            (strcmp(watch, "true") == 0 || strcmp(watch, "1") == 0))
            r->verb = FAKE_WATCH;
        return true;
    }
    return false;
}

static bool parse(struct fake_request *r)
{
    char *question = strchr(r->target, '?');
    size_t len = question ? (size_t)(question - r->target) : strlen(r->target);

    r->path = fake_new(len + 1);
    decode(r->target, len, r->path);
    r->query = question ? question + 1 : "";
    r->is_meta = strstr(r->accept, "as=PartialObjectMetadata") != NULL;
    if (r->body.len)
        r->doc = cJSON_ParseWithLength(r->body.data, r->body.len);
    if (hvd_str_has_prefix(r->path, "/-/"))
        return true;
    if (!parse_path(r) || !find_verb(r))
        return false;
    if (r->verb == FAKE_CREATE)
        r->object_name = hvd_json_str(r->doc, "metadata.name");
    return true;
}

/* ---- when the answer leaves ---- */

static void on_answer_due(void *ctx)
{
    struct fake_conn *conn = ctx;

    if (conn->server->is_frozen && conn->is_agent)
        conn->is_hung = true;
    if (!conn->is_hung)
        fake_finish_request(conn);
}

static void answer_in(struct fake_conn *conn, int64_t delay_us)
{
    conn->timer =
        (struct fake_timer){.fire = on_answer_due, .ctx = conn, .place = conn->timer.place};
    fake_timer_start(&conn->server->timers, &conn->timer, delay_us);
}

/* Puts the answer into the connection as the fault (may be NULL) leaves it. */
static void send_answer(const struct fake_request *r, struct fake_answer *answer,
                        const struct fake_fault *fault)
{
    struct fake_conn *conn = r->conn;
    size_t before = conn->out.len;

    if (fault && fault->action == FAKE_FAULT_GARBAGE) {
        hvd_buf_reset(&answer->body);
        fake_puts(&answer->body, "<html>502 Bad Gateway</html>");
    }
    fake_send(conn, answer);
    if (!fault)
        return;
    if (fault->action == FAKE_FAULT_HALF) {
        size_t len = conn->out.len - before;
        size_t keep =
            fault->bytes > 0 && (size_t)fault->bytes < len ? (size_t)fault->bytes : len / 2;

        conn->out.len = before + keep;
        conn->wants_close = true;
    } else if (fault->action == FAKE_FAULT_SLOW) {
        conn->slow_bytes = fault->bytes > 0 ? (size_t)fault->bytes : 16;
        conn->slow_us = fault->delay_us ? fault->delay_us : 10000;
    }
}

/* ---- what it does ---- */

static void execute(struct fake_request *r, struct fake_answer *answer)
{
    struct fake_object *object;

    switch (r->verb) {
    case FAKE_GET:
        object = fake_find(&r->conn->server->store, r->kind, r->ns, r->name);
        if (object)
            fake_answer_object(answer, r, 200, object->now);
        else
            fake_answer_not_found(answer, r);
        break;
    case FAKE_LIST:
        fake_list(answer, r);
        break;
    case FAKE_CREATE:
        fake_write_create(answer, r);
        break;
    case FAKE_UPDATE:
        fake_write_update(answer, r);
        break;
    case FAKE_PATCH:
        fake_write_patch(answer, r);
        break;
    case FAKE_DELETE:
        fake_write_delete(answer, r);
        break;
    case FAKE_WATCH:
    case FAKE_N_VERBS:
        break;
    }
}

static bool is_let_in(const struct fake_request *r)
{
    const cJSON *tokens = r->conn->server->config.tokens;
    const cJSON *token = NULL;

    if (!tokens || !r->conn->is_agent)
        return true;
    cJSON_ArrayForEach(token, tokens)
    {
        if (cJSON_IsString(token) && hvd_str_has_prefix(r->authorization, "Bearer ") &&
            strcmp(r->authorization + strlen("Bearer "), token->valuestring) == 0)
            return true;
    }
    return false;
}

/* Executes the request, or has it refused before. False: there is no answer to send. */
static bool decide(struct fake_request *r, const struct fake_fault *fault,
                   struct fake_answer *answer, struct fake_outcome *outcome)
{
    struct fake_server *server = r->conn->server;
    bool answers =
        !fault || (fault->action != FAKE_FAULT_DROP && fault->action != FAKE_FAULT_HANG &&
                   fault->action != FAKE_FAULT_FREEZE);
    bool replaces = fault && fault->action == FAKE_FAULT_ANSWER;

    if (!is_let_in(r)) {
        fake_answer_fail(answer, r, 401, NULL, "Unauthorized");
        return true;
    }
    if ((int64_t)r->body.len > server->config.max_request_bytes) {
        fake_answer_fail(answer, r, 413, NULL, "Request entity too large: limit is 3145728");
        return true;
    }
    if ((answers && !replaces) || (fault && fault->is_executed)) {
        execute(r, answer);
        outcome->is_executed = answer->code < 300;
    }
    if (replaces) {
        fake_answer_fail(answer, r, fault->code, fault->reason, fault->message);
        answer->retry_after_s = fault->retry_after_s;
    }
    return answers;
}

static bool is_watch_refused(const struct fake_request *r, const struct fake_fault *fault)
{
    /* an answer with a code other than 410 comes instead of the stream, 410 and the like within it
     */
    return !is_let_in(r) || (fault && ((fault->action == FAKE_FAULT_ANSWER && fault->code != 410 &&
                                        fault->after_events == 0) ||
                                       fault->action == FAKE_FAULT_FREEZE));
}

static void handle_watch(struct fake_request *r, const struct fake_fault *fault)
{
    struct fake_outcome outcome = {.code = 200, .fault = fault ? fault->id : 0};

    (void)fake_record_add(&r->conn->server->records, r, &outcome);
    fake_watch_start(r, fault);
}

static void handle_object(struct fake_request *r, const struct fake_fault *fault)
{
    struct fake_conn *conn = r->conn;
    struct fake_server *server = conn->server;
    struct fake_answer answer = {.retry_after_s = -1, .body = fake_buf()};
    struct fake_outcome outcome = {.fault = fault ? fault->id : 0};
    bool answers = decide(r, fault, &answer, &outcome);

    outcome.code = answers ? answer.code : 0;
    outcome.response_bytes = answers ? answer.body.len : 0;
    (void)fake_record_add(&server->records, r, &outcome);
    if (answers || !fault) {
        bool is_later = fault && fault->action == FAKE_FAULT_DELAY;

        send_answer(r, &answer, fault);
        answer_in(conn, server->config.latency_us + (is_later ? fault->delay_us : 0));
    } else if (fault->action == FAKE_FAULT_DROP) {
        fake_close(conn);
    } else {
        conn->is_hung = true;
        server->is_frozen = server->is_frozen || fault->action == FAKE_FAULT_FREEZE;
    }
    hvd_buf_fini(&answer.body);
}

static void handle_unknown(struct fake_request *r)
{
    struct fake_answer answer = {.retry_after_s = -1, .body = fake_buf()};

    r->kind = NULL;
    fake_answer_fail(&answer, r, 404, NULL, "the server could not find the requested resource");
    fake_send(r->conn, &answer);
    hvd_buf_fini(&answer.body);
    fake_finish_request(r->conn);
}

void fake_handle(struct fake_request *request)
{
    struct fake_server *server = request->conn->server;
    bool is_known = parse(request);

    request->conn->is_agent = hvd_str_has_prefix(request->agent, server->config.agent);
    if (hvd_str_has_prefix(request->path, "/-/")) {
        fake_control(request);
        fake_finish_request(request->conn);
    } else if (!is_known) {
        handle_unknown(request);
    } else if (server->is_frozen && request->conn->is_agent) {
        request->conn->is_hung = true;
    } else {
        const struct fake_fault *fault = fake_fault_strike(&server->faults, request);

        if (request->verb == FAKE_WATCH && !is_watch_refused(request, fault))
            handle_watch(request, fault);
        else
            handle_object(request, fault);
    }
    cJSON_Delete(request->doc);
    free(request->path);
}
