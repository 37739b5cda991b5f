#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "worker/telemetry/core/rank_hosts.h"

#define HEAD                                                                                       \
    "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 0\","

static const char *host_of(const void *ctx, int rank)
{
    return ((const char *const *)ctx)[rank];
}

static void every_host_has_a_record_with_its_ranks(void **state)
{
    static const char *const hosts[] = {"b", "b", "a\"", "b", NULL, "a\"", "b", "b", "", "c"};
    const struct hvd_rank_hosts rank_hosts = {.size = 10, .host = host_of, .ctx = hosts};
    struct hvd_buf lines;

    (void)state;
    hvd_buf_init(&lines, 1 << 20);
    assert_int_equal(hvd_rank_hosts_write(&rank_hosts, &lines), HVD_OK);
    assert_string_equal(lines.data, HEAD "\"host\":\"b\",\"ranks\":\"0-1, 3, 6-7\"}}\n" HEAD
                                         "\"host\":\"a\\\"\",\"ranks\":\"2, 5\"}}\n" HEAD
                                         "\"host\":\"c\",\"ranks\":\"9\"}}\n");
    hvd_buf_fini(&lines);
}

static const char *host_by_turns(const void *ctx, int rank)
{
    (void)ctx;
    return rank % 2 ? "odd" : "even";
}

static void a_long_list_is_in_several_records(void **state)
{
    const struct hvd_rank_hosts rank_hosts = {.size = 100000, .host = host_by_turns};
    struct hvd_buf lines;
    struct hvd_strview rest;
    long next = 0;

    (void)state;
    hvd_buf_init(&lines, 16 << 20);
    assert_int_equal(hvd_rank_hosts_write(&rank_hosts, &lines), HVD_OK);
    rest = (struct hvd_strview){lines.data, lines.len};
    while (rest.len > 0) {
        const struct hvd_strview line = hvd_strview_cut(&rest, '\n');
        lines.data[line.data + line.len - lines.data] =
            0; /* a sanitizer looks for the end of text */
        const char *at = strstr(line.data, "\"ranks\":\"") + 9;
        const char *host = strstr(line.data, "\"host\":\"") + 8;

        assert_true(line.len < 1200);
        for (char *end = NULL; *at != '"'; at = end + strspn(end, ", ")) {
            if (next == 100000)
                next = 1; /* the odd ones */
            assert_int_equal(strtol(at, &end, 10), next);
            assert_true(hvd_str_has_prefix(host, next % 2 ? "odd\"" : "even\""));
            next += 2;
        }
    }
    assert_int_equal(next, 100001);
    hvd_buf_fini(&lines);
}

static void every_allocation_may_fail(void **state)
{
    static const char *const hosts[] = {"a", "b"};
    const struct hvd_rank_hosts rank_hosts = {.size = 2, .host = host_of, .ctx = hosts};

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_buf lines;

        hvd_buf_init(&lines, 1 << 20);
        hvd_status_t st = hvd_rank_hosts_write(&rank_hosts, &lines);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&lines);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_has_a_record_with_its_ranks),
        cmocka_unit_test(a_long_list_is_in_several_records),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
