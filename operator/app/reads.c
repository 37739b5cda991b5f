/*
 * Requests that only read: an object by its name, pods by a label, the events about a Job, the
 * managers of an object's fields. Each depends only on the action. One thread; keeps no state.
 */
#include "operator/app/reads.h"

#include <stdio.h>

#include "base/buf.h"
#include "operator/api/shape.h"
#include "operator/core/children/children.h"
#include "operator/core/pass/plan.h"
#include "operator/kube/url.h"

#define QUERY_MAX 1024

hvd_status_t hvd_reads_get(const struct hvd_kube_api *api, const struct hvd_action *action,
                           const struct hvd_asker *asker, struct hvd_err *err)
{
    const bool is_node = action->kind == HVD_KIND_NODE;
    const struct hvd_kube_request request = {
        .verb = HVD_VERB_GET,
        .path = {.kind = action->kind,
                 .ns = is_node ? NULL : action->namespace,
                 .name = action->name},
        .accept = action->kind == HVD_KIND_SECRET || is_node ? HVD_READS_METADATA : NULL,
        .shape = hvd_shape_of_kind(action->kind),
        .on_done = asker->on_done,
        .ctx = asker->ctx,
    };

    return api->send(api->self, &request, NULL, err);
}

/* Lists the objects with a label. */
static hvd_status_t search(const struct hvd_kube_api *api, const struct hvd_action *action,
                           const struct hvd_asker *asker, struct hvd_err *err)
{
    struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST,
        .path = {.kind = action->kind, .ns = action->namespace},
        .on_done = asker->on_done,
        .ctx = asker->ctx,
    };
    bool is_first = true;
    struct hvd_buf query;
    hvd_status_t st;

    hvd_buf_init(&query, QUERY_MAX);
    st = hvd_url_put_query(&query, &is_first, "labelSelector", action->body);
    if (st == HVD_OK)
        st = hvd_buf_add(&query, "", 1);
    request.query = query.data;
    if (st == HVD_OK)
        st = api->send(api->self, &request, NULL, err);
    hvd_buf_fini(&query);
    return st;
}

/* Reads the managers of its fields. */
static hvd_status_t ask_for_managers(const struct hvd_kube_api *api,
                                     const struct hvd_action *action, const struct hvd_asker *asker,
                                     struct hvd_err *err)
{
    const struct hvd_kube_request request = {
        .verb = HVD_VERB_GET,
        .path = {.kind = action->kind, .ns = action->namespace, .name = action->name},
        .accept = HVD_READS_METADATA,
        .on_done = asker->on_done,
        .ctx = asker->ctx,
    };

    return api->send(api->self, &request, NULL, err);
}

/* Lists the events about a Job. */
static hvd_status_t trace(const struct hvd_kube_api *api, const struct hvd_action *action,
                          const struct hvd_asker *asker, struct hvd_err *err)
{
    struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST,
        .path = {.kind = HVD_KIND_EVENT, .ns = action->namespace},
        .on_done = asker->on_done,
        .ctx = asker->ctx,
    };
    char query[HVD_CHILD_NAME_MAX + 96];

    (void)snprintf(query, sizeof(query),
                   "?limit=500&fieldSelector=involvedObject.kind%%3DJob%%2C"
                   "involvedObject.name%%3D%s",
                   action->name);
    request.query = query;
    return api->send(api->self, &request, NULL, err);
}

hvd_status_t hvd_reads_send(const struct hvd_kube_api *api, const struct hvd_action *action,
                            const struct hvd_asker *asker, struct hvd_err *err)
{
    if (action->type == HVD_ACTION_ATTRIBUTE)
        return ask_for_managers(api, action, asker, err);
    if (action->type == HVD_ACTION_TRACE)
        return trace(api, action, asker, err);
    if (action->type == HVD_ACTION_LOOK && action->body)
        return search(api, action, asker, err);
    return hvd_reads_get(api, action, asker, err);
}
