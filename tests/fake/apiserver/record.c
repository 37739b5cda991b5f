/*
 * What was asked, and what came of it.
 */
#include "tests/fake/apiserver/record.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/server.h"

struct fake_record {
    char *text; /* the JSON object */
};

static void put_text(struct hvd_buf *out, const char *key, const char *text)
{
    fake_printf(out, ",\"%s\":", key);
    fake_put_json(out, text ? text : "");
}

static void put_body(struct hvd_buf *out, const struct fake_records *records,
                     const struct fake_request *r)
{
    char *text;

    if (!r->body.len || (int64_t)r->body.len > records->max_body ||
        strcmp(r->kind->name, "Secret") == 0)
        return;
    text = fake_must(strndup(r->body.data, r->body.len));
    put_text(out, "body", text);
    free(text);
}

static void put_head(struct hvd_buf *out, struct fake_records *records, const char *verb)
{
    int64_t now_us = fake_now_us();

    if (!records->start_us)
        records->start_us = now_us;
    fake_printf(out, "{\"number\":%zu,\"ms\":%.3f,\"verb\":\"%s\"", records->n + 1,
                (double)(now_us - records->start_us) / 1000.0, verb);
}

static size_t keep(struct fake_records *records, struct hvd_buf *out)
{
    fake_puts(out, "}");
    if (records->n == records->capacity) {
        records->capacity = records->capacity ? records->capacity * 2 : 1024;
        records->all =
            fake_must(realloc(records->all, records->capacity * sizeof(records->all[0])));
    }
    records->all[records->n++].text = hvd_buf_take(out);
    return records->n;
}

size_t fake_record_add(struct fake_records *records, const struct fake_request *request,
                       const struct fake_outcome *outcome)
{
    struct hvd_buf out = fake_buf();

    put_head(&out, records, fake_verb_name(request->verb));
    put_text(&out, "resource", request->kind->resource);
    put_text(&out, "namespace", request->ns);
    put_text(&out, "name", request->object_name);
    put_text(&out, "subresource", request->subresource);
    put_text(&out, "path", request->target);
    put_text(&out, "agent", request->agent);
    fake_printf(&out, ",\"code\":%d,\"request_bytes\":%zu,\"response_bytes\":%zu", outcome->code,
                request->body.len, outcome->response_bytes);
    fake_printf(&out, ",\"fault\":%lld,\"executed\":%s", (long long)outcome->fault,
                outcome->is_executed ? "true" : "false");
    put_body(&out, records, request);
    return keep(records, &out);
}

void fake_record_play(struct fake_records *records, const char *key, const char *what)
{
    struct hvd_buf out = fake_buf();
    const char *slash = strchr(key, '/');
    char *ns = fake_must(strndup(key, (size_t)(slash - key)));

    put_head(&out, records, "play");
    put_text(&out, "resource", "pods");
    put_text(&out, "namespace", ns);
    put_text(&out, "name", slash + 1);
    put_text(&out, "subresource", what);
    put_text(&out, "agent", "kubelet");
    fake_puts(&out, ",\"code\":0,\"fault\":0,\"executed\":true");
    free(ns);
    (void)keep(records, &out);
}

void fake_records_put(const struct fake_records *records, size_t after, struct hvd_buf *out)
{
    bool is_first = true;

    fake_puts(out, "[");
    for (size_t i = after; i < records->n; i++) {
        if (!records->all[i].text)
            continue;
        fake_puts(out, is_first ? "" : ",\n");
        fake_puts(out, records->all[i].text);
        is_first = false;
    }
    fake_puts(out, "]");
}

void fake_records_clear(struct fake_records *records)
{
    for (size_t i = 0; i < records->n; i++) {
        free(records->all[i].text);
        records->all[i].text = NULL;
    }
}
