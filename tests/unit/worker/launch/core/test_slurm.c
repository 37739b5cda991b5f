#include "tests/unit/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "worker/launch/core/slurm.h"

static void every_node_of_an_allocation_has_its_tasks(void **state)
{
    static const char *const cases[][3] = {
        {"n1", "4", "n1:4"},
        {"n[1-3]", "2(x2),1", "n1:2 n2:2 n3:1"},
        {"n[08-10],big", "1(x4)", "n08:1 n09:1 n10:1 big:1"},
        {"r[1-2]n[3,05]", "1(x4)", "r1n3:1 r1n05:1 r2n3:1 r2n05:1"},
        {"a[1]-ib,b", "3,2", "a1-ib:3 b:2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        char text[256] = "";

        assert_int_equal(hvd_slurm_hosts(cases[i][0], cases[i][1], &hosts, NULL), HVD_OK);
        for (size_t k = 0; k < hosts.n; k++)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%" PRId64,
                           k ? " " : "", hosts.items[k].name, hosts.items[k].slots);
        assert_string_equal(text, cases[i][2]);
        hvd_hosts_fini(&hosts);
    }
}

static void what_slurm_never_writes_is_refused(void **state)
{
    static const char *const cases[][3] = {
        {"n[1-3]", "1(x2)", "more nodes than task counts"},
        {"n[1-", "1", "a bracket is not closed"},
        {"n[3-1]", "1", "counts down"},
        {"n[a]", "1", "\"a\" is not an integer"},
        {"n[1-2]", "2(y2)", "not like 2(x3)"},
        {"n[1-2]", "x", "\"x\" is not an integer"},
        {"", "1", "is not a host"},
        {"-n", "1", "\"-n\" is not a host name"},
        {"n[1-99999]", "1(x99999)", "more than 16384 nodes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_err err = {0};

        assert_true(hvd_slurm_hosts(cases[i][0], cases[i][1], &hosts, &err) < 0);
        assert_int_equal(hosts.n, 0);
        if (!strstr(err.msg, cases[i][2]))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i][2]);
        assert_non_null(strstr(err.msg, "Slurm's allocation"));
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_hosts hosts = {0};
        hvd_status_t st = hvd_slurm_hosts("n[1-20]", "1(x20)", &hosts, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_hosts_fini(&hosts);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_of_an_allocation_has_its_tasks),
        cmocka_unit_test(what_slurm_never_writes_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
