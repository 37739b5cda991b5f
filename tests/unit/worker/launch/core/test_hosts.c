#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/hosts.h"

static const char operator_file[] = "# written by the operator\n"
                                    "digits-worker-0.digits slots=2\n"
                                    "\n"
                                    "  10.0.0.7\tslots=1 max_slots=4  # by address\r\n"
                                    "digits-worker-1.digits\n"
                                    "digits-worker-0.digits slots=1";

static void a_list_names_hosts_and_slots(void **state)
{
    struct hvd_hosts hosts = {0};

    (void)state;
    assert_int_equal(hvd_hosts_parse_list("a:4, b.c ,10.0.0.1:2", &hosts, NULL), HVD_OK);
    assert_int_equal(hosts.n, 3);
    assert_string_equal(hosts.items[1].name, "b.c");
    assert_int_equal(hosts.items[0].slots, 4);
    assert_int_equal(hosts.items[1].slots, 1);
    assert_int_equal(hvd_hosts_slots(&hosts), 7);
    hvd_hosts_fini(&hosts);
}

static void a_hostfile_has_comments_and_adds_up_repeated_hosts(void **state)
{
    struct hvd_hosts hosts = {0};

    (void)state;
    assert_int_equal(hvd_hosts_parse_file(hvd_strview_of(operator_file), &hosts, NULL), HVD_OK);
    assert_int_equal(hosts.n, 3);
    assert_string_equal(hosts.items[0].name, "digits-worker-0.digits");
    assert_int_equal(hosts.items[0].slots, 3);
    assert_string_equal(hosts.items[1].name, "10.0.0.7");
    assert_int_equal(hosts.items[1].slots, 1);
    assert_int_equal(hosts.items[2].slots, 1);
    hvd_hosts_fini(&hosts);
}

static void wrong_lists_are_refused_with_the_entry_named(void **state)
{
    static const char *const cases[][2] = {
        {"", "not a host name"},
        {"a:4,,b", "host entry \"\""},
        {"a:0", "host entry \"a:0\" (write HOST:SLOTS): \"0\" is not an integer from 1"},
        {"a:-1", "\"-1\""},
        {"a:x", "\"x\""},
        {"-oProxyCommand=x:1", "\"-oProxyCommand=x\" is not a host name"},
        {"a b:1", "\"a b\" is not a host name"},
        {"$(id):1", "not a host name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_err err = {0};

        assert_int_equal(hvd_hosts_parse_list(cases[i][0], &hosts, &err), HVD_ERR_INVALID);
        assert_int_equal(hosts.n, 0);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i][1]);
    }
}

static void wrong_hostfiles_are_refused_with_the_line_named(void **state)
{
    static const char *const cases[][2] = {
        {"# nothing\n\n", "names no host"},
        {"a\nb slots=0\n", "line 2: slots: \"0\""},
        {"a slots", "line 1: \"slots\" is not slots=N"},
        {"a\nb\n-c slots=1", "line 3: \"-c\" is not a host name"},
        {"a cores=3", "\"cores=3\" is not slots=N"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_err err = {0};

        assert_int_equal(hvd_hosts_parse_file(hvd_strview_of(cases[i][0]), &hosts, &err),
                         HVD_ERR_INVALID);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i][1]);
    }
}

static void more_processes_than_slots_are_refused_with_the_numbers(void **state)
{
    struct hvd_hosts hosts = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_hosts_parse_list("a:2,b:1", &hosts, NULL), HVD_OK);
    assert_int_equal(hvd_hosts_fit(&hosts, 4, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "-np 4 is more than the 3 slots of 2 hosts (a:2, b:1): lower -np "
                                 "or give the hosts more slots");
    hvd_hosts_fini(&hosts);
}

static void fitting_drops_the_hosts_that_are_not_needed(void **state)
{
    struct hvd_hosts hosts = {0};

    (void)state;
    assert_int_equal(hvd_hosts_parse_list("a:2,b:4,c:1", &hosts, NULL), HVD_OK);
    assert_int_equal(hvd_hosts_fit(&hosts, 3, NULL), HVD_OK);
    assert_int_equal(hosts.n, 2);
    assert_int_equal(hosts.items[1].slots, 1);
    assert_string_equal(hvd_hosts_of_rank(&hosts, 0), "a");
    assert_string_equal(hvd_hosts_of_rank(&hosts, 1), "a");
    assert_string_equal(hvd_hosts_of_rank(&hosts, 2), "b");
    assert_null(hvd_hosts_of_rank(&hosts, 3));
    assert_null(hvd_hosts_of_rank(&hosts, -1));
    hvd_hosts_fini(&hosts);
}

static void the_host_with_another_open_mpi_is_named(void **state)
{
    static const struct {
        int majors[4]; /* of a, b, c, d; 0 = not known */
        int here;
        const char *says; /* NULL: all is well */
    } cases[] = {
        {{4, 4, 4, 4}, 4, NULL},
        {{4, 0, 4, 4}, 4, NULL},
        {{4, 5, 4, 4}, 4, "b has Open MPI 5, but the others have Open MPI 4"},
        {{5, 5, 5, 5}, 4, "this host has Open MPI 4, but the others have Open MPI 5"},
        {{4, 5, 4, 3}, 4, "b has Open MPI 5, d has Open MPI 3, but the others have Open MPI 4"},
        {{5, 0, 0, 0}, 4, "a has Open MPI 5, but the others have Open MPI 4"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_err err = {0};

        assert_int_equal(hvd_hosts_parse_list("a,b,c,d", &hosts, NULL), HVD_OK);
        for (size_t k = 0; k < 4; k++)
            hosts.items[k].mpi_major = cases[i].majors[k];
        assert_int_equal(hvd_hosts_check_versions(&hosts, cases[i].here, &err),
                         cases[i].says ? HVD_ERR_MISMATCH : HVD_OK);
        if (cases[i].says && !strstr(err.msg, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].says);
        hvd_hosts_fini(&hosts);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_hosts list = {0};
        struct hvd_hosts file = {0};
        hvd_status_t st = hvd_hosts_parse_list("a,b,c,d,e,f,g,h,i:2", &list, NULL);

        if (st == HVD_OK)
            st = hvd_hosts_parse_file(hvd_strview_of(operator_file), &file, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_hosts_fini(&list);
        hvd_hosts_fini(&file);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_names_hosts_and_slots),
        cmocka_unit_test(a_hostfile_has_comments_and_adds_up_repeated_hosts),
        cmocka_unit_test(wrong_lists_are_refused_with_the_entry_named),
        cmocka_unit_test(wrong_hostfiles_are_refused_with_the_line_named),
        cmocka_unit_test(more_processes_than_slots_are_refused_with_the_numbers),
        cmocka_unit_test(fitting_drops_the_hosts_that_are_not_needed),
        cmocka_unit_test(the_host_with_another_open_mpi_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
