#include "tests/unit/support.h"

#include <stdio.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exception_is_named_where_it_is_known_to_have_ended_the_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
