#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "operator/kube/config.h"

#define HEAD                                                                                       \
    "apiVersion: v1\nkind: Config\ncurrent-context: main\n"                                        \
    "contexts:\n- name: other\n  context: {cluster: none}\n"                                       \
    "- name: main\n  context: {cluster: c, user: u, namespace: team}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/\n"
#define USER "users:\n- name: u\n  user:\n"

static hvd_status_t parse(const char *text, struct hvd_kube_config *out, struct hvd_err *err)
{
    return hvd_kubeconfig_parse(hvd_strview_of(text), "/etc/k", "file", out, err);
}

static void the_current_context_is_read(void **state)
{
    struct hvd_kube_config c = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(parse(HEAD CLUSTER "    certificate-authority-data: Zm9v\n"
                                        "    tls-server-name: kubernetes\n"
                                        "    proxy-url: http://proxy:3128\n" USER
                                        "    client-certificate-data: Zm9v\n"
                                        "    client-key-data: YmFy\n",
                           &c, &err),
                     HVD_OK);
    assert_string_equal(c.server, "https://10.0.0.1:6443");
    assert_string_equal(c.ca_data, "foo");
    assert_string_equal(c.tls_server_name, "kubernetes");
    assert_string_equal(c.proxy_url, "http://proxy:3128");
    assert_string_equal(c.cert_data, "foo");
    assert_string_equal(c.key_data, "bar");
    assert_string_equal(c.ns, "team");
    assert_false(c.is_insecure);
    assert_null(c.token);
    hvd_kube_config_fini(&c);
}

static void files_are_relative_to_the_document(void **state)
{
    struct hvd_kube_config c = {0};

    (void)state;
    assert_int_equal(parse(HEAD CLUSTER "    certificate-authority: ca.crt\n" USER
                                        "    client-certificate: /abs/cert\n"
                                        "    client-key: key\n    tokenFile: t/token\n",
                           &c, NULL),
                     HVD_OK);
    assert_string_equal(c.ca_file, "/etc/k/ca.crt");
    assert_string_equal(c.cert_file, "/abs/cert");
    assert_string_equal(c.key_file, "/etc/k/key");
    assert_string_equal(c.token_file, "/etc/k/t/token");
    hvd_kube_config_fini(&c);
}

static void json_and_flow_style_are_read_too(void **state)
{
    struct hvd_kube_config c = {0};

    (void)state;
    assert_int_equal(
        parse("{\"current-context\":\"m\",\"contexts\":[{\"name\":\"m\",\"context\":{\"cluster\":"
              "\"c\",\"user\":\"u\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":"
              "\"http://h:1\",\"insecure-skip-tls-verify\":true}}],\"users\":[{\"name\":\"u\","
              "\"user\":{\"token\":\"secret\"}}]}",
              &c, NULL),
        HVD_OK);
    assert_true(c.is_insecure);
    assert_string_equal(c.token, "secret");
    hvd_kube_config_fini(&c);
}

#define RISKY(server, more, user)                                                                  \
    "{current-context: m, contexts: [{name: m, context: {cluster: c, user: u}}],"                  \
    " clusters: [{name: c, cluster: {server: \"" server "\"" more "}}],"                           \
    " users: [{name: u, user: {" user "}}]}"

