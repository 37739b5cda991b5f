#include "tests/unit/support.h"

#include "operator/kube/url.h"

static void paths_follow_the_group_of_the_kind(void **state)
{
    static const struct {
        struct hvd_url_path path;
        const char *expected;
    } rows[] = {
        {{.kind = HVD_KIND_POD}, "/api/v1/pods"},
        {{.kind = HVD_KIND_POD, .ns = "a"}, "/api/v1/namespaces/a/pods"},
        {{.kind = HVD_KIND_STATEFULSET, .ns = "a", .name = "b"},
         "/apis/apps/v1/namespaces/a/statefulsets/b"},
        {{.kind = HVD_KIND_HOROVODJOB, .ns = "a", .name = "b", .subresource = "status"},
         "/apis/horovod.io/v1beta1/namespaces/a/horovodjobs/b/status"},
        {{.kind = HVD_KIND_JOB, .ns = "a b", .name = "../x?y#z/%"},
         "/apis/batch/v1/namespaces/a%20b/jobs/..%2Fx%3Fy%23z%2F%25"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_buf out;

        hvd_buf_init(&out, 512);
        assert_int_equal(hvd_url_put_path(&out, &rows[i].path), HVD_OK);
        assert_string_equal(out.data, rows[i].expected);
        hvd_buf_fini(&out);
    }
}

static void queries_are_joined_and_escaped(void **state)
{
    struct hvd_buf out;
    bool first = true;

    (void)state;
    hvd_buf_init(&out, 512);
    assert_int_equal(hvd_url_put_query(&out, &first, "absent", NULL), HVD_OK);
    assert_int_equal(hvd_url_put_query(&out, &first, "empty", ""), HVD_OK);
    assert_null(out.data);
    assert_int_equal(hvd_url_put_query(&out, &first, "labelSelector", "a/b=c d,\xc3\xa4"), HVD_OK);
    assert_int_equal(hvd_url_put_query(&out, &first, "limit", "5"), HVD_OK);
    assert_string_equal(out.data, "?labelSelector=a%2Fb%3Dc%20d%2C%C3%A4&limit=5");
    hvd_buf_fini(&out);
}

static void a_url_past_the_maximum_is_refused(void **state)
{
    const struct hvd_url_path path = {.kind = HVD_KIND_POD, .ns = "a", .name = "b"};

    (void)state;
    for (size_t max = 0; max < 27; max++) {
        struct hvd_buf out;

        hvd_buf_init(&out, max);
        assert_int_equal(hvd_url_put_path(&out, &path), HVD_ERR_TOO_LARGE);
        hvd_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_follow_the_group_of_the_kind),
        cmocka_unit_test(queries_are_joined_and_escaped),
        cmocka_unit_test(a_url_past_the_maximum_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
