/*
 * Turns options into a running job: the hosts, the checks, the environment, the command of mpirun.
 * core/ makes the decisions; this file reads the machine's properties and combines the results.
 */
#include "worker/launch/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "worker/launch/checks.h"
#include "worker/launch/core/environment.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/mpirun.h"
#include "worker/launch/core/report.h"
#include "worker/launch/core/slurm.h"
#include "worker/launch/here.h"
#include "worker/launch/job.h"
#include "worker/launch/process.h"
#include "worker/launch/rank.h"
#include "worker/launch/session.h"

#define TERMINATION_LOG "HOROVOD_TERMINATION_LOG"
#define HOSTFILE_MAX ((size_t)16 << 20)
#define REREAD_MS 200
#define REREAD_SAY_MS 10000

struct launch {
    const struct hvd_launch_options *options;
    struct hvd_hosts hosts;
    struct hvd_launch_ssh ssh;
    struct hvd_args environment; /* of the ranks */
    struct hvd_args names;       /* of the variables that mpirun exports */
    struct hvd_args argv;        /* of mpirun */
    int mpi_major;
    int code; /* the exit code after a failure to start; 0: the default */
    bool has_wrapper;
    char *output_dir;      /* owned: absolute path; NULL: none */
    char *termination_log; /* owned: NULL: none */
    char self[4096];
    char daemon_wrapper[1024];
    char nonce[HVD_REPORT_NONCE_MAX];
};

static hvd_status_t load_hostfile(const char *path, struct hvd_hosts *out, struct hvd_err *err)
{
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, HOSTFILE_MAX);
    st = hvd_process_read_file(path, &text, err);
    if (st == HVD_OK) {
        st = hvd_hosts_parse_file(
            (struct hvd_strview){.data = text.data ? text.data : "", .len = text.len}, out, err);
        if (st < 0)
            st = HVD_WRAP(err, st, "hostfile %.300s", path);
    }
    hvd_buf_fini(&text);
    return st;
}

bool hvd_launch_has_allocation(void)
{
    return getenv("SLURM_JOB_ID") && getenv("SLURM_JOB_NODELIST");
}

/* Reads the nodes of Slurm's allocation. Each has as many slots as tasks were requested there. */
static hvd_status_t load_allocation(struct launch *l, struct hvd_err *err)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    const char *tasks = getenv("SLURM_TASKS_PER_NODE");
    const char *processors = getenv("SLURM_JOB_CPUS_PER_NODE");
    hvd_status_t st = HVD_OK;

    l->ssh.way = HVD_WAY_SRUN;
    if (!tasks)
        tasks = processors;
    if (!tasks)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "within a Slurm allocation SLURM_TASKS_PER_NODE is missing: give -H");
    st = hvd_slurm_hosts(nodes, tasks, &l->hosts, err);
    if (st == HVD_OK && l->options->is_verbose)
        (void)fprintf(stderr, "horovodrun: Slurm's allocation %s: %.300s, tasks %.100s\n",
                      getenv("SLURM_JOB_ID"), nodes, tasks);
    if (st == HVD_OK && l->options->n_proc > hvd_hosts_slots(&l->hosts))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "Slurm's allocation has %" PRId64 " tasks and -np asks for %" PRId64
                        " processes: ask Slurm for more (--ntasks)",
                        hvd_hosts_slots(&l->hosts), l->options->n_proc);
    return st;
}

/* Finds the program that an environment has named to mpirun instead of ssh, as Kubeflow's first
 * MPIJob did. */
static void find_agent(struct launch *l)
{
    const char *agent = getenv("OMPI_MCA_plm_rsh_agent");

    agent = agent ? agent : getenv("PRTE_MCA_plm_ssh_agent");
    if (!agent || agent[0] != '/' || strchr(agent, ':') || hvd_str_has_suffix(agent, "/ssh"))
        return;
    l->ssh.way = HVD_WAY_AGENT;
    l->ssh.agent = agent;
}

static hvd_status_t load_hosts(struct launch *l, struct hvd_err *err)
{
    const struct hvd_launch_options *o = l->options;
    int64_t n_proc = o->n_proc;
    char here[64];
    hvd_status_t st;

    if (o->hostfile) {
        st = load_hostfile(o->hostfile, &l->hosts, err);
    } else if (o->hosts) {
        st = hvd_hosts_parse_list(o->hosts, &l->hosts, err);
    } else if (o->has_allocation) {
        st = load_allocation(l, err);
    } else {
        (void)snprintf(here, sizeof(here), "localhost:%" PRId64, n_proc);
        st = hvd_hosts_parse_list(here, &l->hosts, err);
    }
    if (st < 0)
        return st;
    st = hvd_hosts_fit(&l->hosts, n_proc ? n_proc : hvd_hosts_slots(&l->hosts), err);
    if (st == HVD_OK)
        hvd_here_mark_local(&l->hosts);
    return st;
}

