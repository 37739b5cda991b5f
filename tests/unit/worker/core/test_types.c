#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/types.h"

static struct hvd_request good(void)
{
    return (struct hvd_request){.op = HVD_ALLREDUCE,
                                .dtype = HVD_FLOAT32,
                                .reduce = HVD_SUM,
                                .ndim = 2,
                                .shape = {2, 3},
                                .name = hvd_strview_of("t")};
}

static void a_legal_request_passes_the_check(void **state)
{
    struct hvd_request req = good();

    (void)state;
    assert_int_equal(hvd_request_check(&req, 1, NULL), HVD_OK);
    req.op = HVD_ALLGATHER;
    assert_int_equal(hvd_request_check(&req, 1, NULL), HVD_OK);
    req.ndim = 0;
    req.op = HVD_ALLREDUCE;
    assert_int_equal(hvd_request_check(&req, 1, NULL), HVD_OK);
}

static void expect_refused(const struct hvd_request *req, int size, const char *words)
{
    struct hvd_err err = {0};

    assert_int_equal(hvd_request_check(req, size, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, words));
}

static void an_illegal_request_is_refused_with_what_is_allowed(void **state)
{
    struct hvd_request req = good();

    (void)state;
    req.name.len = 0;
    expect_refused(&req, 2, "1 to 1023");
    req = good();
    req.dtype = (enum hvd_dtype)13;
    expect_refused(&req, 2, "data type 13");
    req = good();
    req.reduce = (enum hvd_reduce)6;
    expect_refused(&req, 2, "reduction 6 does not exist");
    req = good();
    req.dtype = HVD_INT32;
    req.reduce = HVD_ADASUM;
    expect_refused(&req, 2, "Adasum is for float16, float32, float64 and bfloat16, not for int32");
    req = good();
    req.ndim = 17;
    expect_refused(&req, 2, "17 dimensions");
    req = good();
    req.shape[1] = -1;
    expect_refused(&req, 2, "dimension 1 has the size -1");
    req = good();
    req.shape[0] = INT64_MAX;
    expect_refused(&req, 2, "more elements");
    req = good();
    req.op = HVD_BROADCAST;
    req.root = 2;
    expect_refused(&req, 2, "invalid root rank 2 for provided process set: ranks are 0 to 1");
    req.op = (enum hvd_op)4;
    expect_refused(&req, 2, "operation 4");
    req.op = HVD_REDUCESCATTER;
    req.reduce = HVD_MIN;
    expect_refused(&req, 2, "Reducescatter currently only supports AVERAGE and SUM.");
    req = good();
    req.group = 3;
    expect_refused(&req, 2, "group 3 of 0");
}

static void a_zero_among_huge_sizes_makes_no_elements(void **state)
{
    const int64_t shape[] = {INT64_MAX, 0, INT64_MAX};
    const int64_t large[] = {(int64_t)1 << 32, 2};
    int64_t count = -1;

    (void)state;
    assert_true(hvd_shape_count(shape, 3, &count));
    assert_int_equal(count, 0);
    assert_true(hvd_shape_count(large, 2, &count));
    assert_int_equal(count, (int64_t)1 << 33);
    assert_true(hvd_shape_count(NULL, 0, &count));
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_legal_request_passes_the_check),
        cmocka_unit_test(an_illegal_request_is_refused_with_what_is_allowed),
        cmocka_unit_test(a_zero_among_huge_sizes_makes_no_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
