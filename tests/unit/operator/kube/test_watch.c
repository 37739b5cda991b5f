#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/object.h"
#include "operator/kube/watch.h"
#include "tests/unit/operator/kube/fake_api.h"

#define ITEM(name, version)                                                                        \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" ITEM(name, version) "}\n"
#define PAGE(version, token, items)                                                                \
    "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" token                     \
    "\"},\"items\":[" items "]}"

/* What the handler heard, as text: "( +a +b ) -a", and "<" when the server went back. */
struct bench {
    struct fake_api fake;
    struct hvd_watch *watch;
    char heard[512];
};

static void hear(struct bench *bench, const char *what, const cJSON *object)
{
    size_t len = strlen(bench->heard);
    const char *name =
        hvd_kube_api_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "name");

    (void)snprintf(bench->heard + len, sizeof(bench->heard) - len, "%s%s%s", what, name,
                   hvd_object_trouble(object) ? "!" : "");
}

static void on_begin(void *ctx, enum hvd_kind kind)
{
    assert_int_equal(kind, HVD_KIND_POD);
    hear(ctx, "(", NULL);
}

static void on_put(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    assert_int_equal(kind, HVD_KIND_POD);
    hear(ctx, "+", object);
}

static void on_remove(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    assert_int_equal(kind, HVD_KIND_POD);
    hear(ctx, "-", object);
}

static void on_end(void *ctx, enum hvd_kind kind, const char *version)
{
    assert_int_equal(kind, HVD_KIND_POD);
    assert_true(*version);
    hear(ctx, ")", NULL);
}

static void on_rewind(void *ctx, enum hvd_kind kind)
{
    assert_int_equal(kind, HVD_KIND_POD);
    hear(ctx, "<", NULL);
}

/* It has sent something and waits for the server: as long as a stream may be silent, at most. */
static void assert_waits(struct bench *bench, int64_t now_ms)
{
    size_t n_open;
    int64_t due_ms = hvd_watch_step(bench->watch, now_ms);

    n_open = fake_api_open(&bench->fake);
    assert_int_equal(n_open, 1);
    if (fake_api_last(&bench->fake)->request.verb == HVD_VERB_LIST)
        assert_int_equal(due_ms, INT64_MAX);
    else
        assert_int_equal(due_ms, now_ms + 90000);
}

static void start(struct bench *bench)
{
    struct hvd_watch_options options = {
        .kind = HVD_KIND_POD,
        .ns = "ns",
        .label_selector = "a=b",
        .page_limit = 2,
        .seed = 7,
        .handler = {bench, on_begin, on_put, on_remove, on_end, on_rewind},
    };

    memset(bench, 0, sizeof(*bench));
    fake_api_init(&bench->fake);
    options.api = &bench->fake.api;
    assert_int_equal(hvd_watch_create(&options, &bench->watch, NULL), HVD_OK);
}

/* Lists nothing and leaves the watch stream open. */
static void start_watching(struct bench *bench)
{
    start(bench);
    assert_waits(bench, 0);
    fake_api_answer(fake_api_last(&bench->fake), 200, PAGE("5", "", ""));
    assert_waits(bench, 1);
    assert_int_equal(bench->fake.n_calls, 2);
    bench->heard[0] = '\0';
}

/* A question for the server's version is under way. */
static struct hvd_kube_call *assert_probes(struct bench *bench, int64_t now_ms)
{
    struct hvd_kube_call *call;

    assert_int_equal(hvd_watch_step(bench->watch, now_ms), INT64_MAX);
    call = fake_api_last(&bench->fake);
    assert_true(call->is_open);
    assert_int_equal(call->request.verb, HVD_VERB_LIST);
    assert_string_equal(call->query, "?limit=1");
    return call;
}

