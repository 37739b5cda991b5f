/*
 * The launch by ssh. The master's mpirun runs ssh, each worker runs sshd. A Secret holds the one
 * key pair of the job, and all pods mount it. Open MPI 4 (ORTE) and 5 (PRRTE) read different
 * variables and ignore each other's, so both are set. Workers need them too, since daemons start
 * daemons. Pure.
 */
#include "operator/core/launch/ssh.h"

#include <stdio.h>

#include "operator/core/launch/sshd.h"
#include "operator/core/launch/volumes.h"

#define HOSTFILE "/etc/horovod/hosts/hostfile"
#define SSH_CONFIG "/etc/horovod/hosts/" HVD_LAUNCH_FILE
#define SSH_DIR "/etc/horovod/ssh"
#define VOLUME "horovod-ssh"
#define ALIAS_SIZE 96
#define STARTUP_S 120      /* until sshd listens */
#define STARTUP_OWN_S 3600 /* if the template has a command of its own before sshd */

static const char *const variables[][2] = {
    {"OMPI_MCA_orte_default_hostfile", HOSTFILE},
    {"OMPI_MCA_orte_keep_fqdn_hostnames", "true"},
    {"OMPI_MCA_plm_rsh_agent", "ssh"},
    {"OMPI_MCA_plm_rsh_args", "-F " SSH_CONFIG},
    {"PRTE_MCA_prte_default_hostfile", HOSTFILE},
    {"PRTE_MCA_prte_keep_fqdn_hostnames", "true"},
    {"PRTE_MCA_plm_ssh_agent", "ssh"},
    {"PRTE_MCA_plm_ssh_args", "-F " SSH_CONFIG},
};

static void put_secret(struct hvd_jb *jb, cJSON *root, const struct hvd_job *job,
                       const struct hvd_launch_key *key)
{
    cJSON *data;

    hvd_jb_str(jb, root, "type", "Opaque");
    hvd_jb_bool(jb, root, "immutable", true);
    data = hvd_jb_object(jb, root, "stringData");
    hvd_jb_str(jb, data, "id", key->private_pem);
    hvd_jb_fmt(jb, data, "id.pub", "%s\n", key->public_line);
    hvd_jb_fmt(jb, data, "known_hosts", "*.%s,%s-master.%s %s\n", job->name, job->name, job->name,
               key->public_line);
}

/* All workers share one host key; known_hosts has it under the names of the Service. */
static void put_config(struct hvd_jb *jb, cJSON *data, const struct hvd_job *job)
{
    char alias[ALIAS_SIZE] = "";

    if (job->spec.has_ip_names)
        (void)snprintf(alias, sizeof(alias), "  HostKeyAlias workers.%s\n", job->name);
    hvd_jb_fmt(jb, data, HVD_LAUNCH_FILE,
               "Host *\n"
               "  Port %d\n"
               "  IdentityFile " SSH_DIR "/id\n"
               "  IdentitiesOnly yes\n"
               "  UserKnownHostsFile " SSH_DIR "/known_hosts\n"
               "  GlobalKnownHostsFile /dev/null\n"
               "  StrictHostKeyChecking yes\n"
               "  UpdateHostKeys no\n"
               "  BatchMode yes\n"
               "  ConnectTimeout 10\n"
               "  ConnectionAttempts 10\n"
               "  LogLevel ERROR\n"
               "%s",
               job->spec.launch_port, alias);
}

/* ssh and sshd reject their own user's key if others may read it; root owns the files. */
static void mount_secret(struct hvd_jb *jb, cJSON *pod, cJSON *container, const char *name,
                         bool is_root)
{
    cJSON *source = hvd_jb_object(jb, hvd_volumes_add(jb, pod, VOLUME), "secret");

    hvd_jb_str(jb, source, "secretName", name);
    hvd_jb_int(jb, source, "defaultMode", is_root ? 0400 : 0440);
    hvd_volumes_mount(jb, container, VOLUME, SSH_DIR, true);
}

static void complete_worker(struct hvd_jb *jb, cJSON *pod, cJSON *container,
                            const struct hvd_job *job)
{
    const bool is_own = hvd_json_get(container, "command") || hvd_json_get(container, "args");
    const int port = job->spec.launch_port;
    cJSON *source;

    hvd_sshd_probes(jb, container, port, is_own ? STARTUP_OWN_S : STARTUP_S);
    if (!container || is_own)
        return;
    hvd_sshd_command(jb, container, port);
    source = hvd_jb_object(jb, hvd_volumes_add(jb, pod, "horovod-run"), "emptyDir");
    hvd_jb_str(jb, source, "medium", "Memory");
    hvd_jb_str(jb, source, "sizeLimit", "4Mi");
    hvd_volumes_mount(jb, container, "horovod-run", HVD_RUN_DIR, false);
}

const struct hvd_launch hvd_ssh_launch = {
    .child = HVD_KIND_SECRET,
    .child_suffix = "-ssh",
    .put_child = put_secret,
    .put_file = put_config,
    .variables = variables,
    .n_variables = sizeof(variables) / sizeof(variables[0]),
    .port_variable = "HOROVOD_SSH_PORT",
    .no_port = "no port of the operator's --ssh-ports is left for a job of this namespace: end a "
               "job on the nodes' network, widen the range, or set spec.ssh.port",
    .mount_child = mount_secret,
    .complete_worker = complete_worker,
};