/* Whether the file is in a ConfigMap's volume, where Kubernetes keeps it up to date: every file
 * there is a link through "..data". */
static bool is_kept(const char *hostfile)
{
    static const char through[] = "..data/";
    char target[sizeof(through)];

    return hostfile && readlink(hostfile, target, sizeof(target)) >= (ssize_t)sizeof(through) - 1 &&
           memcmp(target, through, sizeof(through) - 1) == 0;
}

/*
 * Reads the hosts, and repeats that until the start timeout while a list that Kubernetes updates is
 * too short. A host that comes back is missing from it for a moment, and a pod sees a change late.
 */
static hvd_status_t wait_for_hosts(struct launch *l, struct hvd_err *err)
{
    const int64_t tries = l->options->start_timeout_s * 1000 / REREAD_MS;
    hvd_status_t st = load_hosts(l, err);

    if (!is_kept(l->options->hostfile))
        return st;
    for (int64_t i = 0; i < tries && st == HVD_ERR_INVALID; i++) {
        if (i % (REREAD_SAY_MS / REREAD_MS) == 0)
            (void)fprintf(stderr,
                          "horovodrun: waiting for hosts (start timeout %" PRId64 " s): %s\n",
                          l->options->start_timeout_s, err->msg);
        hvd_hosts_fini(&l->hosts);
        hvd_err_clear(err);
        (void)usleep(REREAD_MS * 1000);
        st = load_hosts(l, err);
    }
    return st;
}

/* Whether any of the processes runs on this machine. */
static bool runs_here(const struct launch *l)
{
    for (size_t i = 0; i < l->hosts.n; i++)
        if (l->hosts.items[i].is_local)
            return true;
    return false;
}

/* Reads the hosts and checks the interfaces. l->code becomes 2 for an error in the user's input. A
 * list that Kubernetes updates is not the user's input. */
static hvd_status_t know_hosts(struct launch *l, struct hvd_err *err)
{
    const struct hvd_launch_options *o = l->options;
    const bool is_written = o->hosts || (o->hostfile && !is_kept(o->hostfile));
    hvd_status_t st = wait_for_hosts(l, err);

    if (st < 0 && st != HVD_ERR_NOMEM && is_written)
        l->code = HVD_EXIT_USAGE;
    if (st < 0 || !o->interfaces || !runs_here(l))
        return st;
    st = hvd_here_check_interfaces(o->interfaces, err);
    l->code = st < 0 ? HVD_EXIT_USAGE : 0;
    return st;
}