static void pages_are_listed_then_watched_from_their_version(void **state)
{
    struct bench b;

    (void)state;
    start(&b);
    assert_int_equal(b.fake.n_calls, 0);
    assert_waits(&b, 0);
    assert_string_equal(fake_api_last(&b.fake)->query, "?limit=2&labelSelector=a%3Db");
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "t/1", ITEM("a", "1")));
    assert_false(hvd_watch_is_synced(b.watch));
    assert_string_equal(fake_api_last(&b.fake)->query,
                        "?limit=2&labelSelector=a%3Db&continue=t%2F1");
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ITEM("b", "2")));
    assert_true(hvd_watch_is_synced(b.watch));
    assert_string_equal(b.heard, "(+a+b)");
    assert_waits(&b, 1);
    assert_int_equal(fake_api_last(&b.fake)->request.verb, HVD_VERB_WATCH);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=5&timeoutSeconds="));
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "allowWatchBookmarks=true"));
    assert_true(fake_api_last(&b.fake)->request.timeout_ms >= 255000);
    assert_true(fake_api_last(&b.fake)->request.timeout_ms <= 315000);
    hvd_watch_destroy(b.watch);
    assert_int_equal(fake_api_open(&b.fake), 0);
}

static void objects_are_taken_in_while_their_page_comes(void **state)
{
    static const char text[] = "{\"items\":[" ITEM("a", "1") "," ITEM(
        "b", "2") "],\"metadata\":"
                  "{\"resourceVersion\":\"5\",\"continue\":\"t\"}}";
    struct hvd_kube_call *call;
    struct bench b;

    (void)state;
    start(&b);
    assert_waits(&b, 0);
    call = fake_api_last(&b.fake);
    for (size_t i = 0; text[i]; i++) {
        const char one[2] = {text[i], '\0'};

        assert_int_equal(fake_api_stream(call, one), HVD_OK);
        if (i < 20)
            assert_string_equal(b.heard, "");
        else if (strncmp(text + i, ",\"metadata\":{\"resourceVersion\":\"5\"", 20) == 0)
            assert_string_equal(b.heard, "(+a+b");
    }
    assert_int_equal(b.fake.n_calls, 1);
    fake_api_end(call, 200);
    assert_string_equal(b.heard, "(+a+b");
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "continue=t"));
    b.fake.fail_send = HVD_ERR_NOMEM; /* then the list starts over, and this page has been of use */
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "u", ITEM("c", "3")));
    b.fake.fail_send = HVD_OK;
    assert_waits(&b, hvd_watch_step(b.watch, 0));
    assert_null(strstr(fake_api_last(&b.fake)->query, "continue"));
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("6", "", ITEM("a", "1")));
    assert_string_equal(b.heard, "(+a+b+c(+a)");
    hvd_watch_destroy(b.watch);
}

static void start_with_limit(struct bench *bench, unsigned limit)
{
    struct hvd_watch_options options = {
        .kind = HVD_KIND_POD,
        .page_limit = limit,
        .seed = 7,
        .handler = {bench, on_begin, on_put, on_remove, on_end, on_rewind},
    };

    memset(bench, 0, sizeof(*bench));
    fake_api_init(&bench->fake);
    options.api = &bench->fake.api;
    assert_int_equal(hvd_watch_create(&options, &bench->watch, NULL), HVD_OK);
}

static unsigned limit_of(const struct hvd_kube_call *call)
{
    unsigned limit = 0;

    assert_int_equal(sscanf(call->query, "?limit=%u", &limit), 1);
    return limit;
}

/* Lets the page under way fail, and waits until it is asked for again. */
static struct hvd_kube_call *fail_page(struct bench *b, hvd_status_t st, long code)
{
    int64_t due_ms;

    if (code)
        fake_api_answer(fake_api_last(&b->fake), code, "{}");
    else
        fake_api_break(fake_api_last(&b->fake), st);
    due_ms = hvd_watch_step(b->watch, 0);
    assert_in_range(due_ms, 100, 15000);
    assert_waits(b, due_ms);
    return fake_api_last(&b->fake);
}

