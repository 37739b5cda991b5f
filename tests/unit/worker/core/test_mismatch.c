#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/mismatch.h"

static const struct hvd_request base = {
    .op = HVD_ALLREDUCE,
    .dtype = HVD_FLOAT32,
    .reduce = HVD_SUM,
    .ndim = 2,
    .shape = {2, 3},
    .name = {.data = "w", .len = 1},
};

static void expect(const struct hvd_request *a, const struct hvd_request *b, int check,
                   const char *text)
{
    char got[HVD_TEXT_MAX] = "";
    int n = hvd_mismatch((struct hvd_request_of_rank){.rank = 3, .req = a},
                         (struct hvd_request_of_rank){.rank = 1, .req = b}, got, sizeof(got));

    assert_int_equal(n, check);
    if (check == 0) {
        assert_string_equal(got, "");
        return;
    }
    assert_int_equal(strncmp(got, text, strlen(text)), 0);
    assert_non_null(strstr(got, "(tensor w: rank 3, then rank 1)"));
}

static void requests_that_agree_do_not_mismatch(void **state)
{
    struct hvd_request other = base;

    (void)state;
    expect(&base, &other, 0, NULL);
    other.root = 4; /* means nothing in an allreduce */
    expect(&base, &other, 0, NULL);
}

static void each_difference_has_its_sentence(void **state)
{
    struct hvd_request other = base;

    (void)state;
    other.dtype = HVD_INT32;
    other.op = HVD_BROADCAST;
    expect(&base, &other, 1,
           "Mismatched data types: One rank had type float32, but another rank had type int32.");
    other = base;
    other.op = HVD_ALLGATHER;
    expect(&base, &other, 2,
           "Mismatched operations: One rank did an ALLREDUCE, but another rank did an ALLGATHER.");
    other = base;
    other.shape[1] = 4;
    expect(
        &base, &other, 3,
        "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2, 3], but another "
        "rank sent a tensor of shape [2, 4].");
    other = base;
    other.ndim = 1;
    expect(
        &base, &other, 3,
        "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2, 3], but another "
        "rank sent a tensor of shape [2].");
    other = base;
    other.reduce = HVD_MAX;
    expect(&base, &other, 5,
           "Mismatched reduction operation: One rank sent reduction op SUM, but another rank sent "
           "reduction op MAX.");
}

static void broadcasts_compare_roots(void **state)
{
    struct hvd_request a = base;
    struct hvd_request b = base;

    (void)state;
    a.op = b.op = HVD_BROADCAST;
    b.root = 1;
    expect(&a, &b, 11,
           "Mismatched BROADCAST root ranks: One rank specified root rank 0, but another rank "
           "specified root rank 1.");
}

static void allgathers_compare_all_but_the_first_dimension(void **state)
{
    struct hvd_request a = base;
    struct hvd_request b = base;

    (void)state;
    a.op = b.op = HVD_ALLGATHER;
    b.shape[0] = 77;
    expect(&a, &b, 0, NULL);
    b.shape[1] = 4;
    expect(
        &a, &b, 8,
        "Mismatched ALLGATHER tensor shapes: One rank sent a tensor with dimension 1 equal to 3, "
        "but another rank sent a tensor with dimension 1 equal to 4.");
    b.ndim = 1;
    expect(&a, &b, 8,
           "Mismatched ALLGATHER tensor shapes: One rank sent a tensor of rank 2, but another rank "
           "sent a tensor of rank 1.");
}

static void factors_and_devices_are_compared(void **state)
{
    struct hvd_request a = base;
    struct hvd_request b = base;

    (void)state;
    a.prescale = a.postscale = b.postscale = 1;
    b.prescale = 0.5;
    expect(&a, &b, 4,
           "Mismatched prescale and/or postscale factors: One rank sent factors (1, 1), but "
           "another rank sent factors (0.5, 1).");
    b = a;
    b.device = HVD_GPU;
    expect(&a, &b, 12,
           "Mismatched ALLREDUCE CPU/GPU device selection: One rank specified device CPU, but "
           "another rank specified device GPU.");
    a.op = b.op = HVD_REDUCESCATTER; /* a reduction as well */
    b.reduce = HVD_AVERAGE;
    expect(&a, &b, 5, "Mismatched reduction operation");
}

static void expect_unsupported(enum hvd_op op, int ndim, bool joined, int check, const char *text)
{
    const struct hvd_request req = {.op = op, .reduce = HVD_SUM, .ndim = ndim};
    char got[HVD_TEXT_MAX] = "";

    assert_int_equal(hvd_mismatch_unsupported(&req, joined, got, sizeof(got)), check);
    assert_string_equal(got, text);
}

static void what_zeros_or_scalars_cannot_do_is_said(void **state)
{
    const struct hvd_request min = {.op = HVD_ALLREDUCE, .reduce = HVD_MIN};
    char got[HVD_TEXT_MAX] = "";

    (void)state;
    expect_unsupported(HVD_ALLREDUCE, 0, true, 0, "");
    expect_unsupported(HVD_BARRIER, 0, true, 0, "");
    expect_unsupported(HVD_ALLGATHER, 1, false, 0, "");
    expect_unsupported(HVD_ALLGATHER, 1, true, 6,
                       "Allgather is not supported with Join at this time. Specify "
                       "sparse_to_dense=True if using DistributedOptimizer");
    expect_unsupported(HVD_ALLTOALL, 1, true, 6,
                       "Alltoall is not supported with Join at this time.");
    expect_unsupported(HVD_ALLGATHER, 0, false, 7,
                       "Process-set rank zero tried to ALLGATHER a rank-zero tensor.");
    expect_unsupported(HVD_REDUCESCATTER, 0, false, 7,
                       "Process-set rank zero tried to REDUCESCATTER a rank-zero tensor.");
    expect_unsupported(HVD_REDUCESCATTER, 1, true, 9,
                       "Reducescatter is not supported with Join at this time.");
    expect_unsupported(HVD_BROADCAST, 1, true, 11,
                       "Broadcast is not supported with Join at this time.");
    assert_int_equal(hvd_mismatch_unsupported(&min, true, got, sizeof(got)), 6);
    assert_int_equal(hvd_mismatch_unsupported(&min, false, got, sizeof(got)), 0);
}

static void a_text_too_long_is_cut(void **state)
{
    struct hvd_request other = base;
    char text[20];

    (void)state;
    other.dtype = HVD_INT32;
    assert_int_equal(hvd_mismatch((struct hvd_request_of_rank){.rank = 0, .req = &base},
                                  (struct hvd_request_of_rank){.rank = 1, .req = &other}, text,
                                  sizeof(text)),
                     1);
    assert_string_equal(text, "Mismatched data typ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_agree_do_not_mismatch),
        cmocka_unit_test(each_difference_has_its_sentence),
        cmocka_unit_test(broadcasts_compare_roots),
        cmocka_unit_test(allgathers_compare_all_but_the_first_dimension),
        cmocka_unit_test(factors_and_devices_are_compared),
        cmocka_unit_test(what_zeros_or_scalars_cannot_do_is_said),
        cmocka_unit_test(a_text_too_long_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
