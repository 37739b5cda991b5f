#include "tests/unit/support.h"

#include <string.h>

#include "operator/app/options.h"

/* An environment of name, value pairs that ends with NULL. */
static const char *get(void *ctx, const char *name)
{
    const char *const *pairs = ctx;

    for (; pairs && *pairs; pairs += 2)
        if (strcmp(pairs[0], name) == 0)
            return pairs[1];
    return NULL;
}

static hvd_status_t parse(const char *const *pairs, const char *const *args,
                          struct hvd_options *out, struct hvd_err *err)
{
    const struct hvd_environment environment = {get, (void *)pairs};
    const char *argv[8] = {"horovod-operator"};
    int argc = 1;

    for (; args && *args; args++)
        argv[argc++] = *args;
    *err = (struct hvd_err){0};
    return hvd_options_parse(argc, argv, &environment, out, err);
}

static void the_defaults_need_nothing(void **state)
{
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(NULL, NULL, &o, &err), HVD_OK);
    assert_null(o.kubeconfig);
    assert_null(o.ns);
    assert_string_equal(o.listen.host, "");
    assert_int_equal(o.listen.port, 8080);
    assert_int_equal(o.log_level, HVD_LOG_INFO);
    assert_int_equal(o.gang, HVD_GANG_NONE);
    assert_false(o.wants_help);
}

static void flags_go_before_the_environment(void **state)
{
    const char *const pairs[] = {"HOROVOD_OPERATOR_NAMESPACE", "from-env",
                                 "HOROVOD_OPERATOR_LOG_LEVEL", "error", NULL};
    const char *const args[] = {
        "--namespace=from-flag", "--kubeconfig", "/k", "--listen", "[::1]:9000", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(pairs, args, &o, &err), HVD_OK);
    assert_string_equal(o.ns, "from-flag");
    assert_string_equal(o.kubeconfig, "/k");
    assert_string_equal(o.listen.host, "::1");
    assert_int_equal(o.listen.port, 9000);
    assert_int_equal(o.log_level, HVD_LOG_ERROR);
}

static void a_gang_scheduler_and_a_range_of_ports_are_chosen(void **state)
{
    const char *const pairs[] = {"HOROVOD_OPERATOR_GANG_SCHEDULER", "volcano",
                                 "HOROVOD_OPERATOR_GANG_SCHEDULER_NAME", "", NULL};
    const char *const args[] = {"--gang-scheduler=scheduler-plugins", "--gang-scheduler-name",
                                "my-scheduler", "--ssh-ports=31000-31009", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(pairs, NULL, &o, &err), HVD_OK);
    assert_int_equal(o.gang, HVD_GANG_VOLCANO);
    assert_null(o.gang_scheduler);
    assert_int_equal(o.launch_ports.first, HVD_PORTS_FIRST);
    assert_int_equal(o.launch_ports.last, HVD_PORTS_LAST);
    assert_int_equal(parse(pairs, args, &o, &err), HVD_OK);
    assert_int_equal(o.gang, HVD_GANG_PLUGINS);
    assert_string_equal(o.gang_scheduler, "my-scheduler");
    assert_int_equal(o.launch_ports.first, 31000);
    assert_int_equal(o.launch_ports.last, 31009);
}

static void an_empty_namespace_means_all(void **state)
{
    const char *const pairs[] = {"HOROVOD_OPERATOR_NAMESPACE", "", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(pairs, NULL, &o, &err), HVD_OK);
    assert_null(o.ns);
}

static void wrong_values_are_named_with_where_they_came_from(void **state)
{
    static const struct {
        const char *variable, *value;
        const char *arg, *next;
        const char *expected;
    } rows[] = {
        {.arg = "--nope", .expected = "unknown argument --nope"},
        {.arg = "--namespacex=a", .expected = "unknown argument --namespacex=a"},
        {.arg = "extra", .expected = "unknown argument extra"},
        {.arg = "--listen", .expected = "--listen needs a value"},
        {.arg = "--listen=8080", .expected = "--listen=8080 is not an address"},
        {.arg = "--listen=:65536", .expected = "--listen=:65536"},
        {.arg = "--listen=localhost:1", .expected = "--listen=localhost:1"},
        {.arg = "--listen=[1.2.3.4]:1", .expected = "--listen=[1.2.3.4]:1"},
        {.arg = "--listen=[]:1", .expected = "--listen=[]:1"},
        {.arg = "--listen=::1:80", .expected = "--listen=::1:80"},
        {.arg = "--log-level", .next = "loud", .expected = "debug, info, warn or error"},
        {.arg = "--namespace=-a", .expected = "--namespace=-a is not a namespace"},
        {.arg = "--namespace=A", .expected = "--namespace=A"},
        {.arg = "--kubeconfig=", .expected = "--kubeconfig is empty"},
        {.arg = "--gang-scheduler=kueue", .expected = "none, volcano or scheduler-plugins"},
        {.arg = "--gang-scheduler-name=a b", .expected = "not the name of a scheduler"},
        {.arg = "--gang-scheduler-name=-a", .expected = "not the name of a scheduler"},
        {.arg = "--ssh-ports=2000", .expected = "--ssh-ports=2000 is not a range of ports"},
        {.arg = "--ssh-ports=3000-2000", .expected = "give FIRST-LAST"},
        {.arg = "--ssh-ports=80-90", .expected = "from 1024 to 65535"},
        {.arg = "--ssh-ports=2000-2001-2002", .expected = "give FIRST-LAST"},
        {.variable = "HOROVOD_OPERATOR_LISTEN",
         .value = "x",
         .expected = "HOROVOD_OPERATOR_LISTEN=x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const pairs[] = {rows[i].variable, rows[i].value, NULL};
        const char *const args[] = {rows[i].arg, rows[i].next, NULL};
        struct hvd_options o = {.log_level = HVD_LOG_ERROR};
        struct hvd_err err;

        assert_int_equal(parse(pairs, args, &o, &err), HVD_ERR_INVALID);
        if (!strstr(err.msg, rows[i].expected))
            fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.msg, rows[i].expected);
        assert_int_equal(o.log_level, HVD_LOG_ERROR);
    }
}

