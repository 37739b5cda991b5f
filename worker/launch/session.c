/*
 * The folders of mpirun's and its daemons' files, and of the ranks' shared memory: two for each job
 * on each host. Open MPI leaves files behind when one of its processes is killed, or loses the
 * others. A folder of its own can be removed whole.
 *
 * Each process that uses a folder inherits one open descriptor of it, with a shared lock, from the
 * process that made it. So another process gets the exclusive lock once all of them have ended, in
 * whatever way:
 *
 *     horovodrun, mpirun (daemon) --shared lock--> folder <--waits for exclusive lock-- keeper
 *
 * The keeper then removes the folder. If the keeper was killed too, the next job of the user does:
 * it tries the lock of each such folder. Links are never followed; folders of other users are left
 * alone.
 */
#include "worker/launch/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/room.h"
#include "base/str.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/process.h"

#define NAME "horovodrun-%u-"
#define RANDOM "XXXXXX"
#define OPEN_FOLDERS 8 /* while a folder is removed */
#define ROOM_MPI_5 ((size_t)1 << 20)
#define KEPT_MAX 2 /* folders per job */
#define SHARED_BASE "/dev/shm"
#define SHARED "HOROVOD_LAUNCH_SHARED" /* for wrappers: a variable of Open MPI's, and its value */

/* Variables that set the place of mpirun's files, of both generations: on all hosts, on its own, on
 * others. */
static const char *const everywhere[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"};
static const char *const here[] = {"OMPI_MCA_orte_local_tmpdir_base",
                                   "PRTE_MCA_prte_local_tmpdir_base"};
static const char *const others[] = {"OMPI_MCA_orte_remote_tmpdir_base",
                                     "PRTE_MCA_prte_remote_tmpdir_base",
                                     "OMPI_MCA_orte_launch_agent", "PRTE_MCA_prte_launch_agent"};

/* Variables that set the place of shared memory for ranks, of Open MPI 4 and 5. */
static const char *const backing[] = {"OMPI_MCA_btl_vader_backing_directory",
                                      "OMPI_MCA_btl_sm_backing_directory"};

/* Whether path is still the folder that was opened, and belongs to this user. */
static bool is_ours(int fd, const char *path)
{
    struct stat opened;
    struct stat named;

    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev && opened.st_uid == geteuid() && S_ISDIR(named.st_mode);
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    (void)remove(path); /* the next job removes the rest */
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Opens the folder; -1 where it is none. Children must not inherit another job's folder: pass
 * O_CLOEXEC. */
static int open_folder(const char *path, int flags)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | flags);
}

/* Removes a folder that no process uses. */
static void remove_if_left(const char *path)
{
    int fd = open_folder(path, O_CLOEXEC);

    if (fd >= 0 && is_ours(fd, path) && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_ours(fd, path))
        remove_tree(path);
    hvd_process_close(&fd);
}

/* Removes the folders of jobs that have ended without removing them. */
static void sweep(const char *base)
{
    char name[64];
    char path[4096];
    const struct dirent *entry;
    DIR *folder = opendir(base);
    const int len = snprintf(name, sizeof(name), NAME, (unsigned)geteuid());

    while (folder && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, name, (size_t)len) != 0 ||
            strlen(entry->d_name) != (size_t)len + strlen(RANDOM))
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", base, entry->d_name) < (int)sizeof(path))
            remove_if_left(path);
    }
    if (folder)
        (void)closedir(folder);
}

/* Makes the folder and locks it. A job that sweeps may remove it before it is locked; then a new
 * one is made. */
static bool make_in(struct hvd_session_folder *folder, const char *base)
{
    for (int i = 0; i < 10; i++) {
        const int len = snprintf(folder->path, sizeof(folder->path), "%s/" NAME RANDOM, base,
                                 (unsigned)geteuid());

        if (len < 0 || (size_t)len >= sizeof(folder->path) || !mkdtemp(folder->path))
            return false;
        folder->fd = open_folder(folder->path, 0);
        if (folder->fd >= 0 && flock(folder->fd, LOCK_SH) != 0) {
            hvd_process_close(&folder->fd);
            (void)rmdir(folder->path);
            return false;
        }
        if (folder->fd >= 0 && is_ours(folder->fd, folder->path))
            return true;
        hvd_process_close(&folder->fd);
    }
    return false;
}