static void a_page_that_does_not_come_is_asked_for_again_with_half_the_objects(void **state)
{
    static const unsigned limits[] = {50, 25, 12, 6, 3, 1, 1, 1};
    struct bench b;

    (void)state;
    start_with_limit(&b, 100);
    assert_waits(&b, 0);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "t", ITEM("a", "1")));
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        static const struct {
            hvd_status_t st;
            long code;
        } ways[] = {{HVD_ERR_TIMEOUT, 0}, {HVD_OK, 504}, {HVD_ERR_TOO_LARGE, 0}, {HVD_OK, 500}};
        struct hvd_kube_call *call = fail_page(&b, ways[i % 4].st, ways[i % 4].code);

        assert_int_equal(limit_of(call), limits[i]);
        assert_non_null(strstr(call->query, "continue=t"));
    }
    for (unsigned limit = 2; limit <= 128; limit *= 2) {
        fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "t", ITEM("b", "2")));
        assert_int_equal(limit_of(fake_api_last(&b.fake)), limit > 100 ? 100 : limit);
    }
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ""));
    assert_string_equal(b.heard, "(+a+b+b+b+b+b+b+b)");
    hvd_watch_destroy(b.watch);
}

static void a_page_that_is_cut_off_is_asked_for_with_as_many_objects_as_came(void **state)
{
    struct bench b;

    (void)state;
    start_with_limit(&b, 100);
    assert_waits(&b, 0);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), "{\"items\":[" ITEM("a", "1") "," ITEM(
                                                                 "b", "2") "," ITEM("c", "3") ","),
                     HVD_OK);
    assert_int_equal(limit_of(fail_page(&b, HVD_ERR_TIMEOUT, 0)), 3);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ITEM("a", "1")));
    assert_string_equal(b.heard, "(+a+b+c(+a)"); /* of the first round nothing is trusted */
    hvd_watch_destroy(b.watch);
}

static void a_server_that_is_away_or_refuses_does_not_make_pages_smaller(void **state)
{
    static const struct {
        hvd_status_t st;
        long code;
    } ways[] = {
        {HVD_ERR_UNAVAILABLE, 0}, {HVD_OK, 429}, {HVD_OK, 403}, {HVD_OK, 404}, {HVD_OK, 410},
        {HVD_ERR_NOMEM, 0}};
    struct bench b;

    (void)state;
    start_with_limit(&b, 100);
    assert_waits(&b, 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        assert_int_equal(limit_of(fail_page(&b, ways[i].st, ways[i].code)), 100);
    hvd_watch_destroy(b.watch);
}

static void a_list_that_is_cut_short_or_none_is_not_believed(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "<html>",
        "[]",
        "{\"items\":[" ITEM("a", "1") "]}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" ITEM("a", "1") ","};
    struct bench b;

    (void)state;
    start(&b);
    assert_waits(&b, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t due_ms;

        fake_api_answer(fake_api_last(&b.fake), 200, bad[i]);
        assert_false(hvd_watch_is_synced(b.watch));
        assert_null(strchr(b.heard, ')'));
        due_ms = hvd_watch_step(b.watch, 0);
        assert_in_range(due_ms, 100, 15000);
        assert_waits(&b, due_ms);
    }
    hvd_watch_destroy(b.watch);
}

/* ---- one object stops no other ---- */

#define DEEP(name, version)                                                                        \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"},\"status\":{"       \
    "\"conditions\":%s}}"

static const char *deep_list(size_t n)
{
    static char text[100000];

    assert_true(2 * n < sizeof(text));
    memset(text, '[', n);
    memset(text + n, ']', n);
    text[2 * n] = '\0';
    return text;
}

static void an_object_that_cannot_be_read_as_a_whole_hides_no_other(void **state)
{
    static char text[200000];
    struct bench b;

    (void)state;
    start(&b);
    assert_waits(&b, 0);
    (void)snprintf(text, sizeof(text),
                   PAGE("5", "", ITEM("a", "1") "," DEEP("b", "2") ",null," ITEM("c", "3")),
                   deep_list(1000));
    fake_api_answer(fake_api_last(&b.fake), 200, text);
    assert_string_equal(b.heard, "(+a+b!++c)");
    assert_waits(&b, 1);
    b.heard[0] = '\0';
    (void)snprintf(
        text, sizeof(text),
        "{\"type\":\"MODIFIED\",\"object\":" DEEP("b", "6") "}\n" EVENT("ADDED", "d", "7"),
        deep_list(40000));
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), text), HVD_OK);
    assert_string_equal(b.heard, "+b!+d");
    fake_api_answer(fake_api_last(&b.fake), 200, NULL);
    assert_waits(&b, 10);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=7&"));
    hvd_watch_destroy(b.watch);
}

