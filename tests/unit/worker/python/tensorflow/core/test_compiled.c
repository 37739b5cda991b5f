/* Descriptions of an allreduce in a program of XLA. */
#include "tests/unit/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/python/tensorflow/core/compiled.h"

#define ONE "4607182418800017408"  /* the bits of 1.0 */
#define HALF "4602678819172646912" /* of 0.5 */

static void a_group_is_read_tensor_by_tensor(void **state)
{
    struct hvd_tf_compiled call;
    horovod_tensor_t tensor;
    int64_t shape[HVD_TF_COMPILED_NDIM_MAX];

    (void)state;
    assert_true(hvd_tf_compiled_parse(
        hvd_strview_of("1 1 3 " HALF " " ONE " 3 1 2 4 5 19 0 2 1 0 a name / with spaces"), &call));
    assert_true(call.is_group);
    assert_int_equal(call.n, 3);
    assert_int_equal(call.tensor.op, HOROVOD_SUM);
    assert_int_equal(call.tensor.process_set, 3);
    assert_true(call.tensor.prescale_factor == 0.5);
    assert_true(call.tensor.postscale_factor == 1.0);

    assert_true(hvd_tf_compiled_next(&call, &tensor, shape));
    assert_int_equal(tensor.size, sizeof(tensor));
    assert_int_equal(tensor.dtype, HOROVOD_FLOAT32);
    assert_int_equal(tensor.ndim, 2);
    assert_int_equal(tensor.shape[0], 4);
    assert_int_equal(tensor.shape[1], 5);
    assert_int_equal(hvd_tf_compiled_count(&tensor), 20);
    assert_int_equal(tensor.process_set, 3);

    assert_true(hvd_tf_compiled_next(&call, &tensor, shape));
    assert_int_equal(tensor.dtype, HOROVOD_FLOAT16);
    assert_int_equal(tensor.ndim, 0);
    assert_int_equal(hvd_tf_compiled_count(&tensor), 1);

    assert_true(hvd_tf_compiled_next(&call, &tensor, shape));
    assert_int_equal(tensor.dtype, HOROVOD_FLOAT64);
    assert_int_equal(hvd_tf_compiled_count(&tensor), 0);
    assert_true(hvd_strview_equal(call.rest, "a name / with spaces"));
}

static void zero_and_negative_factors_keep_their_bits(void **state)
{
    static const double factors[] = {0.0, -1.0, 1.0 / 3, -0.0, 1e300};
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        struct hvd_tf_compiled call;
        int64_t bits = 0;
        memcpy(&bits, &factors[i], sizeof(bits));
        snprintf(text, sizeof(text), "0 0 0 %" PRId64 " " ONE " 1 1 0 x", bits);
        assert_true(hvd_tf_compiled_parse(hvd_strview_of(text), &call));
        assert_memory_equal(&call.tensor.prescale_factor, &factors[i], sizeof(double));
    }
}

static void texts_that_are_cut_or_bad_are_refused(void **state)
{
    static const char *const heads[] = {
        "",
        "2 1 0 " ONE " " ONE " 1",
        "0 -1 0 " ONE " " ONE " 1",
        "0 1 -1 " ONE " " ONE " 1",
        "0 1 0 1.5 " ONE " 1",
        "0 1 0 " ONE " " ONE " 0",
        "0 1 0 " ONE " " ONE,
        "0 1 0 " ONE " " ONE " 999999999999",
    };
    static const char *const tensors[] = {
        "0 1 0 " ONE " " ONE " 1",          "0 1 0 " ONE " " ONE " 1 7 0 x",
        "0 1 0 " ONE " " ONE " 1 1 17 x",   "0 1 0 " ONE " " ONE " 1 1 -1 x",
        "0 1 0 " ONE " " ONE " 1 1 2 4",    "0 1 0 " ONE " " ONE " 1 1 1 -4 x",
        "0 1 0 " ONE " " ONE " 1 1 1 4k x",
    };
    struct hvd_tf_compiled call;
    horovod_tensor_t tensor;
    int64_t shape[HVD_TF_COMPILED_NDIM_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (hvd_tf_compiled_parse(hvd_strview_of(heads[i]), &call))
            fail_msg("accepted: %s", heads[i]);
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        assert_true(hvd_tf_compiled_parse(hvd_strview_of(tensors[i]), &call));
        if (hvd_tf_compiled_next(&call, &tensor, shape))
            fail_msg("accepted: %s", tensors[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_read_tensor_by_tensor),
        cmocka_unit_test(zero_and_negative_factors_keep_their_bits),
        cmocka_unit_test(texts_that_are_cut_or_bad_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
