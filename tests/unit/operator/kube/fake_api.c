/* The port to the API server in memory, for tests: see fake_api.h. */
#include "tests/unit/operator/kube/fake_api.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/support.h"

static hvd_status_t fake_send(void *self, const struct hvd_kube_request *request,
                              struct hvd_kube_call **out, struct hvd_err *err)
{
    struct fake_api *fake = self;
    struct hvd_kube_call *call;

    if (fake->fail_send != HVD_OK)
        return HVD_FAIL(err, fake->fail_send, 0, "the fake refuses to send");
    assert_true(fake->n_calls < FAKE_MAX_CALLS);
    /* What the chart gives no right to, no test may need. */
    assert_true(request->path.subresource ||
                hvd_kind_allows(request->path.kind, hvd_kube_api_verb_name(request->verb)));
    call = &fake->calls[fake->n_calls++];
    call->request = *request;
    (void)snprintf(call->query, sizeof(call->query), "%s", request->query ? request->query : "");
    (void)snprintf(call->body, sizeof(call->body), "%s", request->body ? request->body : "");
    (void)snprintf(call->ns, sizeof(call->ns), "%s", request->path.ns ? request->path.ns : "");
    (void)snprintf(call->name, sizeof(call->name), "%s",
                   request->path.name ? request->path.name : "");
    call->request.query = call->query;
    call->request.body = call->body;
    call->request.path.ns = request->path.ns ? call->ns : NULL;
    call->request.path.name = request->path.name ? call->name : NULL;
    call->is_open = true;
    if (out)
        *out = call;
    return HVD_OK;
}

static void fake_cancel(void *self, struct hvd_kube_call *call)
{
    struct fake_api *fake = self;

    assert_true(call->is_open);
    call->is_open = false;
    fake->n_cancelled++;
}

static void fake_suspect(void *self, int64_t silent_ms)
{
    struct fake_api *fake = self;

    assert_true(silent_ms > 0);
    fake->n_suspected++;
}

void fake_api_init(struct fake_api *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->api = (struct hvd_kube_api){
        .self = fake, .send = fake_send, .cancel = fake_cancel, .suspect = fake_suspect};
}

struct hvd_kube_call *fake_api_last(struct fake_api *fake)
{
    assert_true(fake->n_calls > 0);
    return &fake->calls[fake->n_calls - 1];
}

size_t fake_api_open(const struct fake_api *fake)
{
    size_t n = 0;

    for (size_t i = 0; i < fake->n_calls; i++)
        n += fake->calls[i].is_open ? 1 : 0;
    return n;
}

/* A stream gets a good body as data; what that answers ends it. */
static hvd_status_t feed(struct hvd_kube_call *call, long code, const char *body)
{
    if (!body || !call->request.on_data || code >= 300)
        return HVD_OK;
    return call->request.on_data(call->request.ctx, hvd_strview_of(body));
}

void fake_api_answer(struct hvd_kube_call *call, long code, const char *body)
{
    hvd_status_t st = feed(call, code, body);
    cJSON *doc = body ? cJSON_Parse(body) : NULL;
    struct hvd_err err = {0};
    struct hvd_kube_response response = {.code = code, .body = doc};

    assert_true(call->is_open);
    call->is_open = false;
    response.status = st == HVD_OK ? hvd_kube_api_judge(&call->request, code, doc, &err) : st;
    response.err = response.status == HVD_OK ? NULL : &err;
    call->request.on_done(call->request.ctx, &response);
    cJSON_Delete(doc);
}

void fake_api_end(struct hvd_kube_call *call, long code)
{
    const struct hvd_kube_response response = {.code = code};

    assert_true(call->is_open);
    call->is_open = false;
    call->request.on_done(call->request.ctx, &response);
}

void fake_api_break(struct hvd_kube_call *call, hvd_status_t st)
{
    struct hvd_err err = {.status = st, .msg = "the connection broke"};
    const struct hvd_kube_response response = {.status = st, .err = &err};

    assert_true(call->is_open);
    call->is_open = false;
    call->request.on_done(call->request.ctx, &response);
}

void fake_api_begin(struct hvd_kube_call *call)
{
    assert_true(call->is_open);
    if (call->request.on_open)
        call->request.on_open(call->request.ctx);
}

hvd_status_t fake_api_stream(struct hvd_kube_call *call, const char *text)
{
    hvd_status_t st;

    assert_true(call->is_open);
    st = call->request.on_data(call->request.ctx, hvd_strview_of(text));
    if (st != HVD_OK)
        fake_api_break(call, st);
    return st;
}
