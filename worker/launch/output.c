/*
 * The ranks' output in files. The wrapper around a rank writes them on the rank's own host: the
 * program's bytes, with the time before each line if requested.
 */
#include "worker/launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/launch/process.h"

#define CHUNK_MAX ((size_t)1 << 20)

/* Makes the folder and those above it. */
static hvd_status_t make_folders(char *path, struct hvd_err *err)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return HVD_FAIL(err, HVD_ERR_SYSTEM, errno,
                            "cannot make the folder %.300s (--output-filename): %s", path,
                            strerror(errno));
        if (!slash)
            return HVD_OK;
        *slash = '/';
    }
}

/* The number of digits of the largest rank. */
static int digits(const char *size)
{
    const int64_t range[2] = {1, INT32_MAX};
    int64_t n = 1;

    if (!size || hvd_str_parse_int64(hvd_strview_of(size), range, &n, NULL) < 0)
        return 1;
    return snprintf(NULL, 0, "%" PRId64, n - 1);
}

hvd_status_t hvd_output_open(struct hvd_output *output, const struct hvd_output_name *name,
                             struct hvd_err *err)
{
    const int width = digits(name->size);
    const int pad = width - (int)strlen(name->rank);
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/rank.%.*s%s", name->dir, pad > 0 ? pad : 0,
                       "0000000000", name->rank);
    hvd_status_t st;

    if (len < 0 || (size_t)len + strlen(name->stream) + 2 > sizeof(path))
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0,
                        "the folder's name is too long "
                        "(--output-filename)");
    st = make_folders(path, err);
    if (st < 0)
        return st;
    (void)snprintf(path + len, sizeof(path) - (size_t)len, "/%s", name->stream);
    output->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output->fd < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot write %.300s (--output-filename): %s",
                        path, strerror(errno));
    hvd_prefix_init(&output->lines, "", "");
    output->lines.text[0] = '\0';
    return HVD_OK;
}

static void put(struct hvd_output *output, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(output->fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            (void)fprintf(stderr, "horovodrun: a file of --output-filename ends here: %s\n",
                          strerror(errno));
            hvd_process_close(&output->fd);
            return;
        }
        data += n;
        len -= (size_t)n;
    }
}

void hvd_output_write(struct hvd_output *output, const char *stamp, struct hvd_strview data)
{
    struct hvd_buf text = {0};

    if (output->fd < 0)
        return;
    if (!output->has_stamp) {
        put(output, data.data, data.len);
        return;
    }
    hvd_buf_init(&text, CHUNK_MAX);
    (void)!hvd_prefix_feed(&output->lines, stamp, data, &text);
    put(output, text.data, text.len);
    hvd_buf_fini(&text);
}

void hvd_output_close(struct hvd_output *output, const char *stamp)
{
    struct hvd_buf text = {0};

    hvd_buf_init(&text, CHUNK_MAX);
    if (output->fd >= 0 && hvd_prefix_flush(&output->lines, stamp, &text) == HVD_OK)
        put(output, text.data, text.len);
    hvd_buf_fini(&text);
    hvd_prefix_fini(&output->lines);
    hvd_process_close(&output->fd);
}
