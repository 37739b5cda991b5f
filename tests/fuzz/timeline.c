/* A timeline, then the report of it and of one more rank: every moment counts for one class. */
#include "tests/fuzz/fuzz.h"
#include "worker/timeline_report/analysis.h"
#include "worker/timeline_report/page.h"

/* Adds what stands up to a zero byte, else all. */
static hvd_status_t add(struct hvd_tl_model *model, const char *text, size_t size)
{
    struct hvd_err err = {0};

    return hvd_tl_model_add(model, (struct hvd_strview){text, size}, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_tl_model model = {0};
    struct hvd_tl_analysis analysis = {0};
    struct hvd_buf page = {0};
    char *text = fuzz_text(data, size);
    const char *second = memchr(text, '\0', size);
    const size_t len = second ? (size_t)(second - text) : size;

    hvd_buf_init(&page, (size_t)64 << 20);
    if (add(&model, text, len) == HVD_OK &&
        (len == size || add(&model, second + 1, size - len - 1) == HVD_OK)) {
        MUST(hvd_tl_analysis_make(&model, &analysis) == HVD_OK);
        for (size_t i = 0; i < model.n_ranks; i++) {
            int64_t sum_ns = 0;

            for (size_t c = 0; c < HVD_TL_CLASSES; c++)
                sum_ns += analysis.shares[i].ns[c];
            MUST(sum_ns >= model.ranks[i].last_ns - model.ranks[i].first_ns);
        }
        MUST(hvd_tl_page(&model, &analysis, &(struct hvd_tl_about){0}, &page) == HVD_OK);
        MUST(strlen(page.data) == page.len);
    }
    hvd_tl_analysis_fini(&analysis);
    hvd_tl_model_fini(&model);
    hvd_buf_fini(&page);
    free(text);
    return 0;
}
