/*
 * The command line of mpirun, for Open MPI 4 (whose runtime is ORTE) and 5 (PRRTE). The two name
 * the same settings differently; everything that depends on the version is in this file.
 */
#include "worker/launch/core/mpirun.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"

/* From this number of hosts on, this host starts all daemons itself, so that it alone needs the
 * key. */
#define MANY_HOSTS 64
#define LIST_MAX ((size_t)128 * 1024 - 1) /* the kernel accepts no longer argument */

hvd_status_t hvd_mpirun_parse_version(struct hvd_strview text, int *out_major, struct hvd_err *err)
{
    static const char mark[] = "(Open MPI) ";
    const int64_t range[2] = {1, 1000};
    struct hvd_strview line = {0};
    int64_t major = 0;

    while (text.data) {
        struct hvd_strview rest = hvd_strview_cut(&text, '\n');
        const char *found = rest.len ? memmem(rest.data, rest.len, mark, sizeof(mark) - 1) : NULL;

        if (line.len == 0)
            line = hvd_strview_trim(rest);
        if (!found)
            continue;
        rest.len -= (size_t)(found - rest.data) + sizeof(mark) - 1;
        rest.data = found + sizeof(mark) - 1;
        if (hvd_str_parse_int64(hvd_strview_cut(&rest, '.'), range, &major, NULL) == HVD_OK) {
            *out_major = (int)major;
            return HVD_OK;
        }
    }
    return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "mpirun is not Open MPI's: it prints \"%.*s\"",
                    line.len > 200 ? 200 : (int)line.len, line.len ? line.data : "");
}

hvd_status_t hvd_mpirun_ssh_options(const struct hvd_launch_ssh *ssh, struct hvd_args *out,
                                    struct hvd_err *err)
{
    static const char *const never_ask[] = {"-o", "BatchMode=yes", NULL};
    static const char *const accept_new[] = {"-o", "StrictHostKeyChecking=accept-new", NULL};
    hvd_status_t st = hvd_args_add_all(out, never_ask, err);

    if (st == HVD_OK && ssh->config) {
        st = hvd_args_add_all(out, (const char *const[]){"-F", ssh->config, NULL}, err);
    } else if (st == HVD_OK && !ssh->keeps_strictness) {
        st = hvd_args_add_all(out, accept_new, err);
    }
    if (st == HVD_OK && ssh->port) {
        st = hvd_args_add(out, "-p", err);
        if (st == HVD_OK)
            st = hvd_args_addf(out, err, "%" PRId64, ssh->port);
    }
    if (st == HVD_OK && ssh->identity)
        st = hvd_args_add_all(out, (const char *const[]){"-i", ssh->identity, NULL}, err);
    return st;
}

const char *hvd_mpirun_way_name(const struct hvd_launch_ssh *ssh)
{
    return ssh->way == HVD_WAY_SRUN ? "srun" : ssh->way == HVD_WAY_AGENT ? ssh->agent : "ssh";
}

/* Appends srun for one process on that node, as a job step beside those that run there. */
static hvd_status_t add_srun(const char *host, struct hvd_args *out, struct hvd_err *err)
{
    static const char *const step[] = {"srun",    "--overlap",    "--nodes=1", "--ntasks=1",
                                       "--mem=0", "--input=none", "--quiet",   NULL};
    hvd_status_t st = hvd_args_add_all(out, step, err);

    if (st == HVD_OK)
        st = hvd_args_addf(out, err, "--nodelist=%s", host);
    return st == HVD_OK ? hvd_args_add_all(out, (const char *const[]){"sh", "-c", NULL}, err) : st;
}

hvd_status_t hvd_mpirun_reach(const struct hvd_launch_ssh *ssh, const char *host, int64_t timeout_s,
                              struct hvd_args *out, struct hvd_err *err)
{
    hvd_status_t st;

