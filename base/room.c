/*
 * Room in a folder for temporary files, looked for before Open MPI misses it: that hangs then, or
 * ends the process with errors of its own. A file is allocated, since only that meets quotas.
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

static bool has_files(int folder)
{
    struct statvfs about;

    return fstatvfs(folder, &about) != 0 || about.f_files == 0 ||
           (geteuid() == 0 ? about.f_ffree : about.f_favail) >= FILES_MIN;
}

static off_t largest(size_t size_bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size_bytes
               ? (off_t)limit.rlim_cur
               : (off_t)size_bytes;
}

bool hvd_room_is_in(int folder, size_t size_bytes)
{
    char name[64];
    bool is_full;
    int fd;

    if (!has_files(folder))
        return false;
    (void)snprintf(name, sizeof(name), "horovod-room-%d", (int)getpid());
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return !hvd_room_lacks(errno);
    (void)unlinkat(folder, name, 0); /* at once: nothing stays of who is killed */
    is_full = fallocate(fd, 0, 0, largest(size_bytes)) != 0 && hvd_room_lacks(errno);
    (void)close(fd);
    return !is_full;
}