/* Runs in a child: becomes the keeper, which inherits only the folders' names. */
_Noreturn static void become_keeper(const char *self, struct hvd_session *session)
{
    char *argv[3 + KEPT_MAX] = {"horovodrun", HVD_SESSION_KEEP};
    const int null = open("/dev/null", O_RDWR);
    sigset_t all;
    int n = 2;

    if (session->files.fd >= 0)
        argv[n++] = session->files.path;
    if (session->shared.fd >= 0)
        argv[n++] = session->shared.path;
    (void)setsid();
    for (int i = 0; i <= STDERR_FILENO; i++)
        (void)dup2(null, i);
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)!chdir("/"); /* keeps no other folder in use */
    (void)execv(self, argv);
    _exit(HVD_EXIT_OTHER);
}

static size_t room_of(int mpi_major)
{
    return mpi_major < 5 ? HVD_ROOM_MPI_4 : ROOM_MPI_5;
}

/* Makes the folder for files in the first place that has room. Appends places without room to
 * `full`. */
static void make_files(struct hvd_session *session, const char *const *folders, size_t room,
                       struct hvd_buf *full)
{
    struct hvd_session_folder *files = &session->files;

    for (; *folders && files->fd < 0; folders++) {
        sweep(*folders);
        if (!make_in(files, *folders) && !hvd_room_lacks(errno))
            continue;
        if (files->fd >= 0 && hvd_room_is_in(files->fd, room))
            break;
        if (files->fd >= 0)
            remove_tree(files->path);
        hvd_process_close(&files->fd);
        (void)!hvd_buf_printf(full, "%s%.300s", full->len ? " and " : "", *folders);
    }
}

static bool has_string(const char *const *list, const char *text)
{
    for (; *list; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

/* Makes the folder for files, or fails where all places lack room. */
static hvd_status_t open_files(struct hvd_session *session, const char *folder, int mpi_major,
                               struct hvd_err *err)
{
    /* In the order in which Open MPI searches a place. */
    const char *const all[] = {folder, getenv("TMPDIR"), getenv("TEMP"), getenv("TMP"), "/tmp"};
    const char *folders[sizeof(all) / sizeof(all[0]) + 1] = {0};
    char host[256] = "";
    struct hvd_buf full = {0};
    size_t n = 0;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] && all[i][0] == '/' && !has_string(folders, all[i]))
            folders[n++] = all[i];
    hvd_buf_init(&full, 2048);
    make_files(session, folders, room_of(mpi_major), &full);
    (void)gethostname(host, sizeof(host) - 1);
    if (full.len > 0 && session->files.fd < 0)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, ENOSPC,
                      "host %s: no room in %s for the %zu MiB of mpirun's temporary files: remove "
                      "files there, or set TMPDIR to a folder with room",
                      host, full.data, room_of(mpi_major) >> 20);
    else if (full.len > 0)
        (void)fprintf(stderr,
                      "horovodrun: host %s: no room in %s for the %zu MiB of mpirun's temporary "
                      "files: they are in %.*s\n",
                      host, full.data, room_of(mpi_major) >> 20,
                      (int)(strrchr(session->files.path, '/') - session->files.path),
                      session->files.path);
    hvd_buf_fini(&full);
    return st;
}

hvd_status_t hvd_session_open(struct hvd_session *session, const char *self, const char *folder,
                              int mpi_major, struct hvd_err *err)
{
    hvd_status_t st;

    *session = HVD_SESSION_NONE;
    st = open_files(session, folder, mpi_major, err);
    if (st < 0)
        return st;
    sweep(SHARED_BASE);
    (void)make_in(&session->shared, SHARED_BASE);
    if (session->files.fd < 0 && session->shared.fd < 0)
        return HVD_OK;
    session->keeper = fork();
    if (session->keeper == 0)
        become_keeper(self, session);
    return HVD_OK;
}

void hvd_session_close(struct hvd_session *session)
{
    if (session->files.fd >= 0)
        remove_tree(session->files.path);
    if (session->shared.fd >= 0)
        remove_tree(session->shared.path);
    if (session->keeper > 0) {
        (void)kill(session->keeper, SIGKILL);
        (void)waitpid(session->keeper, NULL, 0);
    }
    hvd_process_close(&session->files.fd);
    hvd_process_close(&session->shared.fd);
}

static hvd_status_t set(const char *name, const char *value, struct hvd_err *err)
{
    return setenv(name, value, 1) == 0
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the environment");
}

/* Whether the path may be a folder of a job of this user. */
static bool is_named(const char *path)
{
    const char *base = strrchr(path, '/');
    char name[64];

    (void)snprintf(name, sizeof(name), "/" NAME, (unsigned)geteuid());
    return base && hvd_str_has_prefix(base, name);
}

