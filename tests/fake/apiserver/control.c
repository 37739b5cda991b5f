/*
 * The control requests: what tests say to the fake itself. tests/fake/README.md describes them.
 */
#include "tests/fake/apiserver/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/http.h"
#include "tests/fake/apiserver/list.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/watch.h"
#include "tests/fake/apiserver/write.h"

typedef void (*control_fn)(const struct fake_request *request, struct fake_answer *answer);

static void refuse(struct fake_answer *answer, const char *why)
{
    answer->code = 400;
    hvd_buf_reset(&answer->body);
    fake_puts(&answer->body, "{\"error\":");
    fake_put_json(&answer->body, why);
    fake_puts(&answer->body, "}");
}

static void put_doc(struct fake_answer *answer, cJSON *doc)
{
    char *text = fake_must(cJSON_PrintUnformatted(doc));

    fake_puts(&answer->body, text);
    cJSON_free(text);
    cJSON_Delete(doc);
}

/* ---- configuration ---- */

static void set_ms(const cJSON *doc, const char *key, int64_t *us)
{
    const cJSON *item = hvd_json_get(doc, key);

    if (cJSON_IsNumber(item))
        *us = (int64_t)(item->valuedouble * 1000.0);
}

static void on_config(const struct fake_request *request, struct fake_answer *answer)
{
    struct fake_server *server = request->conn->server;
    const cJSON *tokens = hvd_json_get(request->doc, "tokens");
    const char *agent = hvd_json_str(request->doc, "agent");
    const char *date = hvd_json_str(request->doc, "date");

    set_ms(request->doc, "latency_ms", &server->config.latency_us);
    set_ms(request->doc, "watch_latency_ms", &server->config.watch_latency_us);
    set_ms(request->doc, "bookmark_ms", &server->config.bookmark_us);
    if (hvd_json_get(request->doc, "clock_offset_ms"))
        fake_set_clock_offset(hvd_json_int(request->doc, "clock_offset_ms", 0));
    if (hvd_json_get(request->doc, "date")) {
        free(server->config.date);
        server->config.date = date ? fake_copy(date) : NULL;
    }
    server->config.max_request_bytes =
        hvd_json_int(request->doc, "max_request_bytes", server->config.max_request_bytes);
    server->store.max_events =
        (size_t)hvd_json_int(request->doc, "max_events", (int64_t)server->store.max_events);
    server->records.max_body = hvd_json_int(request->doc, "record_body", server->records.max_body);
    if (tokens) {
        cJSON_Delete(server->config.tokens);
        server->config.tokens = cJSON_IsArray(tokens) ? cJSON_Duplicate(tokens, true) : NULL;
    }
    if (agent) {
        free(server->config.agent);
        server->config.agent = fake_copy(agent);
    }
    if (!fake_play_configure(server, hvd_json_get(request->doc, "play")))
        refuse(answer, "play: unknown key");
}

/* ---- faults ---- */

static void on_faults_add(const struct fake_request *request, struct fake_answer *answer)
{
    struct fake_server *server = request->conn->server;
    cJSON *ids = fake_must(cJSON_CreateArray());
    const cJSON *rule = NULL;

    cJSON_ArrayForEach(rule, request->doc)
    {
        const char *why = NULL;
        const struct fake_fault *fault = fake_fault_add(&server->faults, rule, &why);

        if (!fault) {
            refuse(answer, why);
            cJSON_Delete(ids);
            return;
        }
        (void)cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)fault->id));
    }
    put_doc(answer, ids);
}

static void on_faults_list(const struct fake_request *request, struct fake_answer *answer)
{
    put_doc(answer, fake_faults_list(&request->conn->server->faults));
}

static void on_faults_clear(const struct fake_request *request, struct fake_answer *answer)
{
    const char *id = fake_query(request, "id");

    (void)answer;
    fake_faults_clear(&request->conn->server->faults, id ? strtol(id, NULL, 10) : 0);
}

/* ---- records ---- */

