/*
 * The host list of a pass, built on first use. The order of the workers follows the topology of
 * their nodes, which are read for it. Pure.
 */
#include "operator/core/ensure/list.h"

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children/hosts.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/view/topology.h"

#define LOCATED_AT_ONCE 256 /* nodes read at the same time */

/* Stores the data in the pass; a failure of jb sticks. */
static const cJSON *take_hosts(struct hvd_pass *p, const struct hvd_jb *jb, cJSON *data,
                               cJSON **slot)
{
    *slot = data;
    if (jb->failed)
        p->st = HVD_ERR_NOMEM;
    return jb->failed ? NULL : data;
}

static bool is_asked_for(const struct hvd_pass *p, const char *node)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        if (p->plan->actions[i].type == HVD_ACTION_LOCATE &&
            hvd_str_equal(p->plan->actions[i].name, node))
            return true;
    }
    return false;
}

static void ask_for(struct hvd_pass *p, const char *node)
{
    const struct hvd_action action = {.type = HVD_ACTION_LOCATE,
                                      .kind = HVD_KIND_NODE,
                                      .body = hvd_strdup(p->job->spec.topology_keys)};

    p->st = hvd_plan_add(p->plan, &action, p->job->namespace, node);
}

/* Finds the topology of all Ready workers. Requests unknown nodes, some at a time, and returns
 * false then. */
static bool locate(struct hvd_pass *p)
{
    const struct hvd_topology_source *topology = p->view->topology;
    const char *keys = p->job->spec.topology_keys;
    int n_asked = 0;

    if (!keys || !topology)
        return true;
    for (size_t i = 0; i < p->pods.n_ready && !p->st && n_asked < LOCATED_AT_ONCE; i++) {
        struct hvd_worker *worker = &p->pods.ready[i];
        const char *node = worker->pod->u.pod.node;

        worker->topology = node ? topology->find(topology->ctx, node, keys) : "";
        if (worker->topology)
            continue;
        n_asked++;
        if (!is_asked_for(p, node) && !hvd_look_is_put_off(p, HVD_KIND_NODE, node))
            ask_for(p, node);
    }
    return n_asked == 0 && !p->st;
}

const cJSON *hvd_list_ready(struct hvd_pass *p)
{
    struct hvd_jb jb = {0};

    if (p->hosts_data || p->st)
        return p->st ? NULL : p->hosts_data;
    if (!locate(p))
        return NULL;
    hvd_pods_sort(&p->pods);
    return take_hosts(p, &jb, hvd_hosts_data(&jb, p->job, p->pods.ready, p->pods.n_ready),
                      &p->hosts_data);
}

const cJSON *hvd_list_all(struct hvd_pass *p)
{
    struct hvd_jb jb = {0};

    if (p->all_hosts_data || p->st)
        return p->st ? NULL : p->all_hosts_data;
    return take_hosts(p, &jb, hvd_hosts_data_of_all(&jb, p->job), &p->all_hosts_data);
}