static void a_line_of_any_length_is_read(void **state)
{
    static char garbage[1 << 16];
    struct hvd_kube_call *call;
    struct bench b;

    (void)state;
    start_watching(&b);
    call = fake_api_last(&b.fake);
    memset(garbage, '<', sizeof(garbage) - 1);
    assert_int_equal(fake_api_stream(call,
                                     "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\","
                                     "\"resourceVersion\":\"6\",\"managedFields\":\""),
                     HVD_OK);
    for (int i = 0; i < 16 * 20; i++) /* 20 MiB */
        assert_int_equal(fake_api_stream(call, garbage), HVD_OK);
    assert_int_equal(fake_api_stream(call, "\"},\"status\":{}}}\n"), HVD_OK);
    assert_string_equal(b.heard, "+a");
    hvd_watch_destroy(b.watch);
}

/* ---- silence ---- */

static void a_stream_on_which_nothing_comes_is_given_up_after_90_seconds(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b); /* at 1 */
    fake_api_begin(fake_api_last(&b.fake));
    assert_int_equal(hvd_watch_step(b.watch, 1000), 91000);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("BOOKMARK", "", "9")), HVD_OK);
    assert_int_equal(hvd_watch_step(b.watch, 60000), 150000);
    assert_int_equal(hvd_watch_step(b.watch, 149999), 150000);
    assert_int_equal(b.fake.n_calls, 2);
    assert_true(assert_probes(&b, 150000)->request.is_fresh);
    assert_int_equal(b.fake.n_cancelled, 1);
    assert_int_equal(b.fake.n_suspected, 1);
    assert_int_equal(b.fake.n_calls, 3);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("9", "more", ITEM("x", "1")));
    assert_waits(&b, 150100);
    assert_true(fake_api_last(&b.fake)->request.is_fresh);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=9&"));
    assert_int_equal(hvd_watch_health(b.watch).n_silences, 1);
    assert_string_equal(b.heard, "");
    hvd_watch_destroy(b.watch);
    assert_int_equal(fake_api_open(&b.fake), 0);
}

static void a_stream_that_is_not_even_accepted_is_silent(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b);
    (void)assert_probes(&b, 90001);
    assert_int_equal(b.fake.n_calls, 3);
    assert_int_equal(hvd_watch_health(b.watch).n_silences, 1);
    hvd_watch_destroy(b.watch);
}

static void a_server_without_bookmarks_costs_a_stream_every_90_seconds(void **state)
{
    struct bench b;
    size_t n_begun = 0;

    (void)state;
    start_watching(&b);
    for (int64_t now_ms = 1; now_ms <= 1 + 10 * 90000; now_ms += 1000) {
        (void)hvd_watch_step(b.watch, now_ms);
        if (n_begun == b.fake.n_calls)
            continue;
        n_begun = b.fake.n_calls;
        if (fake_api_last(&b.fake)->request.verb == HVD_VERB_WATCH)
            fake_api_begin(fake_api_last(&b.fake));
        else
            fake_api_answer(assert_probes(&b, now_ms), 200, PAGE("5", "", ""));
    }
    assert_in_range(hvd_watch_health(b.watch).n_silences, 8, 10);
    assert_in_range(b.fake.n_calls, 2 + 2 * 8, 2 + 2 * 10);
    assert_false(fake_api_last(&b.fake)->request.is_fresh);
    assert_true(hvd_watch_is_synced(b.watch));
    hvd_watch_destroy(b.watch);
}

static void a_stream_that_ends_is_resumed_where_it_was(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("ADDED", "a", "6")), HVD_OK);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("DELETED", "a", "7")), HVD_OK);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("BOOKMARK", "", "9")), HVD_OK);
    assert_string_equal(b.heard, "+a-a");
    fake_api_answer(fake_api_last(&b.fake), 200, NULL);
    assert_waits(&b, 10);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=9&"));
    fake_api_break(fake_api_last(&b.fake), HVD_ERR_TIMEOUT);
    assert_waits(&b, 20);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=9&"));
    hvd_watch_destroy(b.watch);
}

