#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/telemetry/core/metrics.h"

static void every_counter_is_written_once_with_its_value(void **state)
{
    struct hvd_counts counts;
    uint64_t *values = (uint64_t *)&counts;
    const size_t n = sizeof(counts) / sizeof(*values);
    struct hvd_buf text;
    int n_found = 0;

    (void)state;
    for (size_t i = 0; i < n; i++)
        values[i] = 1000 + i;
    hvd_buf_init(&text, 1 << 20);
    assert_int_equal(hvd_metrics_encode(&counts, 5, &text), HVD_OK);
    for (size_t i = 0; i < n; i++) {
        char value[32];
        snprintf(value, sizeof(value), "} %d\n", (int)(1000 + i));
        if (strstr(text.data, value))
            n_found++;
    }
    /* All but `completed`, which is the sum of the tensors, and the unused operation, twice. */
    assert_int_equal(n_found, (int)n - 3);
    assert_non_null(strstr(text.data, "# TYPE horovod_tensors_total counter\n"));
    assert_non_null(strstr(text.data, "horovod_tensors_total{rank=\"5\",op=\"allreduce\"} 1003\n"));
    assert_non_null(strstr(text.data, "horovod_failed_tensors_total{rank=\"5\"} 1002\n"));
    hvd_buf_fini(&text);
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        const struct hvd_counts counts = {0};
        struct hvd_buf text;
        hvd_buf_init(&text, 1 << 20);
        hvd_status_t st = hvd_metrics_encode(&counts, 0, &text);
        assert_true(st == HVD_OK || (hvd_mem_fired() && st == HVD_ERR_NOMEM));
        hvd_buf_fini(&text);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_counter_is_written_once_with_its_value),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
