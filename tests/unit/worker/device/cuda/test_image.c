#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/device/cuda/image.h"
#include "worker/device/cuda/kernels.h"

static void the_ptx_is_a_text_with_every_kernel(void **state)
{
    const char *text = (const char *)hvd_cuda_ptx;

    (void)state;
    assert_int_equal(strlen(text), hvd_cuda_ptx_bytes);
#define HAS(ENUMERATOR, NAME, STEP) assert_non_null(strstr(text, ".visible .entry " #NAME "("));
    HVD_CUDA_KERNELS(HAS)
#undef HAS
}

static void the_parameter_has_the_size_that_the_ptx_declares(void **state)
{
    char declared[80];

    (void)state;
    (void)snprintf(declared, sizeof(declared), ".b8 hvd_cuda_copy_param_0[%zu]\n",
                   sizeof(struct hvd_cuda_args));
    assert_non_null(strstr((const char *)hvd_cuda_ptx, declared));
}

static void images_are_aligned_as_the_driver_reads_them(void **state)
{
    (void)state;
    assert_int_equal((uintptr_t)hvd_cuda_ptx % 16, 0);
    assert_int_equal((uintptr_t)hvd_cuda_fatbin % 16, 0);
    assert_int_equal(hvd_cuda_fatbin[hvd_cuda_fatbin_bytes], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ptx_is_a_text_with_every_kernel),
        cmocka_unit_test(the_parameter_has_the_size_that_the_ptx_declares),
        cmocka_unit_test(images_are_aligned_as_the_driver_reads_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