static void gone_leads_to_a_new_list_at_once(void **state)
{
    static const char *const ways[] = {
        NULL, "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"too old\"}}\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench b;

        start_watching(&b);
        if (ways[i])
            assert_int_equal(fake_api_stream(fake_api_last(&b.fake), ways[i]), HVD_ERR_GONE);
        else
            fake_api_answer(fake_api_last(&b.fake), 410, "{\"kind\":\"Status\"}");
        assert_waits(&b, 10);
        assert_int_equal(fake_api_last(&b.fake)->request.verb, HVD_VERB_LIST);
        assert_true(hvd_watch_is_synced(b.watch));
        hvd_watch_destroy(b.watch);
    }
}

static void a_list_can_be_asked_for_at_any_time(void **state)
{
    struct bench b;

    (void)state;
    start(&b);
    hvd_watch_relist(b.watch);
    assert_waits(&b, 0);
    hvd_watch_relist(b.watch);
    assert_int_equal(b.fake.n_calls, 1);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ITEM("a", "1")));
    assert_waits(&b, 1);
    fake_api_begin(fake_api_last(&b.fake));
    hvd_watch_relist(b.watch);
    assert_int_equal(b.fake.n_cancelled, 1);
    assert_waits(&b, 2);
    assert_int_equal(fake_api_last(&b.fake)->request.verb, HVD_VERB_LIST);
    assert_string_equal(b.heard, "(+a)");
    hvd_watch_destroy(b.watch);
}

/* ---- a server whose etcd was restored from a backup ---- */

/* Answers the list of a server that is at 3, and what it is watched from afterwards. */
static void assert_starts_again(struct bench *b, int64_t now_ms)
{
    b->heard[0] = '\0';
    assert_waits(b, now_ms);
    assert_non_null(strstr(fake_api_last(&b->fake)->query, "?limit=2&labelSelector="));
    fake_api_answer(fake_api_last(&b->fake), 200, PAGE("3", "", ITEM("a", "2")));
    assert_string_equal(b->heard, "<(+a)");
    assert_waits(b, now_ms + 1);
    assert_non_null(strstr(fake_api_last(&b->fake)->query, "&resourceVersion=3&"));
    hvd_watch_destroy(b->watch);
}

static void a_server_that_went_back_is_listed_again_when_it_is_reached_again(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start_watching(&b);
    fake_api_break(fake_api_last(&b.fake), HVD_ERR_UNAVAILABLE);
    due_ms = hvd_watch_step(b.watch, 10);
    fake_api_break(assert_probes(&b, due_ms), HVD_ERR_UNAVAILABLE);
    due_ms = hvd_watch_step(b.watch, due_ms);
    fake_api_answer(assert_probes(&b, due_ms), 200, PAGE("3", "", ""));
    assert_starts_again(&b, due_ms);
}

static void a_version_that_is_too_large_for_the_server_leads_to_a_list(void **state)
{
    static const char event[] =
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":504,"
        "\"reason\":\"Timeout\",\"message\":\"Too large resource version\"}}\n";

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bench b;
        int64_t due_ms;

        start_watching(&b);
        if (i)
            assert_int_equal(fake_api_stream(fake_api_last(&b.fake), event), HVD_ERR_UNAVAILABLE);
        else
            fake_api_answer(fake_api_last(&b.fake), 504, "{\"kind\":\"Status\"}");
        due_ms = hvd_watch_step(b.watch, 10);
        fake_api_answer(assert_probes(&b, due_ms), 200, PAGE("3", "", ""));
        assert_starts_again(&b, due_ms);
    }
}

/* A proxy may keep a stream open over it, or a list may have come from elsewhere. */
static void a_stream_that_waits_for_the_future_is_silent_and_ends_in_a_list(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b);
    fake_api_answer(assert_probes(&b, 90001), 200, PAGE("3", "", ""));
    assert_starts_again(&b, 90002);
}

static void a_list_of_an_older_version_than_the_watchs_is_asked_for_once_more(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b);
    fake_api_answer(fake_api_last(&b.fake), 410, "{\"kind\":\"Status\"}");
    assert_waits(&b, 10);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("3", "", ITEM("a", "2")));
    assert_string_equal(b.heard, "(+a");
    assert_starts_again(&b, 11);
}

