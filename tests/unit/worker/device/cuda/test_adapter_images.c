/* Which image of the kernels the adapter loads: machine code first, and PTX where that does not
 * fit.
 */
#include "tests/unit/support.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/device/cuda/ranks.h"
#include "worker/device/cuda/image.h"

/* Takes the place of the library's. The double does not read what is behind the first number. */
_Alignas(16) const unsigned char hvd_cuda_fatbin[] = {0x50, 0xed, 0x55, 0xba, 0};
const size_t hvd_cuda_fatbin_bytes = 4;

/* Opens a GPU and closes it again. Returns how many images were loaded, or tried; -1: it cannot be
 * opened. */
static long open_gpu(long driver_version, long capability, struct hvd_err *err)
{
    const struct hvd_cuda_options options = {.ordinal = 0};
    struct hvd_device_port *port = NULL;

    fake_gpu_set(FAKE_GPU_CAPABILITY, capability);
    fake_gpu_set(FAKE_GPU_DRIVER_VERSION, driver_version);
    fake_gpu_forget();
    const hvd_status_t st = hvd_cuda_create(&options, &port, err);
    const long loads = fake_gpu_calls("cuModuleLoadData");
    hvd_cuda_destroy(port);
    ranks_no_leaks();
    return st == HVD_OK ? loads : -1;
}

static void machine_code_is_loaded_without_ptx(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_PTX_VERSION, 50); /* no PTX can be loaded */
    assert_int_equal(open_gpu(13000, 90, NULL), 1);
    assert_int_equal(open_gpu(13000, 86, NULL), 1); /* that of 8.0 */
    fake_gpu_set(FAKE_GPU_PTX_VERSION, 90);
}

static void a_gpu_without_machine_code_gets_ptx(void **state)
{
    (void)state;
    assert_int_equal(open_gpu(13000, 61, NULL), 2);
}

static void machine_code_that_lacks_a_kernel_is_replaced_by_ptx(void **state)
{
    const struct hvd_cuda_options options = {.ordinal = 0};
    struct hvd_device_port *port = NULL;

    (void)state;
    assert_int_equal(open_gpu(13000, 90, NULL), 1);
    fake_gpu_forget();
    fake_gpu_fail("cuModuleGetFunction", 3, HVD_CU_NOT_FOUND);
    assert_int_equal(hvd_cuda_create(&options, &port, NULL), HVD_OK);
    assert_int_equal(fake_gpu_calls("cuModuleLoadData"), 2);
    hvd_cuda_destroy(port);
    ranks_no_leaks();
}

static void without_an_image_that_fits_the_reason_is_that_of_ptx(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    fake_gpu_set(FAKE_GPU_PTX_VERSION, 50);
    assert_int_equal(open_gpu(13000, 61, &err), -1);
    assert_non_null(strstr(err.msg, "cuModuleLoadData"));
    fake_gpu_set(FAKE_GPU_PTX_VERSION, 90);
}

/* The version of the driver is read once in a process: a second process has another one. */
static void an_old_driver_gets_ptx_at_once(void **state)
{
    int status = 0;

    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        const bool is_good = open_gpu(12080, 90, NULL) == 1;
        fake_gpu_set(FAKE_GPU_PTX_VERSION, 50);
        _exit(is_good && open_gpu(12080, 90, NULL) == -1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_driver_gets_ptx_at_once), /* before a driver is opened here */
        cmocka_unit_test(machine_code_is_loaded_without_ptx),
        cmocka_unit_test(a_gpu_without_machine_code_gets_ptx),
        cmocka_unit_test(machine_code_that_lacks_a_kernel_is_replaced_by_ptx),
        cmocka_unit_test(without_an_image_that_fits_the_reason_is_that_of_ptx),
    };

    return cmocka_run_group_tests(tests, ranks_begin, NULL);
}