/* Whether the user chooses how Open MPI's processes communicate. */
static bool chooses_network(const struct hvd_launch_options *o)
{
    static const char *const names[] = {"OMPI_MCA_btl", "OMPI_MCA_pml",
                                        "OMPI_MCA_btl_tcp_if_include",
                                        "OMPI_MCA_btl_tcp_if_exclude"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return true;
    for (size_t i = 0; i < o->mpi_args.n; i++)
        if (strstr(o->mpi_args.items[i], "btl") || strstr(o->mpi_args.items[i], "pml") ||
            strcmp(o->mpi_args.items[i], "--tune") == 0)
            return true;
    return o->interfaces || o->is_tcp;
}

/* Whether the ranks communicate through shared memory alone. */
static bool is_alone(const struct launch *l)
{
    for (size_t i = 0; i < l->hosts.n; i++)
        if (!l->hosts.items[i].is_local)
            return false;
    return !chooses_network(l->options) && hvd_here_has_shared_memory(hvd_hosts_slots(&l->hosts));
}

/* Checks the ranks' program on this machine; l->code becomes a shell's exit code for the
 * failure. */
static hvd_status_t check_program(struct launch *l, struct hvd_err *err)
{
    const hvd_status_t st = hvd_here_check_program(l->options->command[0], err);

    if (st < 0)
        l->code = st == HVD_ERR_NOT_FOUND ? HVD_EXIT_NOT_FOUND : HVD_EXIT_NOT_EXECUTABLE;
    return st;
}

static hvd_status_t check(struct launch *l, struct hvd_err *err)
{
    if (l->ssh.way == HVD_WAY_SSH && !l->ssh.config)
        l->ssh.keeps_strictness = hvd_here_ssh_has_strictness(&l->ssh, &l->hosts);

    bool lacks_program = false;
    struct hvd_checks checks = {.ssh = l->ssh,
                                .lacks_program = &lacks_program,
                                .timeout_s = l->options->start_timeout_s,
                                .self = l->self,
                                .program = l->options->command[0],
                                .is_verbose = l->options->is_verbose};
    hvd_status_t st = hvd_here_mpi_major(&l->mpi_major, err);

    if (st == HVD_OK && runs_here(l))
        st = check_program(l, err);
    if (st == HVD_OK)
        st = hvd_checks_run(&checks, &l->hosts, err);
    if (lacks_program)
        l->code = HVD_EXIT_NOT_FOUND;
    if (st == HVD_OK)
        st = hvd_hosts_check_versions(&l->hosts, l->mpi_major, err);
    l->has_wrapper = true;
    for (size_t i = 0; i < l->hosts.n && st == HVD_OK; i++) {
        const struct hvd_host *host = &l->hosts.items[i];

        if (host->is_local || host->has_wrapper)
            continue;
        l->has_wrapper = false;
        (void)fprintf(stderr,
                      "horovodrun: host %s has no %s " HVD_VERSION ": ranks run without it, so "
                      "their lines carry no prefix and no death is explained\n",
                      host->name, l->self);
    }
    if (st == HVD_OK && !l->has_wrapper && l->output_dir)
        st = HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                      "flag --output-filename needs %s " HVD_VERSION " on every host", l->self);
    return st;
}

/* Makes the path of the output folder absolute, because ranks may start in another folder. */
static hvd_status_t know_output_dir(struct launch *l, struct hvd_err *err)
{
    const char *dir = l->options->output_dir;
    struct hvd_buf path = {0};
    char *here;
    hvd_status_t st = HVD_OK;

    if (!dir)
        return HVD_OK;
    hvd_buf_init(&path, sizeof(l->self));
    here = dir[0] == '/' ? NULL : get_current_dir_name();
    if (dir[0] != '/')
        st = here ? hvd_buf_printf(&path, "%s/", here) : HVD_ERR_SYSTEM;
    free(here);
    if (st == HVD_OK)
        st = hvd_buf_puts(&path, dir);
    if (st == HVD_OK)
        l->output_dir = hvd_buf_take(&path);
    else
        st = HVD_FAIL(err, st, 0, "flag --output-filename: %s", hvd_status_str(st));
    hvd_buf_fini(&path);
    return st;
}

/* Takes over the termination log of this container. The variable is removed for the ranks, which
 * may run elsewhere. */
static hvd_status_t know_termination_log(struct launch *l, struct hvd_err *err)
{
    const char *path = getenv(TERMINATION_LOG);

    if (!path || path[0] == '\0')
        return HVD_OK;
    l->termination_log = hvd_strdup(path);
    (void)unsetenv(TERMINATION_LOG);
    return l->termination_log ? HVD_OK : HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory");
}

/* Exports the encoded environment through mpirun, in as many variables as necessary. */
static hvd_status_t export_encoded(struct launch *l, struct hvd_err *err)
{
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, HVD_LAUNCH_ENV_MAX);
    st = hvd_environment_encode(&l->environment, &text);
    if (st < 0)
        st = HVD_FAIL(err, st, 0, "the environment cannot be passed on: %s", hvd_status_str(st));
    for (size_t at = 0, i = 0; at < text.len && st == HVD_OK; at += HVD_LAUNCH_ENV_CHUNK, i++) {
        char name[64] = HVD_LAUNCH_ENV;
        char *part = hvd_strndup(text.data + at, text.len - at < HVD_LAUNCH_ENV_CHUNK
                                                     ? text.len - at
                                                     : HVD_LAUNCH_ENV_CHUNK);

        if (i > 0)
            (void)snprintf(name, sizeof(name), HVD_LAUNCH_ENV "_%zu", i);
        if (!part || setenv(name, part, 1) != 0)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the environment");
        else
            st = hvd_args_add(&l->names, name, err);
        hvd_free(part);
    }
    hvd_buf_fini(&text);
    return st;
}

