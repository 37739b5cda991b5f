/* TensorFlow's codes of errors for the statuses of the runtime. */
#include "tests/unit/support.h"

#include "worker/python/tensorflow/core/codes.h"

static void each_status_has_the_code_that_python_expects(void **state)
{
    static const struct {
        horovod_status_t status;
        enum hvd_tf_code code;
    } rows[] = {
        {HOROVOD_OK, HVD_TF_OK},
        {HOROVOD_PRECONDITION_ERROR, HVD_TF_FAILED_PRECONDITION},
        {HOROVOD_ABORTED, HVD_TF_ABORTED},
        {HOROVOD_INVALID_ARGUMENT, HVD_TF_INVALID_ARGUMENT},
        {HOROVOD_OUT_OF_MEMORY, HVD_TF_RESOURCE_EXHAUSTED},
        {HOROVOD_UNKNOWN_ERROR, HVD_TF_UNKNOWN},
        {HOROVOD_IN_PROGRESS, HVD_TF_INTERNAL},
        {(horovod_status_t)99, HVD_TF_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(hvd_tf_code_of(rows[i].status), rows[i].code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_the_code_that_python_expects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