static void on_requests(const struct fake_request *request, struct fake_answer *answer)
{
    const char *after = fake_query(request, "after");

    fake_records_put(&request->conn->server->records, after ? strtoul(after, NULL, 10) : 0,
                     &answer->body);
}

static void on_requests_clear(const struct fake_request *request, struct fake_answer *answer)
{
    (void)answer;
    fake_records_clear(&request->conn->server->records);
}

/* ---- objects ---- */

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct fake_object *const *)a)->key, (*(struct fake_object *const *)b)->key);
}

static void put_kind(struct fake_server *server, const struct fake_kind *kind, const char *ns,
                     struct hvd_buf *out)
{
    size_t n = fake_count(&server->store, kind), i = 0;
    struct fake_object **all = fake_new((n + 1) * sizeof(all[0]));
    struct fake_object *object, *next;

    HASH_ITER(hh, server->store.objects[fake_kind_index(kind)], object, next)
    {
        all[i++] = object;
    }
    qsort(all, n, sizeof(all[0]), by_key);
    for (i = 0; i < n; i++) {
        if (ns && strcmp(fake_meta(all[i], "namespace"), ns) != 0)
            continue;
        if (out->len > 1)
            fake_puts(out, ",\n");
        fake_version_put(out, all[i]->now, FAKE_FORM_FULL);
    }
    free(all);
}

static void on_objects(const struct fake_request *request, struct fake_answer *answer)
{
    const char *resource = fake_query(request, "resource");
    const char *ns = fake_query(request, "namespace");

    fake_puts(&answer->body, "[");
    for (size_t i = 0; i < FAKE_N_KINDS; i++)
        if (!resource || strcmp(resource, fake_kinds[i].resource) == 0)
            put_kind(request->conn->server, &fake_kinds[i], ns, &answer->body);
    fake_puts(&answer->body, "]");
}

/* Makes or replaces an object, status and all; its metadata may give labels, owners and so on. */
static bool put_object(struct fake_server *server, const cJSON *doc)
{
    const char *name = hvd_json_str(doc, "kind");
    const struct fake_kind *kind =
        name ? fake_kind_named(hvd_json_str(doc, "apiVersion"), name) : NULL;
    cJSON *copy = kind ? fake_must(cJSON_Duplicate(doc, true)) : NULL;
    struct fake_object *object;
    cJSON *meta;

    if (!kind || !hvd_json_str(doc, "metadata.name")) {
        cJSON_Delete(copy);
        return false;
    }
    meta = fake_object_at(copy, "metadata");
    if (kind->is_namespaced && !hvd_json_str(meta, "namespace"))
        fake_set_str(meta, "namespace", "default");
    object = fake_find(&server->store, kind, hvd_json_str(meta, "namespace"),
                       hvd_json_str(meta, "name"));
    if (object)
        (void)fake_update(&server->store, object, copy, FAKE_PART_BOTH);
    else
        (void)fake_create(&server->store, kind, copy);
    return true;
}

static void on_objects_put(const struct fake_request *request, struct fake_answer *answer)
{
    const cJSON *doc = NULL;

    cJSON_ArrayForEach(doc, request->doc)
    {
        if (!put_object(request->conn->server, doc)) {
            refuse(answer, "an object of unknown kind or without a name");
            return;
        }
    }
}

static void on_objects_remove(const struct fake_request *request, struct fake_answer *answer)
{
    struct fake_server *server = request->conn->server;
    const char *resource = fake_query(request, "resource");
    const char *ns = fake_query(request, "namespace");
    const char *name = fake_query(request, "name");
    int n = 0;

    for (size_t i = 0; i < FAKE_N_KINDS; i++) {
        struct fake_object *object, *next;

        if (resource && strcmp(resource, fake_kinds[i].resource) != 0)
            continue;
        HASH_ITER(hh, server->store.objects[i], object, next)
        {
            if ((ns && strcmp(fake_meta(object, "namespace"), ns) != 0) ||
                (name && strcmp(object->name, name) != 0))
                continue;
            fake_remove(&server->store, object);
            n++;
        }
    }
    fake_printf(&answer->body, "{\"removed\":%d}", n);
}