    if (ssh->way == HVD_WAY_SRUN) {
        st = add_srun(host, out, err);
    } else if (ssh->way == HVD_WAY_AGENT) {
        st = hvd_args_split(out, ssh->agent, err);
        if (st == HVD_OK)
            st = hvd_args_add(out, host, err);
    } else {
        st = hvd_args_add(out, "ssh", err);
        if (st == HVD_OK)
            st = hvd_mpirun_ssh_options(ssh, out, err);
        if (st == HVD_OK)
            st = hvd_args_add(out, "-o", err);
        if (st == HVD_OK)
            st = hvd_args_addf(out, err, "ConnectTimeout=%" PRId64, timeout_s);
        if (st == HVD_OK)
            st = hvd_args_add(out, host, err);
    }
    if (st < 0)
        hvd_args_fini(out);
    return st;
}

/* Appends one setting of Open MPI. The flag and the name depend on the layer and the version. */
static hvd_status_t add_setting(struct hvd_args *out, const char *flag, const char *name,
                                const char *value, struct hvd_err *err)
{
    return hvd_args_add_all(out, (const char *const[]){flag, name, value, NULL}, err);
}

/* Whether Open MPI 4 would give the first ranks to this machine although it is not the first
 * host. */
static bool needs_sequence(const struct hvd_mpirun_command *given)
{
    const struct hvd_hosts *hosts = given->hosts;
    bool is_here = false;

    for (size_t i = 1; i < hosts->n; i++)
        is_here = is_here || hosts->items[i].is_local;
    return given->mpi_major < 5 && is_here && !hosts->items[0].is_local &&
           (!given->binding || given->binding->n == 0);
}

/* Lists the hosts with their numbers of processes. A sequence repeats the name instead. */
static hvd_status_t list_hosts(const struct hvd_mpirun_command *given, struct hvd_buf *list)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < given->hosts->n && st == HVD_OK; i++) {
        const struct hvd_host *host = &given->hosts->items[i];

        if (!needs_sequence(given))
            st = hvd_buf_printf(list, "%s%s:%" PRId64, i ? "," : "", host->name, host->slots);
        for (int64_t k = 0; needs_sequence(given) && k < host->slots && st == HVD_OK; k++)
            st = hvd_buf_printf(list, "%s%s", i || k ? "," : "", host->name);
    }
    return st;
}

static hvd_status_t add_hosts(const struct hvd_mpirun_command *given, struct hvd_args *out,
                              struct hvd_err *err)
{
    struct hvd_buf list = {0};
    hvd_status_t st;

    hvd_buf_init(&list, LIST_MAX);
    st = list_hosts(given, &list);
    if (st < 0)
        st = HVD_FAIL(err, st, 0,
                      "the host list does not fit into an argument of mpirun (%zu bytes)%s",
                      LIST_MAX, needs_sequence(given) ? ": put this machine first in it" : "");
    else
        st = hvd_args_add(out, "-np", err);
    if (st == HVD_OK)
        st = hvd_args_addf(out, err, "%" PRId64, hvd_hosts_slots(given->hosts));
    if (st == HVD_OK)
        st = hvd_args_add_all(out, (const char *const[]){"-H", list.data, NULL}, err);
    hvd_buf_fini(&list);
    return st;
}

/* Appends how ssh starts the daemons on the other hosts. */
static hvd_status_t add_ssh(const struct hvd_mpirun_command *given, struct hvd_args *out,
                            struct hvd_err *err)
{
    const bool is_4 = given->mpi_major < 5;
    const char *flag = is_4 ? "--mca" : "--prtemca";
    struct hvd_args ssh = {0};
    struct hvd_buf text = {0};
    hvd_status_t st = hvd_mpirun_ssh_options(&given->ssh, &ssh, err);

