/*
 * The prerequisites of a job's workers: a port of its own on the nodes' network, and the group in
 * which a gang scheduler places them. The port goes into the status before anything uses it, so
 * that a restart finds it and no other job gets it. Pure.
 */
#include "operator/core/ensure/admit.h"

#include <stdio.h>

#include "operator/core/children/gang.h"
#include "operator/core/launch/launch.h"
#include "operator/core/launch/ports.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/settings.h"
#include "operator/core/writes/write.h"

#define MESSAGE_SIZE 512

bool hvd_admit_port(struct hvd_pass *p)
{
    if (!hvd_ports_is_wanted(p->job))
        return true;
    if (p->view->free_port == 0) {
        hvd_trouble_report(p, "NoFreePort", hvd_launch_of(p->job)->no_port);
        return false; /* the shell reconciles the job again when a port is free */
    }
    p->next.launch_port = p->view->free_port;
    p->is_urgent = true;
    return false;
}

bool hvd_admit_gang(struct hvd_pass *p)
{
    const struct hvd_settings *settings = p->view->settings;
    enum hvd_kind kind = hvd_gang_kind(settings);
    const struct hvd_object *set = p->child[HVD_KIND_STATEFULSET];
    char message[MESSAGE_SIZE];

    if (kind == HVD_N_KINDS || !settings->is_gang_missing)
        return true;
    /* A running job continues. */
    if (hvd_pass_child(p, HVD_KIND_STATEFULSET) == HVD_CHILD_OURS &&
        set->u.statefulset.replicas > 0)
        return true;
    (void)snprintf(message, sizeof(message),
                   "the API server does not know %s of %s: install %s, or start the operator with "
                   "--gang-scheduler=none; the workers are made when it is there",
                   hvd_kind_info(kind)->kind, hvd_kind_info(kind)->api_version,
                   settings->gang == HVD_GANG_VOLCANO ? "volcano" : "scheduler-plugins");
    hvd_trouble_report(p, "GangSchedulerMissing", message);
    return false;
}

void hvd_admit_release(struct hvd_pass *p)
{
    enum hvd_kind kind = hvd_gang_kind(p->view->settings);

    if (kind != HVD_N_KINDS && hvd_pass_child(p, kind) == HVD_CHILD_OURS)
        hvd_write_delete(p, p->child[kind]);
}
