#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/plan.h"

/* A step as it comes out of a message; the buffer must outlive it. */
static struct hvd_step make_step(struct hvd_buf *buf, int kind, const int64_t *rows, uint32_t n)
{
    struct hvd_reader r;
    struct hvd_step step = {0};

    hvd_buf_init(buf, 4096);
    assert_int_equal(hvd_message_begin(buf, HVD_MESSAGE_PLAN), HVD_OK);
    assert_int_equal(hvd_message_add_step(buf, kind, hvd_strview_of("t"), rows, n, ""), HVD_OK);
    assert_int_equal(hvd_reader_init(&r, buf->data, buf->len, NULL), HVD_OK);
    assert_int_equal(hvd_reader_step(&r, &step, NULL), HVD_OK);
    return step;
}

static const struct hvd_request gather = {
    .op = HVD_ALLGATHER, .ndim = 2, .shape = {2, 5}, .name = {.data = "t", .len = 1}};
static const struct hvd_place place = {.rank = 1, .size = 3};

static void an_allreduce_moves_its_elements(void **state)
{
    struct hvd_request req = {.op = HVD_ALLREDUCE, .ndim = 1, .shape = {6}};
    struct hvd_work work = {0};
    struct hvd_buf buf;
    struct hvd_step step = make_step(&buf, HVD_ALLREDUCE, NULL, 0);
    int64_t *none[2] = {NULL, NULL};

    (void)state;
    assert_int_equal(hvd_plan_work(&req, &step, place, none, &work, NULL), HVD_OK);
    assert_int_equal(work.count, 6);
    assert_true(work.moves_data);
    req.shape[0] = 0;
    assert_int_equal(hvd_plan_work(&req, &step, place, none, &work, NULL), HVD_OK);
    assert_false(work.moves_data);
    hvd_buf_fini(&buf);
}

static void an_allgather_is_laid_out_by_rank(void **state)
{
    const int64_t agreed[] = {0, 2, 7};
    int64_t rows[3];
    int64_t counts[3];
    int64_t *both[2] = {rows, counts};
    struct hvd_work work = {0};
    struct hvd_buf buf;
    struct hvd_step step = make_step(&buf, HVD_ALLGATHER, agreed, 3);

    (void)state;
    assert_int_equal(hvd_plan_work(&gather, &step, place, both, &work, NULL), HVD_OK);
    assert_int_equal(work.count, 10);
    assert_int_equal(work.total_rows, 9);
    assert_int_equal(work.total, 45);
    assert_int_equal(counts[2], 35);
    hvd_buf_fini(&buf);
}

static hvd_status_t lay_out(int kind, const int64_t *agreed, uint32_t n)
{
    int64_t rows[3];
    int64_t counts[3];
    int64_t *both[2] = {rows, counts};
    struct hvd_work work = {0};
    struct hvd_buf buf;
    struct hvd_step step = make_step(&buf, kind, agreed, n);
    hvd_status_t st = hvd_plan_work(&gather, &step, place, both, &work, NULL);

    hvd_buf_fini(&buf);
    return st;
}

static void a_plan_that_does_not_fit_is_refused(void **state)
{
    const int64_t others[] = {0, 3, 7};
    const int64_t huge[] = {INT64_MAX / 8, 2, INT64_MAX / 8};

    (void)state;
    assert_int_equal(lay_out(HVD_BROADCAST, NULL, 0), HVD_ERR_INVALID);
    assert_int_equal(lay_out(HVD_ALLGATHER, others, 3), HVD_ERR_INVALID);
    assert_int_equal(lay_out(HVD_ALLGATHER, others, 2), HVD_ERR_INVALID);
    assert_int_equal(lay_out(HVD_ALLGATHER, huge, 3), HVD_ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allreduce_moves_its_elements),
        cmocka_unit_test(an_allgather_is_laid_out_by_rank),
        cmocka_unit_test(a_plan_that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
