#include "tests/unit/support.h"

#include <string.h>

#include "operator/app/fence.h"
#include "tests/unit/operator/kube/fake_api.h"

#define D 15000

static int64_t now_ms;

static int64_t read_clock(void)
{
    return now_ms;
}

static void on_done(void *ctx, const struct hvd_kube_response *response)
{
    (void)response;
    ++*(int *)ctx;
}

/* A lease that is held since time 0. */
static void lead(struct hvd_lease *lease)
{
    const struct hvd_lease_record record = {.version = "1", .holder = "a", .duration_ms = D};

    hvd_lease_init(lease, "a", D);
    hvd_lease_observe_absent(lease, NULL, 0);
    assert_int_equal(hvd_lease_step(lease, 0), HVD_LEASE_CREATE);
    hvd_lease_answered(lease, HVD_OK, &record, 0, 0);
    assert_true(lease->is_leader);
}

static hvd_status_t send(struct hvd_fence *fence, hvd_verb_t verb, const char *query,
                         int64_t timeout_ms, struct hvd_err *err)
{
    static int n_done;
    const struct hvd_kube_request request = {
        .verb = verb,
        .path = {.kind = HVD_KIND_SERVICE, .ns = "n", .name = "p"},
        .query = query,
        .timeout_ms = timeout_ms,
        .on_done = on_done,
        .ctx = &n_done,
    };

    return fence->api.send(fence->api.self, &request, NULL, err);
}

static void a_write_carries_the_time_by_which_it_has_to_end(void **state)
{
    struct hvd_lease lease;
    struct hvd_fence fence;
    struct fake_api fake;

    (void)state;
    lead(&lease);
    fake_api_init(&fake);
    hvd_fence_init(&fence, &fake.api, &lease, read_clock);
    now_ms = 4000;
    assert_int_equal(send(&fence, HVD_VERB_PATCH, "?a=b", 0, NULL), HVD_OK);
    assert_string_equal(fake_api_last(&fake)->query, "?a=b&timeout=9000ms");
    assert_int_equal(fake_api_last(&fake)->request.timeout_ms, 9000);
    assert_int_equal(send(&fence, HVD_VERB_DELETE, NULL, 0, NULL), HVD_OK);
    assert_string_equal(fake_api_last(&fake)->query, "?timeout=9000ms");
    assert_int_equal(send(&fence, HVD_VERB_CREATE, NULL, 500, NULL), HVD_OK);
    assert_int_equal(fake_api_last(&fake)->request.timeout_ms, 500);
}

static void a_write_that_may_not_start_is_refused_and_reads_pass(void **state)
{
    struct hvd_err err = {0};
    struct hvd_lease lease;
    struct hvd_fence fence;
    struct fake_api fake;

    (void)state;
    lead(&lease);
    fake_api_init(&fake);
    hvd_fence_init(&fence, &fake.api, &lease, read_clock);
    now_ms = D * 2 / 3;
    for (int verb = 0; verb < HVD_VERB_COUNT; verb++) {
        bool is_read = verb == HVD_VERB_GET || verb == HVD_VERB_LIST || verb == HVD_VERB_WATCH;
        size_t before = fake.n_calls;
        assert_int_equal(send(&fence, (hvd_verb_t)verb, NULL, 0, &err),
                         is_read ? HVD_OK : HVD_ERR_STATE);
        assert_int_equal(fake.n_calls - before, is_read ? 1 : 0);
    }
    assert_string_equal(err.msg, "this operator does not lead");
    assert_null(strstr(fake_api_last(&fake)->query, "timeout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_carries_the_time_by_which_it_has_to_end),
        cmocka_unit_test(a_write_that_may_not_start_is_refused_and_reads_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