hvd_status_t hvd_session_export(const struct hvd_session *session, int mpi_major,
                                struct hvd_err *err)
{
    char entry[sizeof(session->shared.path) + 64];
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < 2 && session->files.fd >= 0 && st == HVD_OK; i++) {
        (void)unsetenv(here[i]); /* Open MPI refuses both at once, also in ranks */
        st = set(everywhere[i], session->files.path, err);
    }
    (void)unsetenv(SHARED); /* srun passes on another host's */
    for (size_t i = 0; i < 2; i++) {
        const char *given = getenv(backing[i]);

        if (given && is_named(given))
            (void)unsetenv(backing[i]); /* from a job whose rank starts this one */
    }
    if (st == HVD_OK && session->shared.fd >= 0) {
        (void)snprintf(entry, sizeof(entry), "%s=%s", backing[mpi_major < 5 ? 0 : 1],
                       session->shared.path);
        st = set(SHARED, entry, err);
    }
    return st;
}

hvd_status_t hvd_session_share(struct hvd_err *err)
{
    const char *entry = getenv(SHARED);
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; entry && i < 2; i++) {
        const size_t len = strlen(backing[i]);
        int fd = -1;

        if (getenv(backing[0]) || getenv(backing[1]))
            break; /* the user has chosen another place */
        if (strncmp(entry, backing[i], len) == 0 && entry[len] == '=')
            fd = open_folder(entry + len + 1, O_CLOEXEC);
        if (fd >= 0 && is_ours(fd, entry + len + 1))
            st = set(backing[i], entry + len + 1, err);
        hvd_process_close(&fd);
    }
    (void)unsetenv(SHARED);
    return st;
}

const char *hvd_session_folder(bool is_here)
{
    for (size_t i = 0; i < 2; i++) {
        if (getenv(everywhere[i]))
            return getenv(everywhere[i]);
        if (is_here && getenv(here[i]))
            return getenv(here[i]);
    }
    return NULL;
}

bool hvd_session_is_chosen(const struct hvd_args *mpi_args)
{
    for (size_t i = 0; i < mpi_args->n; i++)
        if (strstr(mpi_args->items[i], "tmpdir_base") || strstr(mpi_args->items[i], "launch_agent"))
            return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (getenv(others[i]))
            return true;
    return false;
}

/* Waits until no process uses the folder, and removes it; false where it cannot be locked. */
static bool keep(const char *path)
{
    int fd = open_folder(path, O_CLOEXEC);
    int got;

    if (fd < 0)
        return true; /* already removed */
    do
        got = flock(fd, LOCK_EX);
    while (got != 0 && errno == EINTR);
    if (got == 0 && is_ours(fd, path))
        remove_tree(path);
    hvd_process_close(&fd);
    return got == 0;
}

int hvd_session_keep(int argc, char **argv)
{
    bool is_good = true;

    for (int i = 2; i < argc; i++)
        if (!is_named(argv[i]))
            return HVD_EXIT_USAGE;
    for (int i = 2; i < argc; i++)
        is_good = keep(argv[i]) && is_good;
    return argc < 3 ? HVD_EXIT_USAGE : is_good ? 0 : HVD_EXIT_OTHER;
}

/* Removes the places of another host from a daemon's arguments, "-mca NAME VALUE": mpirun passes
 * its own places on. */
static void drop_folders(char **argv)
{
    size_t n = 0;

    for (size_t i = 0; argv[i]; i++)
        if (argv[i][0] == '-' && argv[i + 1] && argv[i + 2] &&
            hvd_str_has_suffix(argv[i + 1], "_tmpdir_base"))
            i += 2;
        else
            argv[n++] = argv[i];
    argv[n] = NULL;
}

int hvd_session_exec(int argc, char **argv)
{
    struct hvd_session session;
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int why;

    if (argc < 4)
        return HVD_EXIT_USAGE;
    drop_folders(argv + 4);
    if (n > 0) {
        const int mpi_major = hvd_str_has_suffix(argv[3], "orted") ? 4 : 5;
        struct hvd_err err = {0};

        self[n] = '\0';
        if (hvd_session_open(&session, self, argv[2], mpi_major, &err) < 0) {
            (void)fprintf(stderr, "horovodrun: %s\n", err.msg);
            return HVD_EXIT_OTHER;
        }
        (void)!hvd_session_export(&session, mpi_major, NULL);
    }
    (void)execvp(argv[3], argv + 3);
    why = errno;
    (void)fprintf(stderr, "horovodrun: cannot run %.200s: %s\n", argv[3], strerror(why));
    return why == ENOENT ? HVD_EXIT_NOT_FOUND : HVD_EXIT_NOT_EXECUTABLE;
}