/* Without the wrapper mpirun itself exports; it cannot pass every value. */
static hvd_status_t export_plain(struct launch *l, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < l->environment.n && st == HVD_OK; i++) {
        char *entry = l->environment.items[i];
        char *equals = strchr(entry, '=');

        if (strpbrk(equals, ";\n"))
            continue;
        *equals = '\0';
        if (setenv(entry, equals + 1, 1) != 0)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the environment");
        else
            st = hvd_args_add(&l->names, entry, err);
        *equals = '=';
    }
    return st;
}

/* Removes a variable that a process without mpirun passes to its children once it has used MPI.
 * With it, Open MPI 4's mpirun would take itself for such a process. */
static void forget_being_alone(void)
{
    const char *ess = getenv("OMPI_MCA_ess");

    if (ess && strcmp(ess, "singleton") == 0)
        (void)unsetenv("OMPI_MCA_ess");
}

static hvd_status_t prepare_environment(struct launch *l, struct hvd_err *err)
{
    hvd_status_t st = hvd_environment_collect(environ, l->options->exports, l->options->n_exports,
                                              &l->environment, err);

    l->code = st == HVD_ERR_INVALID ? HVD_EXIT_USAGE : 0;
    if (st == HVD_OK)
        st = l->has_wrapper ? export_encoded(l, err) : export_plain(l, err);
    /* The list given here is complete: a default hostfile would only filter or extend it. */
    (void)unsetenv("OMPI_MCA_orte_default_hostfile");
    (void)unsetenv("PRTE_MCA_prte_default_hostfile");
    forget_being_alone();
    return st;
}

/* Whether a shell reads the text unchanged, as it must: Open MPI does not quote. */
static bool is_plain(const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-";

    return text[strspn(text, plain)] == '\0';
}

/* The words that start daemons on other hosts through this program there, which also gives them a
 * folder. NULL: daemons start directly. */
static const char *wrap_daemons(struct launch *l)
{
    const char *folder = hvd_session_folder(false);

    folder = folder ? folder : "-";
    if (!l->has_wrapper || !is_plain(l->self) || !is_plain(folder) ||
        hvd_session_is_chosen(&l->options->mpi_args) ||
        snprintf(l->daemon_wrapper, sizeof(l->daemon_wrapper), "%s " HVD_SESSION_EXEC " %s",
                 l->self, folder) >= (int)sizeof(l->daemon_wrapper))
        return NULL;
    return l->daemon_wrapper;
}

/* Whether this host gets a folder for mpirun's files. mpirun passes the folder to its daemons, so
 * either all hosts get one or none does. */
static bool wants_session(struct launch *l)
{
    for (size_t i = 0; i < l->hosts.n; i++)
        if (!l->hosts.items[i].is_local && !wrap_daemons(l))
            return false;
    return !hvd_session_is_chosen(&l->options->mpi_args);
}

/* Whether wrappers send standard output in packets (core/packet.h). */
static bool has_packets(const struct launch *l)
{
    return l->mpi_major < 5 && !hvd_mpirun_changes_output(&l->options->mpi_args);
}

static hvd_status_t build_command(struct launch *l, struct hvd_err *err)
{
    static const char *const none[] = {NULL};
    const struct hvd_launch_options *o = l->options;
    const char *mode = o->has_timestamp   ? HVD_RANK_STAMP
                       : o->has_no_prefix ? HVD_RANK_PLAIN
                                          : HVD_RANK_PREFIX;
    char grace[32];
    const char *const wrapper[] = {l->self,
                                   HVD_RANK_EXEC,
                                   l->nonce,
                                   mode,
                                   l->output_dir ? l->output_dir : HVD_RANK_NO_FILES,
                                   grace,
                                   has_packets(l) ? HVD_RANK_PACKETS : HVD_RANK_STREAMS,
                                   NULL};
    struct hvd_mpirun_command given = {
        .mpi_major = l->mpi_major,
        .hosts = &l->hosts,
        .ssh = l->ssh,
        .interfaces = o->interfaces,
        .is_tcp = o->is_tcp,
        .is_alone = is_alone(l),
        .binding = &o->binding,
        .mpi_args = &o->mpi_args,
        .is_root = geteuid() == 0,
        .can_ptrace = hvd_here_can_ptrace(),
        .is_typed = isatty(STDIN_FILENO),
        .daemon_wrapper = wrap_daemons(l),
        .is_crowded = hvd_here_is_crowded(&l->hosts),
        .names = l->names.n ? (const char *const *)l->names.items : none,
        .rank_wrapper = l->has_wrapper ? wrapper : none,
        .command = (const char *const *)o->command,
    };

    (void)snprintf(grace, sizeof(grace), "%" PRId64, o->stop_grace_s * 1000);
    return hvd_mpirun_build(&given, &l->argv, err);
}

