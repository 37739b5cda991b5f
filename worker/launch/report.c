/*
 * horovodrun --timeline-report: reads files and writes one file. worker/timeline_report computes
 * its contents.
 */
#include "worker/launch/report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/launch/process.h"
#include "worker/timeline_report/analysis.h"
#include "worker/timeline_report/page.h"

#define TIMELINE_MAX ((size_t)4 << 30)

static hvd_status_t add_file(struct hvd_tl_model *model, const char *path, struct hvd_err *err)
{
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, TIMELINE_MAX);
    st = hvd_process_read_file(path, &text, err);
    if (st == HVD_OK) {
        st = hvd_tl_model_add(
            model, (struct hvd_strview){.data = text.data ? text.data : "", .len = text.len}, err);
        if (st < 0)
            st = HVD_WRAP(err, st, "timeline %.300s", path);
    }
    hvd_buf_fini(&text);
    return st;
}

/* Writes a file beside the page and renames it, so that the page is either complete or
 * unchanged. */
static hvd_status_t write_page(const char *path, const struct hvd_buf *text, struct hvd_err *err)
{
    char beside[PATH_MAX];
    FILE *file;
    int len = snprintf(beside, sizeof(beside), "%s.new", path);
    bool is_written;

    if (len < 0 || (size_t)len >= sizeof(beside))
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "the name of the report is too long");
    file = fopen(beside, "wbe");
    if (!file)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot write %.300s: %s", beside,
                        strerror(errno));
    is_written = fwrite(text->data, 1, text->len, file) == text->len;
    is_written = fclose(file) == 0 && is_written;
    if (is_written && rename(beside, path) == 0)
        return HVD_OK;
    (void)HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot write %.300s: %s", path, strerror(errno));
    (void)unlink(beside);
    return HVD_ERR_SYSTEM;
}

static hvd_status_t put_page(const struct hvd_tl_model *model,
                             const struct hvd_tl_analysis *analysis, char *const *timelines,
                             size_t n, struct hvd_buf *text)
{
    const time_t now = time(NULL);
    char host[256] = "";
    char made[32] = "";
    struct tm tm;

    (void)gethostname(host, sizeof(host) - 1);
    if (gmtime_r(&now, &tm))
        (void)strftime(made, sizeof(made), "%Y-%m-%d %H:%M:%S UTC", &tm);
    return hvd_tl_page(
        model, analysis,
        &(struct hvd_tl_about){.files = timelines, .n_files = n, .host = host, .made = made}, text);
}

hvd_status_t hvd_report_make(const char *page, char *const *timelines, size_t n,
                             struct hvd_err *err)
{
    struct hvd_tl_model model = {0};
    struct hvd_tl_analysis analysis = {0};
    struct hvd_buf text = {0};
    hvd_status_t st = HVD_OK;

    hvd_buf_init(&text, HVD_TL_PAGE_MAX);
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = add_file(&model, timelines[i], err);
    if (st == HVD_OK) {
        st = hvd_tl_analysis_make(&model, &analysis);
        if (st == HVD_OK)
            st = put_page(&model, &analysis, timelines, n, &text);
        if (st < 0)
            st = HVD_FAIL(err, st, 0, "the report: %s", hvd_status_str(st));
    }
    if (st == HVD_OK)
        st = write_page(page, &text, err);
    hvd_tl_analysis_fini(&analysis);
    hvd_tl_model_fini(&model);
    hvd_buf_fini(&text);
    return st;
}