    hvd_buf_init(&text, (size_t)1 << 16);
    for (size_t i = 0; i < ssh.n && st == HVD_OK; i++)
        st = hvd_buf_printf(&text, "%s%s", i ? " " : "", ssh.items[i]);
    if (st == HVD_OK)
        st = add_setting(out, flag, is_4 ? "plm_rsh_agent" : "plm_ssh_agent", "ssh", err);
    if (st == HVD_OK)
        st = add_setting(out, flag, is_4 ? "plm_rsh_args" : "plm_ssh_args", text.data, err);
    if (st == HVD_OK && given->hosts->n >= MANY_HOSTS)
        st = add_setting(out, flag, is_4 ? "plm_rsh_no_tree_spawn" : "plm_ssh_no_tree_spawn", "1",
                         err);
    hvd_buf_fini(&text);
    hvd_args_fini(&ssh);
    return st;
}

/* Appends the program that starts the daemons on the other hosts. */
static hvd_status_t add_agent(const struct hvd_mpirun_command *given, struct hvd_args *out,
                              struct hvd_err *err)
{
    const bool is_4 = given->mpi_major < 5;
    struct hvd_buf words = {0};
    hvd_status_t st;

    hvd_buf_init(&words, LIST_MAX);
    st = hvd_buf_printf(&words, "%s %s", given->daemon_wrapper, is_4 ? "orted" : "prted");
    if (st == HVD_OK)
        st = add_setting(out, is_4 ? "--mca" : "--prtemca",
                         is_4 ? "orte_launch_agent" : "prte_launch_agent", words.data, err);
    hvd_buf_fini(&words);
    return st;
}

/* Appends how the daemons on the other hosts start and communicate. */
static hvd_status_t add_remote(const struct hvd_mpirun_command *given, struct hvd_args *out,
                               struct hvd_err *err)
{
    const bool is_4 = given->mpi_major < 5;
    const char *flag = is_4 ? "--mca" : "--prtemca";
    hvd_status_t st = given->ssh.way == HVD_WAY_SSH ? add_ssh(given, out, err) : HVD_OK;

    if (st == HVD_OK)
        st = add_setting(out, flag, is_4 ? "orte_keep_fqdn_hostnames" : "prte_keep_fqdn_hostnames",
                         "1", err);
    if (st == HVD_OK && given->daemon_wrapper)
        st = add_agent(given, out, err);
    if (st == HVD_OK && given->interfaces)
        st = add_setting(out, flag, is_4 ? "oob_tcp_if_include" : "prte_if_include",
                         given->interfaces, err);
    return st;
}

/* Appends a copy of each argument. */
static hvd_status_t add_copies(struct hvd_args *out, const struct hvd_args *more,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; more && i < more->n && st == HVD_OK; i++)
        st = hvd_args_add(out, more->items[i], err);
    return st;
}

/* Appends the settings of the processes themselves. */
static hvd_status_t add_process_settings(const struct hvd_mpirun_command *given,
                                         struct hvd_args *out, struct hvd_err *err)
{
    const bool is_4 = given->mpi_major < 5;
    hvd_status_t st = HVD_OK;

    if (!given->can_ptrace)
        st = add_setting(out, "--mca", is_4 ? "btl_vader_single_copy_mechanism" : "smsc",
                         is_4 ? "none" : "^cma", err);
    if (st == HVD_OK && given->is_crowded)
        st = add_setting(out, "--mca", "mpi_yield_when_idle", "1", err);
    if (st == HVD_OK && (given->is_tcp || given->is_alone))
        st = add_setting(out, "--mca", "pml", "ob1", err);
    if (st == HVD_OK && given->is_tcp)
        st = add_setting(out, "--mca", "btl", is_4 ? "self,vader,tcp" : "self,sm,tcp", err);
    else if (st == HVD_OK && given->is_alone)
        st = add_setting(out, "--mca", "btl", is_4 ? "self,vader" : "self,sm", err);
    if (st == HVD_OK && given->interfaces)
        st = add_setting(out, "--mca", "btl_tcp_if_include", given->interfaces, err);
    for (size_t i = 0; given->names[i] && st == HVD_OK; i++)
        st = hvd_args_add_all(out, (const char *const[]){"-x", given->names[i], NULL}, err);
    return st;
}