/* ---- what happens now ---- */

static void on_watches(const struct fake_request *request, struct fake_answer *answer)
{
    const char *action = hvd_json_str(request->doc, "action");
    int n = fake_watches_do(request->conn->server, hvd_json_str(request->doc, "resource"),
                            action ? action : "");

    if (n < 0)
        refuse(answer, "action must be gone, drop, half, garbage, hang or bookmark");
    else
        fake_printf(&answer->body, "{\"watches\":%d}", n);
}

static void on_compact(const struct fake_request *request, struct fake_answer *answer)
{
    (void)answer;
    fake_compact(&request->conn->server->store);
    fake_snapshots_expire(request->conn->server);
}

static void close_agents(struct fake_server *server)
{
    struct fake_conn *conn = NULL;

    DL_FOREACH(server->conns, conn)
    {
        if (conn->is_agent)
            fake_close(conn);
    }
}

static void on_freeze(const struct fake_request *request, struct fake_answer *answer)
{
    (void)answer;
    request->conn->server->is_frozen = true;
}

static void on_unfreeze(const struct fake_request *request, struct fake_answer *answer)
{
    (void)answer;
    request->conn->server->is_frozen = false;
    close_agents(request->conn->server);
}

static void on_disconnect(const struct fake_request *request, struct fake_answer *answer)
{
    (void)answer;
    close_agents(request->conn->server);
}

static void on_state(const struct fake_request *request, struct fake_answer *answer)
{
    struct fake_server *server = request->conn->server;

    fake_printf(&answer->body,
                "{\"frozen\":%s,\"resourceVersion\":%" PRIu64
                ",\"watches\":%d,\"requests\":%zu,\"playing\":%s,\"objects\":{",
                server->is_frozen ? "true" : "false", server->store.number,
                fake_watches_count(server), server->records.n,
                fake_play_is_busy(server) ? "true" : "false");
    for (size_t i = 0; i < FAKE_N_KINDS; i++)
        fake_printf(&answer->body, "%s\"%s\":%zu", i ? "," : "",
                    fake_kind_group_resource(&fake_kinds[i]),
                    fake_count(&server->store, &fake_kinds[i]));
    fake_puts(&answer->body, "}}");
}

static const struct {
    const char *method;
    const char *path;
    control_fn answer;
} routes[] = {
    {"GET", "/-/state", on_state},
    {"POST", "/-/config", on_config},
    {"GET", "/-/faults", on_faults_list},
    {"POST", "/-/faults", on_faults_add},
    {"DELETE", "/-/faults", on_faults_clear},
    {"GET", "/-/requests", on_requests},
    {"DELETE", "/-/requests", on_requests_clear},
    {"GET", "/-/objects", on_objects},
    {"POST", "/-/objects", on_objects_put},
    {"DELETE", "/-/objects", on_objects_remove},
    {"POST", "/-/watches", on_watches},
    {"POST", "/-/compact", on_compact},
    {"POST", "/-/freeze", on_freeze},
    {"POST", "/-/unfreeze", on_unfreeze},
    {"POST", "/-/disconnect", on_disconnect},
};

void fake_control(const struct fake_request *request)
{
    struct fake_answer answer = {.code = 200, .retry_after_s = -1, .body = fake_buf()};
    bool is_found = false;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]) && !is_found; i++) {
        is_found = strcmp(routes[i].method, request->method) == 0 &&
                   strcmp(routes[i].path, request->path) == 0;
        if (is_found)
            routes[i].answer(request, &answer);
    }
    if (!is_found)
        refuse(&answer, "no such control request");
    if (!answer.body.len)
        fake_puts(&answer.body, "{}");
    fake_send(request->conn, &answer);
    hvd_buf_fini(&answer.body);
}