static void an_event_of_an_older_version_is_a_hint_that_leads_to_a_list(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start_watching(&b);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("ADDED", "a", "6")), HVD_OK);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("ADDED", "a", "6")), HVD_OK);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("DELETED", "a", "4")),
                     HVD_ERR_GONE);
    assert_string_equal(b.heard, "+a+a");
    due_ms = hvd_watch_step(b.watch, 10);
    assert_in_range(due_ms, 110, 210); /* not at once: it may do so for ever */
    assert_waits(&b, due_ms);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("9", "", ITEM("a", "6")));
    assert_string_equal(b.heard, "+a+a(+a)"); /* it did not go back */
    hvd_watch_destroy(b.watch);
}

static void two_silent_streams_of_a_server_with_bookmarks_end_in_a_list(void **state)
{
    struct bench b;

    (void)state;
    start_watching(&b);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("BOOKMARK", "", "9")), HVD_OK);
    (void)hvd_watch_step(b.watch, 10);
    fake_api_answer(assert_probes(&b, 90010), 200, PAGE("9", "", ""));
    assert_waits(&b, 90011);
    assert_int_equal(hvd_watch_step(b.watch, 180011), INT64_MAX);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "?limit=2&labelSelector="));
    hvd_watch_destroy(b.watch);
}

static void versions_that_are_no_numbers_cannot_be_compared_and_lead_to_a_list(void **state)
{
    static const char *const versions[] = {"x7", "7x", "-7", "0x7"};

    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct bench b;
        char page[128];
        int64_t due_ms;

        start_watching(&b);
        fake_api_break(fake_api_last(&b.fake), HVD_ERR_UNAVAILABLE);
        due_ms = hvd_watch_step(b.watch, 10);
        (void)snprintf(page, sizeof(page), PAGE("%s", "", ""), versions[i]);
        fake_api_answer(assert_probes(&b, due_ms), 200, page);
        assert_waits(&b, due_ms);
        fake_api_answer(fake_api_last(&b.fake), 200, page);
        assert_string_equal(b.heard, "()");
        hvd_watch_destroy(b.watch);
    }
}

static void a_resource_that_is_removed_is_missing_until_it_is_listed(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start_watching(&b);
    assert_false(hvd_watch_health(b.watch).is_missing);
    fake_api_answer(fake_api_last(&b.fake), 404, "{}");
    assert_true(hvd_watch_health(b.watch).is_missing);
    due_ms = hvd_watch_step(b.watch, 1000);
    assert_waits(&b, due_ms);
    assert_int_equal(fake_api_last(&b.fake)->request.verb, HVD_VERB_LIST);
    fake_api_answer(fake_api_last(&b.fake), 404, "{}");
    assert_true(hvd_watch_health(b.watch).is_missing);
    due_ms = hvd_watch_step(b.watch, 2000);
    assert_waits(&b, due_ms);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ITEM("b", "2")));
    assert_false(hvd_watch_health(b.watch).is_missing);
    hvd_watch_destroy(b.watch);
}

static void garbage_in_the_stream_leads_to_a_list_after_a_wait(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start_watching(&b);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), "<html>\n"), HVD_ERR_INVALID);
    due_ms = hvd_watch_step(b.watch, 1000);
    assert_in_range(due_ms, 1100, 1200);
    assert_int_equal(b.fake.n_calls, 2);
    assert_waits(&b, due_ms);
    assert_int_equal(fake_api_last(&b.fake)->request.verb, HVD_VERB_LIST);
    hvd_watch_destroy(b.watch);
}

