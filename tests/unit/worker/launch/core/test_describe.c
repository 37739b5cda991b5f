#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/launch/core/describe.h"

static void an_exception_is_named_where_it_is_known_to_have_ended_the_rank(void **state)
{
    static const struct {
        struct hvd_report report;
        const char *line;
    } cases[] = {
        {{.exit_code = 1, .has_raised = true, .words = HVD_WORDS_STDERR, .line = "KeyError: 'x'"},
         "rank 3 on host h raised KeyError: 'x'"},
        {{.exit_code = 1, .words = HVD_WORDS_STDERR, .line = "KeyError: 'x'"},
         "rank 3 on host h exited with code 1: KeyError: 'x'"},
        {{.exit_code = 2, .has_raised = true, .words = HVD_WORDS_STDERR, .line = "KeyError: 'x'"},
         "rank 3 on host h exited with code 2: KeyError: 'x'"},
        {{.exit_code = 1, .has_raised = true, .words = HVD_WORDS_STDOUT, .line = "done"},
         "rank 3 on host h exited with code 1, last output: done"},
        {{.exit_code = 1, .has_raised = true, .words = HVD_WORDS_STDERR},
         "rank 3 on host h exited with code 1"},
        {{.signal = 2, .has_raised = true, .words = HVD_WORDS_STDERR, .line = "KeyError: 'x'"},
         "rank 3 on host h was killed by signal 2 (Interrupt), last output: KeyError: 'x'"},
        {{.exit_code = 1,
          .has_raised = true,
          .was_stopped = true,
          .words = HVD_WORDS_STDERR,
          .line = "KeyError: 'x'"},
         "rank 3 on host h failed: KeyError: 'x'"},
    };
    const struct hvd_hosts none = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report report = cases[i].report;
        char line[HVD_REPORT_MAX];

        report.rank = 3;
        report.limit_bytes = INT64_MAX;
        (void)snprintf(report.host, sizeof(report.host), "h");
        hvd_describe_report(&report, &none, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
    }
}

static void a_host_has_one_name_in_a_line(void **state)
{
    static const char lost[] = "Rank 2 on host vm is lost: it waits for rank 0 on host vm.";
    static const struct {
        const char *hosts;
        struct hvd_report report;
        const char *line;
    } cases[] = {
        {"localhost:3", /* without -H */
         {.kind = HVD_REPORT_ABORTED, .rank = 0},
         "rank 0 on host vm aborted the job: "
         "Rank 2 on host vm is lost: it waits for rank 0 on host vm."},
        {"alias:3",
         {.kind = HVD_REPORT_ABORTED, .rank = 0},
         "rank 0 on host vm aborted the job: "
         "Rank 2 on host vm is lost: it waits for rank 0 on host vm."},
        {"vm.domain:3",
         {.kind = HVD_REPORT_ABORTED, .rank = 0, .host = "vm"},
         "rank 0 on host vm.domain aborted the job: "
         "Rank 2 on host vm.domain is lost: it waits for rank 0 on host vm.domain."},
        {"localhost,vm:2",
         {.kind = HVD_REPORT_LOST_RANK, .rank = 2, .host = "vm"},
         "rank 2 on host vm is lost: "
         "Rank 2 on host vm is lost: it waits for rank 0 on host vm."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report report = cases[i].report;
        struct hvd_hosts hosts = {0};
        char line[HVD_REPORT_MAX];

        assert_int_equal(hvd_hosts_parse_list(cases[i].hosts, &hosts, NULL), HVD_OK);
        (void)snprintf(report.line, sizeof(report.line), "%s", lost);
        hvd_describe_report(&report, &hosts, line, sizeof(line));
        assert_string_equal(line, cases[i].line);
        hvd_describe_report(&report, &hosts, line, 40); /* and no more than there is room for */
        assert_int_equal(strlen(line), 39);
        hvd_hosts_fini(&hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exception_is_named_where_it_is_known_to_have_ended_the_rank),
        cmocka_unit_test(a_host_has_one_name_in_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
