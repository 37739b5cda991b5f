#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/op_layout.h"

static const struct hvd_request gather = {
    .op = HVD_ALLGATHER, .ndim = 2, .shape = {2, 5}, .name = {.data = "t", .len = 1}};
static const struct hvd_self self = {.rank = 1, .size = 3};

static void an_allreduce_moves_its_elements(void **state)
{
    struct hvd_request req = {.op = HVD_ALLREDUCE, .ndim = 1, .shape = {6}};
    struct hvd_work work = {0};

    (void)state;
    assert_int_equal(hvd_op_layout_work(&req, NULL, self, NULL, &work, NULL), HVD_OK);
    assert_int_equal(work.count, 6);
    assert_int_equal(work.total, 6);
    assert_true(work.moves_data);
    req.shape[0] = 0;
    assert_int_equal(hvd_op_layout_work(&req, NULL, self, NULL, &work, NULL), HVD_OK);
    assert_false(work.moves_data);
    req.op = HVD_BARRIER;
    req.ndim = 0;
    assert_int_equal(hvd_op_layout_work(&req, NULL, self, NULL, &work, NULL), HVD_OK);
    assert_false(work.moves_data);
}

static void an_allgather_is_laid_out_by_rank(void **state)
{
    const int64_t agreed[] = {0, 2, 7};
    int64_t counts[3];
    struct hvd_work work = {0};

    (void)state;
    assert_int_equal(hvd_op_layout_work(&gather, agreed, self, counts, &work, NULL), HVD_OK);
    assert_int_equal(work.count, 10);
    assert_int_equal(work.total_rows, 9);
    assert_int_equal(work.total, 45);
    assert_int_equal(counts[2], 35);
}

static void the_first_ranks_of_a_reducescatter_get_a_row_more(void **state)
{
    const struct hvd_request req = {.op = HVD_REDUCESCATTER, .ndim = 2, .shape = {8, 3}};
    struct hvd_work work = {0};
    int64_t counts[3];

    (void)state;
    assert_int_equal(hvd_op_layout_work(&req, NULL, self, counts, &work, NULL), HVD_OK);
    assert_int_equal(counts[0], 9);
    assert_int_equal(counts[1], 9);
    assert_int_equal(counts[2], 6);
    assert_int_equal(work.total_rows, 3);
    assert_int_equal(work.total, 9);
    assert_int_equal(hvd_rows_of(2, 2, 3), 0);
}

static void a_plan_that_does_not_fit_is_refused(void **state)
{
    const int64_t others[] = {0, 3, 7};
    const int64_t huge[] = {INT64_MAX / 8, 2, INT64_MAX / 8};
    const struct hvd_request scalar = {.op = HVD_ALLTOALL, .name = {.data = "t", .len = 1}};
    int64_t counts[3];
    struct hvd_work work = {0};

    (void)state;
    assert_int_equal(hvd_op_layout_work(&gather, others, self, counts, &work, NULL),
                     HVD_ERR_INVALID);
    assert_int_equal(hvd_op_layout_work(&gather, NULL, self, counts, &work, NULL), HVD_ERR_INVALID);
    assert_int_equal(hvd_op_layout_work(&gather, huge, self, counts, &work, NULL),
                     HVD_ERR_TOO_LARGE);
    assert_int_equal(hvd_op_layout_work(&scalar, NULL, self, counts, &work, NULL), HVD_ERR_INVALID);
}

static void expect_splits(int64_t rows, const int64_t *given, int n, const char *words)
{
    const struct hvd_request req = {.op = HVD_ALLTOALL, .ndim = 1, .shape = {rows}};
    struct hvd_err err = {0};
    int64_t splits[3] = {-1, -1, -1};
    hvd_status_t st = hvd_op_layout_splits(&req, given, n, 3, splits, &err);

    assert_int_equal(st, words ? HVD_ERR_INVALID : HVD_OK);
    if (words)
        assert_non_null(strstr(err.msg, words));
    else
        assert_int_equal(splits[2], given ? given[2] : rows / 3);
}

static void splits_are_checked_with_the_known_sentences(void **state)
{
    const int64_t some[] = {2, 0, 3};
    const int64_t negative[] = {2, -1, 3};

    (void)state;
    expect_splits(6, NULL, 0, NULL);
    expect_splits(7, NULL, 0, "splits not provided, but first dimension of tensor is not an even");
    expect_splits(5, some, 3, NULL);
    expect_splits(9, some, 3, NULL);
    expect_splits(4, some, 3, "Sum of splits entries is greater than the first dimension");
    expect_splits(5, some, 2, "Number of entries in splits does not equal number of workers");
    expect_splits(5, negative, 3, "the split for rank 1 is -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allreduce_moves_its_elements),
        cmocka_unit_test(an_allgather_is_laid_out_by_rank),
        cmocka_unit_test(the_first_ranks_of_a_reducescatter_get_a_row_more),
        cmocka_unit_test(a_plan_that_does_not_fit_is_refused),
        cmocka_unit_test(splits_are_checked_with_the_known_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