/* Without this setting Open MPI 5 holds back a line until it is complete, even the prompt of a
 * debugger. */
static hvd_status_t add_raw(const struct hvd_mpirun_command *given, struct hvd_args *out,
                            struct hvd_err *err)
{
    if (given->mpi_major < 5 || !given->is_typed)
        return HVD_OK;
    for (size_t i = 0; given->mpi_args && i < given->mpi_args->n; i++)
        if (strcmp(given->mpi_args->items[i], "--output") == 0)
            return HVD_OK;
    return hvd_args_add_all(out, (const char *const[]){"--output", ":raw", NULL}, err);
}

hvd_status_t hvd_mpirun_build(const struct hvd_mpirun_command *given, struct hvd_args *out,
                              struct hvd_err *err)
{
    static const char *const by_slot[] = {"--bind-to", "none", "--map-by", "slot", NULL};
    static const char *const in_sequence[] = {"--bind-to", "none", "--map-by", "seq", NULL};
    const char *const *placing = needs_sequence(given) ? in_sequence : by_slot;
    bool has_remote = false;
    hvd_status_t st = hvd_args_add(out, "mpirun", err);

    for (size_t i = 0; i < given->hosts->n; i++)
        has_remote = has_remote || !given->hosts->items[i].is_local;
    if (st == HVD_OK && given->is_root)
        st = hvd_args_add(out, "--allow-run-as-root", err);
    if (st == HVD_OK)
        st = add_hosts(given, out, err);
    if (st == HVD_OK)
        st = given->binding && given->binding->n ? add_copies(out, given->binding, err)
                                                 : hvd_args_add_all(out, placing, err);
    if (st == HVD_OK && has_remote)
        st = add_remote(given, out, err);
    if (st == HVD_OK)
        st = add_process_settings(given, out, err);
    if (st == HVD_OK)
        st = add_raw(given, out, err);
    if (st == HVD_OK)
        st = add_copies(out, given->mpi_args, err);
    if (st == HVD_OK)
        st = hvd_args_add_all(out, given->rank_wrapper, err);
    if (st == HVD_OK)
        st = hvd_args_add_all(out, given->command, err);
    if (st < 0)
        hvd_args_fini(out);
    return st;
}

/* Whether the text contains one of the words. */
static bool has_word(const char *text, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

bool hvd_mpirun_changes_output(const struct hvd_args *mpi_args)
{
    /* --tag-output, --timestamp-output, --output-filename, --merge-stderr-to-stdout, --xml, --xterm
     */
    static const char *const words[] = {"output", "stderr", "xml", "xterm", NULL};

    for (size_t i = 0; i < mpi_args->n; i++)
        if (has_word(mpi_args->items[i], words))
            return true;
    return false;
}

bool hvd_mpirun_may_go_on(const struct hvd_args *mpi_args, char *const *variables)
{
    /* The options are --enable-recovery, --continuous and --with-ft. Of --runtime-options and of
     * variables, the words match recovery, the meaning of a rank's exit code, and the end without
     * MPI_Finalize. */
    static const char *const words[] = {"recover",         "continuous", "with-ft",      "abort",
                                        "runtime-options", "rtos",       "without_sync", NULL};

    for (size_t i = 0; mpi_args && i < mpi_args->n; i++)
        if (has_word(mpi_args->items[i], words))
            return true;
    for (size_t i = 0; variables[i]; i++)
        if ((hvd_str_has_prefix(variables[i], "OMPI_MCA_orte_") ||
             hvd_str_has_prefix(variables[i], "PRTE_MCA_")) &&
            has_word(variables[i], words))
            return true;
    return false;
}
