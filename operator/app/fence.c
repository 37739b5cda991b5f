/*
 * Keeps an operator that does not lead from writing. The API server knows no fencing token, so time
 * does it. A write that passes has a deadline before the moment at which another operator may lead.
 * The write carries the deadline (`timeout`) to the server, which drops the request then. The shell
 * drops the connections at that time, so nothing leaves this machine later. A refused write is
 * HVD_ERR_STATE; it is not an error, because the new leader does the work.
 */
#include "operator/app/fence.h"

#include "base/buf.h"

#define QUERY_MAX 4096

static bool is_write(hvd_verb_t verb)
{
    return verb == HVD_VERB_CREATE || verb == HVD_VERB_PATCH || verb == HVD_VERB_DELETE;
}

static hvd_status_t send_until(struct hvd_fence *fence, struct hvd_kube_request *request,
                               int64_t left_ms, struct hvd_kube_call **out, struct hvd_err *err)
{
    const char *query = request->query ? request->query : "";
    struct hvd_buf longer;
    hvd_status_t st;

    hvd_buf_init(&longer, QUERY_MAX);
    st = hvd_buf_printf(&longer, "%s%ctimeout=%lldms", query, *query ? '&' : '?',
                        (long long)left_ms);
    if (st == HVD_OK) {
        request->query = longer.data;
        if (!request->timeout_ms || request->timeout_ms > left_ms)
            request->timeout_ms = left_ms;
        st = fence->_inner->send(fence->_inner->self, request, out, err);
    } else {
        hvd_err_set(err, st, 0, "write: %s", hvd_status_str(st));
    }
    hvd_buf_fini(&longer);
    return st;
}

static hvd_status_t fence_send(void *self, const struct hvd_kube_request *request,
                               struct hvd_kube_call **out, struct hvd_err *err)
{
    struct hvd_fence *fence = self;
    struct hvd_kube_request copy = *request;
    int64_t now_ms = fence->_now_ms();
    int64_t until_ms = hvd_lease_write_until_ms(fence->_lease, now_ms);

    if (!is_write(request->verb))
        return fence->_inner->send(fence->_inner->self, request, out, err);
    if (until_ms <= now_ms)
        return HVD_FAIL(err, HVD_ERR_STATE, 0, "this operator does not lead");
    return send_until(fence, &copy, until_ms - now_ms, out, err);
}

static void fence_cancel(void *self, struct hvd_kube_call *call)
{
    struct hvd_fence *fence = self;

    fence->_inner->cancel(fence->_inner->self, call);
}

void hvd_fence_init(struct hvd_fence *fence, const struct hvd_kube_api *inner,
                    const struct hvd_lease *lease, int64_t (*now_ms)(void))
{
    *fence = (struct hvd_fence){
        .api = {.self = fence, .send = fence_send, .cancel = fence_cancel},
        ._inner = inner,
        ._lease = lease,
        ._now_ms = now_ms,
    };
}
