/*
 * The environment of master and workers: the launch way's variables, and the job's network
 * interfaces. Pure.
 */
#include "operator/core/children/environment.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "operator/core/launch/launch.h"

#define INTERFACES_MAX 4096

static bool has_variable(const cJSON *env, const char *name)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, env)
    {
        const char *set = hvd_json_str(item, "name");

        if (set && strcmp(set, name) == 0)
            return true;
    }
    return false;
}

static void add(struct hvd_jb *jb, cJSON *env, const char *name, const char *value)
{
    cJSON *item;

    if (!env || has_variable(env, name))
        return;
    item = hvd_jb_object(jb, env, NULL);
    hvd_jb_str(jb, item, "name", name);
    hvd_jb_str(jb, item, "value", value);
}

/*
 * Joins spec.network.interfaces by commas. for_nccl: without CIDRs, which NCCL does not know, and
 * behind "=", since NCCL would take the names for prefixes (eth1 for eth10).
 */
static hvd_status_t join(const cJSON *interfaces, bool for_nccl, struct hvd_buf *out)
{
    const char *first = for_nccl ? "=" : "";
    const cJSON *item = NULL;
    hvd_status_t st = HVD_OK;

    cJSON_ArrayForEach(item, interfaces)
    {
        if (st != HVD_OK || !cJSON_IsString(item) ||
            (for_nccl && strchr(item->valuestring, '/') != NULL))
            continue;
        st = hvd_buf_printf(out, "%s%s", out->len ? "," : first, item->valuestring);
    }
    return st;
}

static void add_joined(struct hvd_jb *jb, cJSON *env, const char *name, const struct hvd_buf *text)
{
    if (text->len > 0)
        add(jb, env, name, text->data);
}

static void add_interfaces(struct hvd_jb *jb, cJSON *env, const cJSON *interfaces)
{
    static const char *const mpi[] = {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                                      "PRTE_MCA_prte_if_include", "PMIX_MCA_ptl_tcp_if_include"};
    struct hvd_buf all, names;

    hvd_buf_init(&all, INTERFACES_MAX);
    hvd_buf_init(&names, INTERFACES_MAX);
    if (join(interfaces, false, &all) != HVD_OK || join(interfaces, true, &names) != HVD_OK)
        jb->failed = true;
    for (size_t i = 0; i < sizeof(mpi) / sizeof(mpi[0]); i++)
        add_joined(jb, env, mpi[i], &all);
    add_joined(jb, env, "NCCL_SOCKET_IFNAME", &names);
    hvd_buf_fini(&names);
    hvd_buf_fini(&all);
}

void hvd_environment_add(struct hvd_jb *jb, cJSON *container, const struct hvd_launch *launch,
                         const cJSON *spec)
{
    cJSON *env = hvd_jb_ensure_array(jb, container, "env");

    for (size_t i = 0; i < launch->n_variables; i++)
        add(jb, env, launch->variables[i][0], launch->variables[i][1]);
    add_interfaces(jb, env, hvd_json_at(spec, "network.interfaces"));
}

void hvd_environment_add_termination_log(struct hvd_jb *jb, cJSON *container)
{
    const char *path = hvd_json_str(container, "terminationMessagePath");
    cJSON *env = hvd_jb_ensure_array(jb, container, "env");

    add(jb, env, "HOROVOD_TERMINATION_LOG", path ? path : "/dev/termination-log");
}