static void a_broken_connection_is_retried_with_backoff_from_the_last_version(void **state)
{
    struct bench b;
    int64_t now_ms = 0;
    int64_t last_wait_ms = 0;

    (void)state;
    start_watching(&b);
    for (unsigned i = 0; i < 10; i++) {
        int64_t due_ms;

        fake_api_break(fake_api_last(&b.fake), HVD_ERR_UNAVAILABLE);
        due_ms = hvd_watch_step(b.watch, now_ms);
        assert_in_range(due_ms - now_ms, 100, 15000);
        last_wait_ms = due_ms - now_ms;
        now_ms = due_ms;
        if (i % 2) {
            fake_api_answer(assert_probes(&b, now_ms), 200, PAGE("7", "", ""));
            assert_waits(&b, now_ms);
            assert_non_null(strstr(fake_api_last(&b.fake)->query, "&resourceVersion=5&"));
        } else {
            (void)assert_probes(&b, now_ms);
        }
    }
    assert_true(last_wait_ms >= 7500);
    assert_string_equal(b.heard, "");
    hvd_watch_destroy(b.watch);
}

static void a_list_that_expires_between_pages_starts_over(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start(&b);
    assert_waits(&b, 0);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "t1", ITEM("a", "1")));
    fake_api_answer(fake_api_last(&b.fake), 410, "{\"kind\":\"Status\"}");
    due_ms = hvd_watch_step(b.watch, 0);
    assert_waits(&b, due_ms);
    assert_string_equal(fake_api_last(&b.fake)->query, "?limit=2&labelSelector=a%3Db");
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("6", "", ITEM("b", "2")));
    assert_string_equal(b.heard, "(+a(+b)");
    hvd_watch_destroy(b.watch);
}

static void what_cannot_be_sent_is_tried_again(void **state)
{
    struct bench b;
    int64_t due_ms;

    (void)state;
    start(&b);
    b.fake.fail_send = HVD_ERR_NOMEM;
    due_ms = hvd_watch_step(b.watch, 0);
    assert_in_range(due_ms, 100, 200);
    b.fake.fail_send = HVD_OK;
    due_ms = hvd_watch_step(b.watch, due_ms);
    if (due_ms != INT64_MAX)
        assert_waits(&b, due_ms);
    assert_int_equal(b.fake.n_calls, 1);
    hvd_watch_destroy(b.watch);
}

/* Drives a watch until it has listed two pages; false when it could not even be created. */
static bool sync_two_pages(struct bench *b)
{
    struct hvd_watch_options options = {
        .kind = HVD_KIND_POD, .handler = {b, on_begin, on_put, on_remove, on_end, on_rewind}};
    int64_t now_ms = 0;

    fake_api_init(&b->fake);
    options.api = &b->fake.api;
    if (hvd_watch_create(&options, &b->watch, NULL) != HVD_OK)
        return false;
    for (unsigned i = 0; i < 20 && !hvd_watch_is_synced(b->watch); i++) {
        int64_t due_ms = hvd_watch_step(b->watch, now_ms);
        bool is_second;

        now_ms = due_ms == INT64_MAX ? now_ms : due_ms;
        if (!fake_api_open(&b->fake))
            continue;
        is_second = strstr(fake_api_last(&b->fake)->query, "continue") != NULL;
        fake_api_answer(fake_api_last(&b->fake), 200,
                        is_second ? PAGE("5", "", "") : PAGE("5", "t", ""));
    }
    return true;
}

static void every_failed_allocation_only_delays(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct bench b = {0};
        if (sync_two_pages(&b))
            assert_true(hvd_watch_is_synced(b.watch));
        hvd_watch_destroy(b.watch);
    });
}

static void its_health_tells_an_open_stream_from_one_that_is_not(void **state)
{
    struct hvd_watch_health health;
    struct bench b;

    (void)state;
    start(&b);
    (void)hvd_watch_step(b.watch, 10);
    health = hvd_watch_health(b.watch);
    assert_false(health.is_synced || health.is_open);
    assert_int_equal(health.changed_ms, 10);
    fake_api_answer(fake_api_last(&b.fake), 200, PAGE("5", "", ""));
    (void)hvd_watch_step(b.watch, 20);
    health = hvd_watch_health(b.watch);
    assert_true(health.is_synced && !health.is_open); /* asked for, not answered yet */
    fake_api_begin(fake_api_last(&b.fake));
    (void)hvd_watch_step(b.watch, 30);
    health = hvd_watch_health(b.watch);
    assert_true(health.is_open);
    assert_int_equal(health.changed_ms, 30);
    assert_int_equal(health.received_ms, 30);
    assert_int_equal(fake_api_stream(fake_api_last(&b.fake), EVENT("ADDED", "a", "6")), HVD_OK);
    (void)hvd_watch_step(b.watch, 40);
    assert_int_equal(hvd_watch_health(b.watch).received_ms, 40);
    assert_string_equal(hvd_watch_health(b.watch).problem, "");
    fake_api_break(fake_api_last(&b.fake), HVD_ERR_UNAVAILABLE);
    (void)hvd_watch_step(b.watch, 50);
    health = hvd_watch_health(b.watch);
    assert_true(health.is_synced && !health.is_open);
    assert_int_equal(health.changed_ms, 50);
    assert_int_equal(health.received_ms, 40);
    assert_string_not_equal(health.problem, "");
    hvd_watch_destroy(b.watch);
}

