/*
 * Writes the timeline's file; the header has its form. Runs in the writer's thread. Uses only plain
 * writes and no mapping: a full disk must be an error and not a signal.
 */
#include "worker/telemetry/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define RESERVE_MIN ((int64_t)64 * 1024)
#define RESERVE_MAX ((int64_t)1024 * 1024)
#define WRITE_BYTES ((size_t)16 * 1024) /* the most that a full disk can lose */
#define OUT_MAX ((size_t)256 * 1024 * 1024)

static const char END[] = "\n]\n";

/* Writes all of it; 0 or errno. */
static int try_write(const struct hvd_tracefile *file, const char *data, size_t len, int64_t at)
{
    while (len > 0) {
        const ssize_t n =
            file->is_plain ? write(file->fd, data, len) : pwrite(file->fd, data, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        data += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static hvd_status_t failed(int failure, struct hvd_err *err)
{
    return HVD_FAIL(err, HVD_ERR_SYSTEM, failure, "writing the timeline: %s", strerror(failure));
}

static hvd_status_t write_at(const struct hvd_tracefile *file, const char *data, size_t len,
                             int64_t at, struct hvd_err *err)
{
    const int failure = try_write(file, data, len, at);

    return failure ? failed(failure, err) : HVD_OK;
}

/* Moves the closing bracket, or leaves it where it is on failure: 0 or errno. */
static int move_bracket(struct hvd_tracefile *file, int64_t bracket)
{
    char spaces[PAGE];
    int failure = 0;

    memset(spaces, ' ', sizeof(spaces));
    for (int64_t at = file->bracket + 1; !failure && at < bracket;) {
        const int64_t n = bracket - at < PAGE ? bracket - at : PAGE;
        failure = try_write(file, spaces, (size_t)n, at);
        at += n;
    }
    if (!failure)
        failure = try_write(file, "]", 1, bracket);
    if (!failure)
        failure = try_write(file, " ", 1, file->bracket);
    if (!failure)
        file->bracket = bracket;
    else
        (void)!ftruncate(file->fd, file->bracket + 1);
    return failure;
}

static bool is_full(int failure)
{
    return failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
}

/* Moves the closing bracket ahead, so that there is room for `bytes` more and the end of the file.
 * Stays within the limit of the file, and within the free space of the disk. */
static hvd_status_t reserve(struct hvd_tracefile *file, int64_t bytes, struct hvd_err *err)
{
    const int64_t end = file->at + bytes + (int64_t)sizeof(END) - 2;
    int64_t room = file->bracket < RESERVE_MIN ? RESERVE_MIN : file->bracket;
    int failure;

    if (file->is_plain || end <= file->bracket)
        return HVD_OK;
    if (room > RESERVE_MAX)
        room = RESERVE_MAX;
    if (file->most > 0 && room > file->most - end)
        room = file->most > end ? file->most - end : 0;
    failure = move_bracket(file, (end + room) / PAGE * PAGE + PAGE - 1);
    while (is_full(failure) && room > 0) {
        room = room < 2 * PAGE ? 0 : room / 2;
        failure = move_bracket(file, (end + room) / PAGE * PAGE + PAGE - 1);
    }
    return failure ? failed(failure, err) : HVD_OK;
}

hvd_status_t hvd_tracefile_open(struct hvd_tracefile *file, const char *path, int64_t most,
                                struct hvd_err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct stat about = {0};

    if (fd < 0 || fstat(fd, &about) != 0) {
        const int failure = errno;
        if (fd >= 0)
            close(fd);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, failure, "timeline %s: %s", path, strerror(failure));
    }
    *file = (struct hvd_tracefile){
        .fd = fd, .at = 1, .bracket = 1, .most = most, .is_plain = !S_ISREG(about.st_mode)};
    hvd_buf_init(&file->_out, OUT_MAX);
    hvd_status_t st = write_at(file, "[]\n", file->is_plain ? 1 : 3, 0, err);
    if (st != HVD_OK) {
        close(fd);
        file->fd = -1;
    }
    return st;
}

/* Adds a record to the staged bytes. If it does not fit into the rest of a page, fills that with
 * spaces. */
static hvd_status_t stage(struct hvd_tracefile *file, const char *record, size_t len)
{
    char spaces[PAGE];
    const char *separator = file->n_records + file->_n_staged > 0 ? ",\n" : "\n";
    const size_t in_page = (size_t)(file->at + (int64_t)file->_out.len) % PAGE;
    const size_t needs = len + 2;
    hvd_status_t st = HVD_OK;

    memset(spaces, ' ', sizeof(spaces));
    if (!file->is_plain && in_page + needs > PAGE && needs <= PAGE)
        st = hvd_buf_add(&file->_out, spaces, PAGE - in_page);
    if (st == HVD_OK)
        st = hvd_buf_puts(&file->_out, separator);
    if (st == HVD_OK)
        st = hvd_buf_add(&file->_out, record, len);
    file->_n_staged++;
    return st;
}

/* Writes the staged bytes; drops them on failure. */
static hvd_status_t write_staged(struct hvd_tracefile *file, struct hvd_err *err)
{
    hvd_status_t st = reserve(file, (int64_t)file->_out.len, err);

    if (st == HVD_OK && file->_out.len > 0)
        st = write_at(file, file->_out.data, file->_out.len, file->at, err);
    if (st == HVD_OK) {
        file->at += (int64_t)file->_out.len;
        file->n_records += file->_n_staged;
    }
    file->_n_staged = 0;
    hvd_buf_reset(&file->_out);
    return st;
}

hvd_status_t hvd_tracefile_add(struct hvd_tracefile *file, const char *lines, size_t len,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && len > 0) {
        const char *newline = memchr(lines, '\n', len);
        const size_t n = newline ? (size_t)(newline - lines) : len;
        if (stage(file, lines, n) != HVD_OK)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "timeline: %s", hvd_status_str(HVD_ERR_NOMEM));
        if (file->_out.len >= WRITE_BYTES)
            st = write_staged(file, err);
        lines += newline ? n + 1 : n;
        len -= newline ? n + 1 : n;
    }
    return st == HVD_OK ? write_staged(file, err) : st;
}

hvd_status_t hvd_tracefile_close(struct hvd_tracefile *file, struct hvd_err *err)
{
    if (file->fd < 0)
        return HVD_OK;
    hvd_status_t st = write_at(file, END, sizeof(END) - 1, file->at, err);
    if (st == HVD_OK && !file->is_plain &&
        ftruncate(file->fd, file->at + (int64_t)sizeof(END) - 1) != 0)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "ending the timeline: %s", strerror(errno));
    if (close(file->fd) != 0 && st == HVD_OK)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "closing the timeline: %s", strerror(errno));
    file->fd = -1;
    hvd_buf_fini(&file->_out);
    return st;
}