static void what_a_configuration_risks_is_named(void **state)
{
    static const struct {
        const char *text;
        const char *expected; /* a part of the only warning; NULL: none */
    } rows[] = {
        {RISKY("https://h", "", "token: t"), NULL},
        {RISKY("https://h", ", insecure-skip-tls-verify: false", "token: t"), NULL},
        {RISKY("https://h", ", insecure-skip-tls-verify: true", "token: t"), "is not verified"},
        {RISKY("https://h", ", insecure-skip-tls-verify: true", ""), "is not verified"},
        {RISKY("http://h", "", ""), NULL},
        {RISKY("http://h", "", "token: t"), "unencrypted"},
        {RISKY("http://h", ", insecure-skip-tls-verify: true", "tokenFile: f"), "unencrypted"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_kube_risk risks[HVD_KUBE_MAX_RISKS] = {0};
        struct hvd_kube_config c = {0};
        size_t n;

        assert_int_equal(parse(rows[i].text, &c, NULL), HVD_OK);
        assert_string_equal(c.cluster, "c");
        n = hvd_kube_config_risks(&c, risks);
        assert_int_equal(n, rows[i].expected ? 1 : 0);
        if (n && rows[i].expected) {
            assert_non_null(strstr(risks[0].what, rows[i].expected));
            assert_true(*risks[0].remedy);
        }
        hvd_kube_config_fini(&c);
    }
}

static void an_authority_that_is_not_asked_is_refused(void **state)
{
    static const char *const authorities[] = {
        RISKY("https://h", ", insecure-skip-tls-verify: true, certificate-authority: f", ""),
        RISKY("https://h",
              ", insecure-skip-tls-verify: true, certificate-authority-data: YQ==", ""),
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_kube_config c = {0};
        struct hvd_err err = {0};

        assert_int_equal(parse(authorities[i], &c, &err), HVD_ERR_INVALID);
        assert_non_null(strstr(err.msg, "cluster \"c\": certificate-authority and "
                                        "insecure-skip-tls-verify contradict each other"));
        assert_null(c.server);
    }
}

static void wrong_documents_are_refused_by_name(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {HEAD CLUSTER USER "    token: \"a\\0b\"\n", "line 16: a text holds the character NUL"},
        {HEAD CLUSTER USER "    {\"tok\\0en\": a}\n", "a text holds the character NUL"},
        {"", "the file is empty"},
        {"a: [", "line 2"},
        {"- just\n- a list\n", "current-context is not set"},
        {"current-context: x\n", "no entry \"x\" in contexts"},
        {"current-context: x\ncontexts: [{name: x}]\n", "contexts entry \"x\" has no context"},
        {"current-context: x\ncontexts: [{name: x, context: {user: u}}]\n", "names no cluster"},
        {HEAD, "no entry \"c\" in clusters"},
        {HEAD CLUSTER, "no entry \"u\" in users"},
        {HEAD "clusters: [{name: c, cluster: {server: 'ftp://x'}}]\n", "not \"ftp://x\""},
        {HEAD "clusters: [{name: c, cluster: {}}]\n", "server must be"},
        {HEAD CLUSTER "    certificate-authority-data: '%%%'\n", "certificate-authority-data"},
        {HEAD CLUSTER USER "    exec: {command: aws}\n", "uses exec, which is not supported"},
        {HEAD CLUSTER USER "    auth-provider: {name: gcp}\n", "uses auth-provider"},
        {HEAD CLUSTER USER "    username: bob\n", "uses username"},
        {HEAD CLUSTER USER "    client-key-data: YmFy\n", "go together"},
        {HEAD CLUSTER USER "    client-certificate: x\n", "go together"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_kube_config c = {0};
        struct hvd_err err = {0};

        assert_int_equal(parse(rows[i].text, &c, &err), HVD_ERR_INVALID);
        if (!strstr(err.msg, rows[i].expected))
            fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.msg, rows[i].expected);
        assert_null(c.server);
    }
}

static void every_failed_allocation_of_ours_is_reported(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_kube_config c = {0};
        hvd_status_t st = parse(HEAD CLUSTER "    certificate-authority-data: Zm9v\n" USER
                                             "    token: secret\n    tokenFile: t\n",
                                &c, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_kube_config_fini(&c);
    });
}

static void sources_are_tried_in_order_and_named(void **state)
{
    struct hvd_kube_config c = {0};
    struct hvd_err err = {0};
    const struct hvd_kube_config_sources nothing = {.service_account = "/nonexistent"};
    const struct hvd_kube_config_sources several = {.env_kubeconfig = "/a:/b"};
    const struct hvd_kube_config_sources absent = {.path = "/nonexistent/config"};
    const struct hvd_kube_config_sources pod = {
        .service_host = "10.0.0.1", .service_port = "443", .service_account = "/nonexistent"};

    (void)state;
    assert_int_equal(hvd_kube_config_load(&nothing, &c, &err), HVD_ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "--kubeconfig"));
    hvd_err_clear(&err);
    assert_int_equal(hvd_kube_config_load(&several, &c, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "more than one file"));
    hvd_err_clear(&err);
    assert_int_equal(hvd_kube_config_load(&absent, &c, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "/nonexistent/config: No such file"));
    hvd_err_clear(&err);
    assert_int_equal(hvd_kube_config_load(&pod, &c, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "/nonexistent/token"));
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_pod_uses_its_service_account(void **state)
{
    char dir[] = "/tmp/hvd-sa-XXXXXX";
    struct hvd_kube_config c = {0};
    struct hvd_kube_config_sources sources = {.service_host = "fd00::1", .service_port = "443"};
    char command[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    sources.service_account = dir;
    put_file(dir, "token", "t\n");
    put_file(dir, "ca.crt", "pem");
    put_file(dir, "namespace", "horovod\n");
    assert_int_equal(hvd_kube_config_load(&sources, &c, NULL), HVD_OK);
    assert_string_equal(c.server, "https://[fd00::1]:443");
    assert_string_equal(c.ns, "horovod");
    assert_non_null(strstr(c.token_file, "/token"));
    assert_non_null(strstr(c.ca_file, "/ca.crt"));
    assert_null(c.token);
    hvd_kube_config_fini(&c);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_current_context_is_read),
        cmocka_unit_test(files_are_relative_to_the_document),
        cmocka_unit_test(json_and_flow_style_are_read_too),
        cmocka_unit_test(what_a_configuration_risks_is_named),
        cmocka_unit_test(an_authority_that_is_not_asked_is_refused),
        cmocka_unit_test(wrong_documents_are_refused_by_name),
        cmocka_unit_test(every_failed_allocation_of_ours_is_reported),
        cmocka_unit_test(sources_are_tried_in_order_and_named),
        cmocka_unit_test(a_pod_uses_its_service_account),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