static void one_object_is_followed_by_a_field_selector(void **state)
{
    struct hvd_watch_options options = {
        .kind = HVD_KIND_LEASE, .ns = "ns", .field_selector = "metadata.name=op", .seed = 7};
    struct bench b = {0};

    (void)state;
    fake_api_init(&b.fake);
    options.api = &b.fake.api;
    assert_int_equal(hvd_watch_create(&options, &b.watch, NULL), HVD_OK);
    (void)hvd_watch_step(b.watch, 0);
    assert_non_null(strstr(fake_api_last(&b.fake)->query, "fieldSelector=metadata.name%3Dop"));
    hvd_watch_destroy(b.watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_listed_then_watched_from_their_version),
        cmocka_unit_test(objects_are_taken_in_while_their_page_comes),
        cmocka_unit_test(a_page_that_does_not_come_is_asked_for_again_with_half_the_objects),
        cmocka_unit_test(a_page_that_is_cut_off_is_asked_for_with_as_many_objects_as_came),
        cmocka_unit_test(a_server_that_is_away_or_refuses_does_not_make_pages_smaller),
        cmocka_unit_test(a_list_that_is_cut_short_or_none_is_not_believed),
        cmocka_unit_test(an_object_that_cannot_be_read_as_a_whole_hides_no_other),
        cmocka_unit_test(a_line_of_any_length_is_read),
        cmocka_unit_test(a_stream_on_which_nothing_comes_is_given_up_after_90_seconds),
        cmocka_unit_test(a_stream_that_is_not_even_accepted_is_silent),
        cmocka_unit_test(a_server_without_bookmarks_costs_a_stream_every_90_seconds),
        cmocka_unit_test(a_stream_that_ends_is_resumed_where_it_was),
        cmocka_unit_test(gone_leads_to_a_new_list_at_once),
        cmocka_unit_test(a_server_that_went_back_is_listed_again_when_it_is_reached_again),
        cmocka_unit_test(a_version_that_is_too_large_for_the_server_leads_to_a_list),
        cmocka_unit_test(a_stream_that_waits_for_the_future_is_silent_and_ends_in_a_list),
        cmocka_unit_test(a_list_of_an_older_version_than_the_watchs_is_asked_for_once_more),
        cmocka_unit_test(an_event_of_an_older_version_is_a_hint_that_leads_to_a_list),
        cmocka_unit_test(two_silent_streams_of_a_server_with_bookmarks_end_in_a_list),
        cmocka_unit_test(versions_that_are_no_numbers_cannot_be_compared_and_lead_to_a_list),
        cmocka_unit_test(a_list_can_be_asked_for_at_any_time),
        cmocka_unit_test(a_resource_that_is_removed_is_missing_until_it_is_listed),
        cmocka_unit_test(garbage_in_the_stream_leads_to_a_list_after_a_wait),
        cmocka_unit_test(a_broken_connection_is_retried_with_backoff_from_the_last_version),
        cmocka_unit_test(a_list_that_expires_between_pages_starts_over),
        cmocka_unit_test(what_cannot_be_sent_is_tried_again),
        cmocka_unit_test(every_failed_allocation_only_delays),
        cmocka_unit_test(its_health_tells_an_open_stream_from_one_that_is_not),
        cmocka_unit_test(one_object_is_followed_by_a_field_selector),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
