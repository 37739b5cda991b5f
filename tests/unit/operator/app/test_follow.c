#include "tests/unit/support.h"

#include <string.h>

#include "operator/app/follow.h"
#include "tests/unit/operator/kube/fake_api.h"

static void ignore(void *ctx, enum hvd_kind kind)
{
    (void)ctx;
    (void)kind;
}

static void ignore_end(void *ctx, enum hvd_kind kind, const char *version)
{
    (void)ctx;
    (void)kind;
    (void)version;
}

static void ignore_object(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    (void)ctx;
    (void)kind;
    (void)object;
}

static void start(struct hvd_follow *follow, struct fake_api *fake, enum hvd_kind gang)
{
    const struct hvd_follow_options options = {
        .api = &fake->api,
        .gang_kind = gang,
        .seed = 1,
        .handler = {NULL, ignore, ignore_object, ignore_object, ignore_end, ignore},
    };

    fake_api_init(fake);
    assert_int_equal(hvd_follow_init(follow, &options, NULL), HVD_OK);
    (void)hvd_follow_step(follow, 1000);
}

static void answer_lists(struct fake_api *fake, long gang_code)
{
    for (size_t i = 0; i < fake->n_calls; i++) {
        struct hvd_kube_call *call = &fake->calls[i];
        bool is_gang = call->request.path.kind > HVD_KIND_POD;
        if (!call->is_open || call->request.verb != HVD_VERB_LIST)
            continue;
        if (is_gang && gang_code != 200)
            fake_api_answer(call, gang_code, "{}");
        else
            fake_api_answer(call, 200, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}");
    }
}

static void children_are_followed_by_label_and_secrets_without_contents(void **state)
{
    struct hvd_follow follow;
    struct fake_api fake;

    (void)state;
    start(&follow, &fake, HVD_N_KINDS);
    assert_int_equal(fake.n_calls, 7);
    for (size_t i = 0; i < fake.n_calls; i++) {
        const struct hvd_kube_call *call = &fake.calls[i];
        bool is_job = call->request.path.kind == HVD_KIND_HOROVODJOB;
        assert_true(is_job == !strstr(call->query, "labelSelector="));
        if (call->request.path.kind == HVD_KIND_SECRET)
            assert_non_null(strstr(call->request.accept, "PartialObjectMetadataList"));
    }
    assert_false(hvd_follow_is_synced(&follow));
    answer_lists(&fake, 200);
    assert_true(hvd_follow_is_synced(&follow));
    assert_int_equal(hvd_follow_count_synced(&follow), 7);
    hvd_follow_fini(&follow);
}

/* Of a quiet kind the version that was seen last may be lower than the one the server is back at.
 */
static void one_watch_notices_for_all_that_the_server_went_back(void **state)
{
    struct hvd_follow follow;
    struct fake_api fake;
    size_t n_lists = 0;
    struct hvd_kube_call *broken;

    (void)state;
    start(&follow, &fake, HVD_N_KINDS);
    for (size_t i = 0; i < 7; i++)
        fake_api_answer(&fake.calls[i], 200,
                        "{\"metadata\":{\"resourceVersion\":\"50\"},\"items\":[]}");
    (void)hvd_follow_step(&follow, 1001);
    assert_int_equal(fake.n_calls, 14);
    broken = fake_api_last(&fake);
    assert_int_equal(broken->request.verb, HVD_VERB_WATCH);
    fake_api_break(broken, HVD_ERR_UNAVAILABLE);
    (void)hvd_follow_step(&follow, 1002);
    (void)hvd_follow_step(&follow, 2000);
    assert_string_equal(fake_api_last(&fake)->query, "?limit=1");
    fake_api_answer(fake_api_last(&fake), 200,
                    "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":[]}");
    (void)hvd_follow_step(&follow, 2001);
    for (size_t i = 0; i < fake.n_calls; i++)
        n_lists += fake.calls[i].is_open && fake.calls[i].request.verb == HVD_VERB_LIST;
    assert_int_equal(n_lists, 7);
    assert_int_equal(fake_api_open(&fake), 7);
    (void)hvd_follow_step(&follow, 2002);
    assert_int_equal(fake_api_open(&fake), 7);
    hvd_follow_fini(&follow);
}

static void a_gang_that_the_server_lacks_holds_up_nothing(void **state)
{
    struct hvd_follow follow;
    struct fake_api fake;
    struct hvd_buf why;

    (void)state;
    start(&follow, &fake, HVD_KIND_VOLCANO_PODGROUP);
    answer_lists(&fake, 404);
    (void)hvd_follow_step(&follow, 1001);
    hvd_buf_init(&why, 1024);
    assert_true(hvd_follow_is_synced(&follow));
    assert_true(hvd_follow_is_missing(&follow, HVD_KIND_VOLCANO_PODGROUP));
    assert_false(hvd_follow_is_missing(&follow, HVD_N_KINDS));
    assert_true(hvd_follow_explain_all(&follow, 1001, &why));
    hvd_buf_fini(&why);
    hvd_follow_fini(&follow);
}

static void a_gang_that_is_refused_is_waited_for(void **state)
{
    struct hvd_follow follow;
    struct fake_api fake;
    struct hvd_buf why;

    (void)state;
    start(&follow, &fake, HVD_KIND_VOLCANO_PODGROUP);
    answer_lists(&fake, 403);
    (void)hvd_follow_step(&follow, 1001);
    hvd_buf_init(&why, 1024);
    assert_false(hvd_follow_is_synced(&follow));
    assert_false(hvd_follow_explain_all(&follow, 1001, &why));
    assert_non_null(strstr(why.data, "watch of podgroups: not listed yet: "));
    hvd_buf_fini(&why);
    hvd_follow_fini(&follow);
}

static void a_watch_that_is_down_is_named_after_ten_seconds(void **state)
{
    struct hvd_watch_health health = {.is_synced = true, .changed_ms = 1000, .problem = ""};
    struct hvd_buf why;

    (void)state;
    hvd_buf_init(&why, 1024);
    assert_true(hvd_follow_explain(HVD_KIND_POD, &health, 11000, &why));
    assert_false(hvd_follow_explain(HVD_KIND_POD, &health, 13000, &why));
    health.problem = "connection refused";
    assert_false(hvd_follow_explain(HVD_KIND_JOB, &health, 13000, &why));
    assert_string_equal(why.data, "watch of pods: down for 12 s\n"
                                  "watch of jobs: down for 12 s: connection refused\n");
    health.is_open = true;
    assert_true(hvd_follow_explain(HVD_KIND_POD, &health, 99000, &why));
    hvd_buf_fini(&why);
}

static void no_memory_leaves_nothing_behind(void **state)
{
    struct fake_api fake;
    const struct hvd_follow_options options = {.api = &fake.api, .gang_kind = HVD_N_KINDS};

    (void)state;
    fake_api_init(&fake);
    HVD_MEM_TORTURE({
        struct hvd_follow follow;
        struct hvd_err err = {0};
        hvd_status_t st = hvd_follow_init(&follow, &options, &err);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_follow_fini(&follow);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_followed_by_label_and_secrets_without_contents),
        cmocka_unit_test(one_watch_notices_for_all_that_the_server_went_back),
        cmocka_unit_test(a_gang_that_the_server_lacks_holds_up_nothing),
        cmocka_unit_test(a_gang_that_is_refused_is_waited_for),
        cmocka_unit_test(a_watch_that_is_down_is_named_after_ten_seconds),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