static void help_lists_every_flag_and_its_variable(void **state)
{
    struct hvd_buf text;

    (void)state;
    hvd_buf_init(&text, 16 * 1024);
    assert_int_equal(hvd_options_help(&text), HVD_OK);
    assert_non_null(strstr(text.data, "--kubeconfig FILE"));
    assert_non_null(strstr(text.data, "HOROVOD_OPERATOR_LISTEN"));
    assert_non_null(strstr(text.data, "--version"));
    hvd_buf_fini(&text);
}

static void a_probe_is_asked_for_by_a_flag_alone(void **state)
{
    static const char *const pairs[] = {"HOROVOD_OPERATOR_PROBE", "http://a/readyz", NULL};
    const char *const none[] = {NULL}, *const args[] = {"--probe", "http://b/readyz", NULL};
    const char *const empty[] = {"--probe=", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(pairs, none, &o, &err), HVD_OK);
    assert_null(o.probe);
    assert_int_equal(parse(pairs, args, &o, &err), HVD_OK);
    assert_string_equal(o.probe, "http://b/readyz");
    assert_int_equal(parse(NULL, empty, &o, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "--probe is empty"));
}

static void help_and_version_are_recognised(void **state)
{
    const char *const args[] = {"--version", "-h", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(NULL, args, &o, &err), HVD_OK);
    assert_true(o.wants_version);
    assert_true(o.wants_help);
}

static void election_and_certificate_are_options_too(void **state)
{
    const char *const pairs[] = {"HOROVOD_OPERATOR_LEADER_ELECT",
                                 "true",
                                 "HOROVOD_OPERATOR_LEASE_NAMESPACE",
                                 "ns",
                                 "HOROVOD_OPERATOR_TLS_CERT_FILE",
                                 "/c",
                                 NULL};
    const char *const args[] = {"--lease-duration=30", "--lease-name", "l", "--tls-key-file=/k",
                                NULL};
    const char *const off[] = {"--leader-elect=false", "--tls-cert-file=", NULL};
    const char *const alone[] = {"--leader-elect", "--log-level", "warn", NULL};
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    assert_int_equal(parse(NULL, NULL, &o, &err), HVD_OK);
    assert_false(o.is_elected);
    assert_string_equal(o.lease_name, "horovod-operator");
    assert_int_equal(o.lease_duration_ms, 15000);
    assert_int_equal(parse(pairs, args, &o, &err), HVD_OK);
    assert_true(o.is_elected);
    assert_string_equal(o.lease_ns, "ns");
    assert_string_equal(o.lease_name, "l");
    assert_int_equal(o.lease_duration_ms, 30000);
    assert_string_equal(o.tls_cert, "/c");
    assert_string_equal(o.tls_key, "/k");
    assert_int_equal(parse(pairs, off, &o, &err), HVD_OK);
    assert_false(o.is_elected);
    assert_null(o.tls_cert);
    assert_int_equal(parse(NULL, alone, &o, &err), HVD_OK);
    assert_true(o.is_elected);
    assert_int_equal(o.log_level, HVD_LOG_WARN);
}

static void wrong_values_of_the_election_are_named(void **state)
{
    static const char *const cases[][2] = {
        {"--leader-elect=yes", "--leader-elect=yes is neither true nor false"},
        {"--lease-duration=2", "from 3 to 600"},
        {"--lease-duration=soon", "--lease-duration=soon"},
        {"--lease-name=A", "--lease-name=A is not a name"},
        {"--lease-namespace=a.b", "--lease-namespace=a.b is not a namespace"},
        {"--tls-cert-file=/c", "--tls-cert-file and --tls-key-file go together"},
    };
    struct hvd_options o;
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = {cases[i][0], NULL};
        assert_int_equal(parse(NULL, args, &o, &err), HVD_ERR_INVALID);
        assert_non_null(strstr(err.msg, cases[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_need_nothing),
        cmocka_unit_test(flags_go_before_the_environment),
        cmocka_unit_test(a_gang_scheduler_and_a_range_of_ports_are_chosen),
        cmocka_unit_test(an_empty_namespace_means_all),
        cmocka_unit_test(wrong_values_are_named_with_where_they_came_from),
        cmocka_unit_test(help_lists_every_flag_and_its_variable),
        cmocka_unit_test(a_probe_is_asked_for_by_a_flag_alone),
        cmocka_unit_test(help_and_version_are_recognised),
        cmocka_unit_test(election_and_certificate_are_options_too),
        cmocka_unit_test(wrong_values_of_the_election_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
