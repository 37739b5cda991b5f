/*
 * The timeline's file, see the header for its form. Runs in the writer's thread; only plain writes,
 * no mapping: a full disk must be an error and not a signal.
 */
#include "worker/watch/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096
#define RESERVE_MIN ((int64_t)64 * 1024)
#define RESERVE_MAX ((int64_t)1024 * 1024)
#define OUT_MAX ((size_t)256 * 1024 * 1024)

static hvd_status_t write_at(const struct hvd_tracefile *file, const char *data, size_t len,
                             int64_t at, struct hvd_err *err)
{
    while (len > 0) {
        const ssize_t n = pwrite(file->fd, data, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "writing the timeline: %s",
                            strerror(n < 0 ? errno : ENOSPC));
        data += n;
        at += n;
        len -= (size_t)n;
    }
    return HVD_OK;
}

/* Moves the closing bracket so far ahead that there is room for bytes more. */
static hvd_status_t reserve(struct hvd_tracefile *file, int64_t bytes, struct hvd_err *err)
{
    char spaces[PAGE];
    int64_t room = file->bracket < RESERVE_MIN ? RESERVE_MIN : file->bracket;
    hvd_status_t st = HVD_OK;

    if (room > RESERVE_MAX)
        room = RESERVE_MAX;
    if (file->at + bytes < file->bracket)
        return HVD_OK;
    memset(spaces, ' ', sizeof(spaces));
    const int64_t bracket = (file->at + bytes + room) / PAGE * PAGE + PAGE - 1;
    for (int64_t at = file->bracket + 1; st == HVD_OK && at < bracket;) {
        const int64_t n = bracket - at < PAGE ? bracket - at : PAGE;
        st = write_at(file, spaces, (size_t)n, at, err);
        at += n;
    }
    if (st == HVD_OK)
        st = write_at(file, "]", 1, bracket, err);
    if (st == HVD_OK)
        st = write_at(file, " ", 1, file->bracket, err);
    if (st == HVD_OK)
        file->bracket = bracket;
    return st;
}

hvd_status_t hvd_tracefile_open(struct hvd_tracefile *file, const char *path, struct hvd_err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "timeline %s: %s", path, strerror(errno));
    *file = (struct hvd_tracefile){.fd = fd, .at = 1, .bracket = 1};
    hvd_buf_init(&file->_out, OUT_MAX);
    hvd_status_t st = write_at(file, "[]\n", 3, 0, err);
    if (st != HVD_OK) {
        close(fd);
        file->fd = -1;
    }
    return st;
}

/* Adds a record to what is to be written; a page that it would not fit into is left as spaces. */
static hvd_status_t stage(struct hvd_tracefile *file, const char *record, size_t len)
{
    char spaces[PAGE];
    const char *separator = file->n_records > 0 ? ",\n" : "\n";
    const size_t in_page = (size_t)(file->at + (int64_t)file->_out.len) % PAGE;
    const size_t needs = len + 2;
    hvd_status_t st = HVD_OK;

    memset(spaces, ' ', sizeof(spaces));
    if (in_page + needs > PAGE && needs <= PAGE)
        st = hvd_buf_add(&file->_out, spaces, PAGE - in_page);
    if (st == HVD_OK)
        st = hvd_buf_puts(&file->_out, separator);
    if (st == HVD_OK)
        st = hvd_buf_add(&file->_out, record, len);
    file->n_records++;
    return st;
}

hvd_status_t hvd_tracefile_add(struct hvd_tracefile *file, const char *lines, size_t len,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && len > 0) {
        const char *newline = memchr(lines, '\n', len);
        const size_t n = newline ? (size_t)(newline - lines) : len;
        st = stage(file, lines, n);
        lines += newline ? n + 1 : n;
        len -= newline ? n + 1 : n;
    }
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "timeline: %s", hvd_status_str(st));
    st = reserve(file, (int64_t)file->_out.len, err);
    if (st == HVD_OK && file->_out.len > 0)
        st = write_at(file, file->_out.data, file->_out.len, file->at, err);
    if (st == HVD_OK)
        file->at += (int64_t)file->_out.len;
    hvd_buf_reset(&file->_out);
    return st;
}

hvd_status_t hvd_tracefile_close(struct hvd_tracefile *file, struct hvd_err *err)
{
    if (file->fd < 0)
        return HVD_OK;
    hvd_status_t st = write_at(file, "\n]\n", 3, file->at, err);
    if (st == HVD_OK && ftruncate(file->fd, file->at + 3) != 0)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "ending the timeline: %s", strerror(errno));
    if (close(file->fd) != 0 && st == HVD_OK)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "closing the timeline: %s", strerror(errno));
    file->fd = -1;
    hvd_buf_fini(&file->_out);
    return st;
}
