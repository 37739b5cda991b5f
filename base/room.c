/*
 * Checks the free space for temporary files before Open MPI runs out of it: Open MPI then hangs, or
 * ends the process with errors of its own. Allocates a file, since only an allocation meets quotas.
 */
#include "base/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILES_MIN 64

bool hvd_room_lacks(int why)
{
    return why == ENOSPC || why == EDQUOT;
}

static bool has_files(const struct statvfs *about)
{
    return about->f_files == 0 || (geteuid() == 0 ? about->f_ffree : about->f_favail) >= FILES_MIN;
}

/* For file systems that do not support fallocate. */
static bool has_bytes(const struct statvfs *about, size_t size_bytes)
{
    return about->f_blocks == 0 ||
           (geteuid() == 0 ? about->f_bfree : about->f_bavail) * about->f_frsize >= size_bytes;
}

static off_t largest(size_t size_bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size_bytes
               ? (off_t)limit.rlim_cur
               : (off_t)size_bytes;
}

/* Opens a file that disappears with its descriptor. Falls back to a named one, because not every
 * file system supports O_TMPFILE. */
static int open_unnamed(int folder)
{
    char name[64];
    int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    if (fd >= 0 || hvd_room_lacks(errno))
        return fd;
    (void)snprintf(name, sizeof(name), "horovod-room-%d", (int)getpid());
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)unlinkat(folder, name, 0); /* at once, so that a killed process leaves no file */
    return fd;
}

bool hvd_room_is_in(int folder, size_t size_bytes)
{
    struct statvfs about = {0};
    bool is_full = false;

    if (fstatvfs(folder, &about) == 0 && !has_files(&about))
        return false;
    const int fd = open_unnamed(folder);
    if (fd < 0)
        return !hvd_room_lacks(errno);
    if (fallocate(fd, 0, 0, largest(size_bytes)) != 0)
        is_full = hvd_room_lacks(errno) ||
                  ((errno == EOPNOTSUPP || errno == ENOSYS) && !has_bytes(&about, size_bytes));
    (void)close(fd);
    return !is_full;
}