/* Shows the exact command, with names of variables instead of values. */
static void show_command(const struct launch *l)
{
    struct hvd_buf text = {0};

    hvd_buf_init(&text, (size_t)1 << 22);
    if (hvd_args_quote_all(&text, &l->argv) == HVD_OK)
        (void)fprintf(stderr, "horovodrun: %s\n", text.data);
    hvd_buf_fini(&text);
}

static hvd_status_t know_self(struct launch *l, struct hvd_err *err)
{
    unsigned char noise[16];
    ssize_t n = readlink("/proc/self/exe", l->self, sizeof(l->self) - 1);

    if (n <= 0 || (size_t)n >= sizeof(l->self) - 1)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot find this program's own path: %s",
                        strerror(errno));
    l->self[n] = '\0';
    if (getrandom(noise, sizeof(noise), 0) != (ssize_t)sizeof(noise))
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot get random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(noise); i++)
        (void)snprintf(l->nonce + 2 * i, 3, "%02x", noise[i]);
    return HVD_OK;
}

/* Whether mpirun has an option to end the job after a time. */
static bool has_time_limit(const struct hvd_args *mpi_args)
{
    for (size_t i = 0; i < mpi_args->n; i++)
        if (strstr(mpi_args->items[i], "timeout"))
            return true;
    return false;
}

/* Runs mpirun, with folders of its own. */
static hvd_status_t run_job(struct launch *l, int *out_code, struct hvd_err *err)
{
    const struct hvd_args *mpi_args = &l->options->mpi_args;
    const struct hvd_job job = {.argv = l->argv.items,
                                .nonce = l->nonce,
                                .hosts = &l->hosts,
                                .termination_log = l->termination_log,
                                .grace_ms = l->has_wrapper ? l->options->stop_grace_s * 1000 : 0,
                                .mpi_major = l->mpi_major,
                                .has_packets = l->has_wrapper && has_packets(l),
                                .may_go_on = hvd_mpirun_may_go_on(mpi_args, environ),
                                .has_srun = l->ssh.way == HVD_WAY_SRUN && !has_time_limit(mpi_args),
                                .is_verbose = l->options->is_verbose};
    struct hvd_session session = HVD_SESSION_NONE;
    hvd_status_t st = HVD_OK;

    if (l->options->is_verbose)
        show_command(l);
    if (wants_session(l))
        st = hvd_session_open(&session, l->self, hvd_session_folder(true), l->mpi_major, err);
    if (st == HVD_OK)
        st = hvd_session_export(&session, l->mpi_major, err);
    if (st == HVD_OK)
        st = hvd_job_run(&job, out_code, err);
    hvd_session_close(&session);
    return st;
}

hvd_status_t hvd_launch(const struct hvd_launch_options *options, int *out_code,
                        struct hvd_err *err)
{
    struct launch l = {
        .options = options,
        .ssh = {.port = options->ssh_port, .identity = options->ssh_identity},
    };
    hvd_status_t st = know_self(&l, err);

    if (st == HVD_OK)
        st = hvd_here_ensure_environment(err);
    if (st == HVD_OK)
        st = hvd_here_find_mpirun(l.self, err);
    if (access(HVD_LAUNCH_SSH_CONFIG, R_OK) == 0)
        l.ssh.config = HVD_LAUNCH_SSH_CONFIG;
    find_agent(&l);
    if (st == HVD_OK)
        st = know_output_dir(&l, err);
    if (st == HVD_OK)
        st = know_termination_log(&l, err);
    if (st == HVD_OK)
        st = know_hosts(&l, err);
    if (st == HVD_OK)
        st = hvd_here_ensure_files(&l.hosts, err);
    if (st == HVD_OK)
        st = hvd_here_ensure_stack(err);
    if (st == HVD_OK)
        st = check(&l, err);
    if (st == HVD_OK)
        st = prepare_environment(&l, err);
    if (st == HVD_OK)
        st = build_command(&l, err);
    if (st == HVD_OK)
        st = run_job(&l, out_code, err);
    if (st < 0)
        *out_code = l.code;
    hvd_args_fini(&l.argv);
    hvd_args_fini(&l.names);
    hvd_args_fini(&l.environment);
    hvd_hosts_fini(&l.hosts);
    hvd_free(l.output_dir);
    hvd_free(l.termination_log);
    return st;
}
