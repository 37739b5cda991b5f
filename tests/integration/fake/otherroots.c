/*
 * Another directory of the system's certificate authorities, for a program that this is preloaded
 * into: what it opens below /etc/ssl/certs/ comes from the directory that HVD_OTHERROOTS names. A
 * test can so have an authority that the whole system trusts. Without the variable nothing changes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSTEM "/etc/ssl/certs"

/* The path to open instead; room holds it where it is another one. */
static const char *other(const char *path, char *room, size_t size)
{
    const char *directory = getenv("HVD_OTHERROOTS");
    size_t len = strlen(SYSTEM);

    if (!directory || strncmp(path, SYSTEM, len) != 0 || (path[len] && path[len] != '/'))
        return path;
    (void)snprintf(room, size, "%s%s", directory, path + len);
    return room;
}

static FILE *open_stream(const char *path, const char *mode)
{
    char room[4096];
    int flags =
        mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (mode[0] == 'w' ? O_TRUNC : O_APPEND);
    int fd;

    if (strchr(mode, '+'))
        flags = (flags & ~O_ACCMODE) | O_RDWR;
    fd = open(other(path, room, sizeof(room)), flags, 0666);
    return fd < 0 ? NULL : fdopen(fd, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    return open_stream(path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    return open_stream(path, mode);
}

int stat(const char *restrict path, struct stat *restrict out)
{
    char room[4096];

    return fstatat(AT_FDCWD, other(path, room, sizeof(room)), out, 0);
}
