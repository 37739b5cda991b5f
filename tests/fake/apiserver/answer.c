/*
 * Answers: objects, and Status documents with the codes, reasons and texts of the real server.
 */
#include "tests/fake/apiserver/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/apiserver/must.h"

static const char *usual_reason(int code)
{
    static const struct {
        int code;
        const char *reason;
    } rows[] = {
        {400, "BadRequest"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "NotFound"},
        {405, "MethodNotAllowed"},
        {409, "Conflict"},
        {410, "Expired"},
        {413, "RequestEntityTooLarge"},
        {415, "UnsupportedMediaType"},
        {422, "Invalid"},
        {429, "TooManyRequests"},
        {500, "InternalError"},
        {503, "ServiceUnavailable"},
        {504, "Timeout"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].code == code)
            return rows[i].reason;
    return "InternalError";
}

/* "HorovodJob.horovod.io": what some messages say. */
static void put_kind_group(struct hvd_buf *out, const struct fake_kind *kind)
{
    const char *slash = strchr(kind->api_version, '/');

    fake_puts(out, kind->name);
    if (slash)
        fake_printf(out, ".%.*s", (int)(slash - kind->api_version), kind->api_version);
}

/* "group" of "group/version", else "". */
static void put_group(struct hvd_buf *out, const struct fake_kind *kind)
{
    const char *slash = strchr(kind->api_version, '/');

    if (slash)
        fake_printf(out, ",\"group\":\"%.*s\"", (int)(slash - kind->api_version),
                    kind->api_version);
}

/* texts: reason (NULL: the usual one), message, and the field that is to blame or NULL. */
static void fail(struct fake_answer *answer, const struct fake_request *request, int code,
                 const char *texts[3], const char *details_kind)
{
    const char *reason = texts[0];
    const char *message = texts[1];

    answer->code = code;
    hvd_buf_reset(&answer->body);
    fake_puts(&answer->body, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                             "\"status\":\"Failure\",\"message\":");
    fake_put_json(&answer->body, message ? message : "injected fault");
    fake_puts(&answer->body, ",\"reason\":");
    fake_put_json(&answer->body, reason ? reason : usual_reason(code));
    if (request->kind) {
        fake_puts(&answer->body, ",\"details\":{\"name\":");
        fake_put_json(&answer->body, request->object_name ? request->object_name : "");
        put_group(&answer->body, request->kind);
        fake_printf(&answer->body, ",\"kind\":\"%s\"", details_kind);
        if (texts[2])
            fake_printf(&answer->body, ",\"causes\":[{\"field\":\"%s\"}]", texts[2]);
        fake_puts(&answer->body, "}");
    }
    fake_printf(&answer->body, ",\"code\":%d}", code);
}

void fake_answer_fail(struct fake_answer *answer, const struct fake_request *request, int code,
                      const char *reason, const char *message)
{
    fail(answer, request, code, (const char *[3]){reason, message, NULL},
         request->kind ? request->kind->resource : "");
}

void fake_answer_not_found(struct fake_answer *answer, const struct fake_request *request)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "%s \"%s\" not found",
                   fake_kind_group_resource(request->kind),
                   request->object_name ? request->object_name : "");
    fake_answer_fail(answer, request, 404, NULL, text);
}

void fake_answer_exists(struct fake_answer *answer, const struct fake_request *request)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "%s \"%s\" already exists",
                   fake_kind_group_resource(request->kind), request->object_name);
    fake_answer_fail(answer, request, 409, "AlreadyExists", text);
}

void fake_answer_conflict(struct fake_answer *answer, const struct fake_request *request)
{
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "Operation cannot be fulfilled on %s \"%s\": the object has been modified; "
                   "please apply your changes to the latest version and try again",
                   fake_kind_group_resource(request->kind), request->object_name);
    fake_answer_fail(answer, request, 409, NULL, text);
}

void fake_answer_unmet(struct fake_answer *answer, const struct fake_request *request,
                       const char *why)
{
    struct hvd_buf text = fake_buf();

    fake_puts(&text, "Operation cannot be fulfilled on ");
    put_kind_group(&text, request->kind);
    fake_printf(&text, " \"%s\": %s", request->object_name, why);
    fail(answer, request, 409, (const char *[3]){NULL, text.data, NULL}, request->kind->name);
    hvd_buf_fini(&text);
}

void fake_answer_invalid(struct fake_answer *answer, const struct fake_request *request,
                         const char *why)
{
    const char *colon = strstr(why, ": ");
    char *field = fake_must(strndup(why, colon ? (size_t)(colon - why) : 0));
    struct hvd_buf text = fake_buf();

    put_kind_group(&text, request->kind);
    fake_printf(&text, " \"%s\" is invalid: %s", request->object_name ? request->object_name : "",
                why);
    fail(answer, request, 422, (const char *[3]){NULL, text.data, field}, request->kind->name);
    hvd_buf_fini(&text);
    free(field);
}

void fake_answer_object(struct fake_answer *answer, const struct fake_request *request, int code,
                        struct fake_version *version)
{
    answer->code = code;
    fake_version_put(&answer->body, version, request->is_meta ? FAKE_FORM_META : FAKE_FORM_FULL);
}

void fake_answer_deleted(struct fake_answer *answer, const struct fake_request *request,
                         const char *uid)
{
    answer->code = 200;
    fake_puts(&answer->body, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                             "\"status\":\"Success\",\"details\":{\"name\":");
    fake_put_json(&answer->body, request->object_name);
    put_group(&answer->body, request->kind);
    fake_printf(&answer->body, ",\"kind\":\"%s\",\"uid\":\"%s\"}}", request->kind->resource, uid);
}
