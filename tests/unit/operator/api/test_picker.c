#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "operator/api/picker.h"
#include "operator/api/shape.h"

#define TEXT_SIZE 65536

#define ROWS_MAX 8

/* A shape from a text such as "a{b,c},d"; up to the end of the text, or the brace that ends it. */
struct shapes {
    char text[64];
    struct hvd_shape rows[8 * ROWS_MAX];
    size_t n;
};

static const struct hvd_shape *parse(struct shapes *s, char **at)
{
    struct hvd_shape *own = &s->rows[s->n];
    size_t n = 0;

    s->n += ROWS_MAX;
    assert_true(s->n <= sizeof(s->rows) / sizeof(s->rows[0]));
    for (;;) {
        const size_t len = strcspn(*at, ",{}");
        char end = (*at)[len];

        own[n].name = *at;
        (*at)[len] = '\0';
        *at += len + (end != '\0');
        own[n++].parts = end == '{' ? parse(s, at) : NULL;
        if (end == '{') {
            end = **at;
            *at += end != '\0';
        }
        if (end != ',')
            return own;
    }
}

struct copy {
    char text[TEXT_SIZE]; /* each item, and the whole, behind the one before */
    size_t len;
};

static hvd_status_t keep(void *ctx, struct hvd_strview text, bool is_item)
{
    struct copy *copy = ctx;

    (void)is_item;
    assert_true(text.len < sizeof(copy->text) - copy->len);
    assert_int_equal(text.data[text.len], '\0');
    memcpy(copy->text + copy->len, text.data, text.len + 1);
    copy->len += text.len;
    return HVD_OK;
}

/* Feeds the text in pieces of that length, the first of which is of another. */
static hvd_status_t feed(const struct hvd_pick_options *options, struct hvd_strview text,
                         size_t first, size_t piece)
{
    struct hvd_picker picker;
    hvd_status_t st = HVD_OK;

    hvd_picker_init(&picker, options);
    for (size_t at = 0, len = first; at < text.len && st == HVD_OK; at += len, len = piece) {
        len = text.len - at < len ? text.len - at : len;
        st = hvd_picker_feed(&picker, (struct hvd_strview){text.data + at, len});
    }
    if (st == HVD_OK)
        st = hvd_picker_end(&picker);
    hvd_picker_fini(&picker);
    return st;
}

/* What is picked of the text; however it is cut, that is the same. */
static hvd_status_t pick_cut(struct hvd_pick_options options, struct hvd_strview text,
                             struct copy *out)
{
    static struct copy other;
    hvd_status_t st;

    options.take = keep;
    options.ctx = out;
    out->len = 0;
    out->text[0] = '\0';
    st = feed(&options, text, text.len, text.len);
    options.ctx = &other;
    for (size_t cut = 0; cut <= text.len; cut += text.len / 2000 + 1) {
        other.len = 0;
        assert_int_equal(feed(&options, text, cut, cut ? text.len : 1), st);
        if (st != HVD_OK)
            continue;
        assert_int_equal(other.len, out->len);
        assert_memory_equal(other.text, out->text, other.len);
    }
    return st;
}

static size_t pick_view(struct hvd_strview text, const char *shape, char *out)
{
    static struct copy copy;
    struct shapes shapes = {0};
    char *at = shapes.text;
    hvd_status_t st;

    (void)snprintf(shapes.text, sizeof(shapes.text), "%s", shape);
    st = pick_cut((struct hvd_pick_options){.shape = parse(&shapes, &at), .max_bytes = TEXT_SIZE},
                  text, &copy);
    if (st != HVD_OK) {
        assert_int_equal(st, HVD_ERR_INVALID);
        return 0;
    }
    memcpy(out, copy.text, copy.len);
    return copy.len;
}

static size_t pick(const char *text, const char *shape, char *out)
{
    size_t len = pick_view(hvd_strview_of(text), shape, out);

    out[len] = '\0';
    return len;
}

static void a_shape_says_what_stays(void **state)
{
    static const struct {
        const char *text, *shape, *left;
    } rows[] = {
        {"{\"a\":1,\"b\":2,\"c\":3}", "b", "{\"b\":2}"},
        {"{\"a\":1,\"b\":2,\"c\":3}", "c,a", "{\"a\":1,\"c\":3}"},
        {" { \"a\" : [ 1 , {} ] , \"b\" : 2 } \n", "a", "{\"a\":[ 1 , {} ]}"},
        {"{\"a\":1}", "b", "{}"},
        {"{}", "a", "{}"},
        {"{\"a\":{\"b\":1,\"c\":{\"d\":2}},\"d\":3}", "a{c{d}}", "{\"a\":{\"c\":{\"d\":2}}}"},
        {"{\"a\":{\"b\":1},\"b\":2}", "a{c},b", "{\"a\":{},\"b\":2}"},
        {"{\"a\":[{\"b\":1,\"c\":2},{\"c\":3},4,null]}", "a{b}", "{\"a\":[{\"b\":1},{},4,null]}"},
        {"{\"a\":[],\"b\":[[{\"c\":1}]]}", "a{b},b{a}", "{\"a\":[],\"b\":[[{\"c\":1}]]}"},
        {"{\"a\":null,\"b\":-1.5e3,\"c\":true}", "a{x},b,c",
         "{\"a\":null,\"b\":-1.5e3,\"c\":true}"},
        {"{\"k\\\"{\":\"}\\\\\",\"a\":\"\\\\\\\"]\"}", "a", "{\"a\":\"\\\\\\\"]\"}"},
        {"{\"ab\":1,\"a\":2,\"\":3}", "a", "{\"a\":2}"},
        {"{\"x.io/y\":1,\"y\":{\"x.io/y\":2}}", "y{x.io/y}", "{\"y\":{\"x.io/y\":2}}"},
        {"{\"a\":1,\"a\":2}", "a", "{\"a\":1,\"a\":2}"},
        {"7", "a", "7"},
    };
    char out[256];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(pick(rows[i].text, rows[i].shape, out) > 0);
        assert_string_equal(out, rows[i].left);
    }
}

static void a_key_with_a_zero_byte_is_not_found(void **state)
{
    static const char text[] = "{\"a\0bc\":1}";
    char out[16];

    (void)state;
    assert_int_equal(pick_view((struct hvd_strview){text, sizeof(text) - 1}, "a", out), 2);
    assert_memory_equal(out, "{}", 2);
}

static void what_is_cut_short_or_torn_is_refused(void **state)
{
    static const char whole[] = "{\"a\":[{\"b\":\"x\\\"\"},1],\"c\":{\"d\":[true]}}";
    static const char *const torn[] = {
        "",           "{\"a\"}",    "{\"a\":}",  "{\"a\":1 \"b\":2}", "{a:1}",
        "{\"a\":1},", "{\"a\":1}}", "{\"a\":1]", "{\"a\":1,}",        "[{\"a\":1]",
        "[1,]",       "\"",         "{,}",       "{\"b\":\"\\\"}"};
    char out[64];

    (void)state;
    for (size_t len = 0; len < sizeof(whole) - 1; len++)
        assert_int_equal(pick_view((struct hvd_strview){whole, len}, "a{b}", out), 0);
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++)
        assert_int_equal(pick(torn[i], "a", out), 0);
}

/* ---- API objects ---- */

static const struct hvd_shape any[] = {{HVD_SHAPE_ANY, NULL}, {NULL, NULL}};
static const struct hvd_shape owner[] = {{"kind", NULL}, {NULL, NULL}};
static const struct hvd_shape meta[] = {
    {"name", NULL}, {"uid", NULL}, {"labels", NULL}, {"owners", owner}, {NULL, NULL}};
static const struct hvd_shape object[] = {
    {"metadata", meta}, {"spec", any}, {"status", any}, {NULL, NULL}};
static const struct hvd_shape page[] = {{"metadata", NULL}, {"items", object}, {NULL, NULL}};
static const struct hvd_shape line[] = {{"type", NULL}, {"object", object}, {NULL, NULL}};

static const struct hvd_pick_options of_page = {
    .shape = page, .object = object, .max_bytes = 100, .has_items = true};
static const char *const gates[] = {"\"Owner\"", "\"Mark\"", NULL};
static const struct hvd_pick_options of_line = {
    .shape = line, .object = object, .max_bytes = 100, .gates = gates};

#define TIMES_10(s) s s s s s s s s s s
#define TEXT_60 TIMES_10("012345")

static void items_are_handed_on_one_by_one_and_then_the_list_without_them(void **state)
{
    static const struct {
        const char *text, *left;
    } rows[] = {
        {"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"x\":1},{\"spec\":{\"b\":[2]}}],"
         "\"kind\":\"L\",\"metadata\":{\"resourceVersion\":\"9\"}}",
         "{\"metadata\":{\"name\":\"a\"}}{\"spec\":{\"b\":[2]}}"
         "{\"items\":[],\"metadata\":{\"resourceVersion\":\"9\"}}"},
        {"{\"items\":[{\"metadata\":{\"name\":\"" TEXT_60 "\"},\"spec\":{},\"status\":{\"s\":1}}],"
         "\"metadata\":{\"resourceVersion\":\"9\"}}",
         "{\"metadata\":{\"name\":\"" TEXT_60 "\"},\"spec\":{},\"status\":{\"s\":1}}"
         "{\"items\":[],\"metadata\":{\"resourceVersion\":\"9\"}}"},
        {"{\"metadata\":{\"continue\":\"t\"},\"items\":[]}",
         "{\"metadata\":{\"continue\":\"t\"},\"items\":[]}"},
        {"{\"metadata\":null,\"items\":null}", "{\"metadata\":null,\"items\":null}"},
        {"{\"items\":[null, 7 ,\"x\",[{}],{}]}", "nullnullnullnull{}{\"items\":[]}"},
        {"{\"items\":{\"metadata\":1}}", "{\"items\":{\"metadata\":1}}"},
    };
    static struct copy copy;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(pick_cut(of_page, hvd_strview_of(rows[i].text), &copy), HVD_OK);
        assert_string_equal(copy.text, rows[i].left);
    }
}

#define TEXT_120 TIMES_10("0123456789ab")
#define TOO_LARGE "makes its part of the object larger than the 100 bytes that are read"

static void what_is_too_large_is_left_out_of_its_object_alone_and_named(void **state)
{
    static const struct {
        const char *item, *left;
    } rows[] = {
        {"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":1,\"y\":\"" TEXT_120 "\",\"z\":[2]},"
         "\"status\":{\"s\":3}}",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":1,\"z\":[2]},\"status\":{\"s\":3},"
         "\"unreadable\":\"spec.y: " TOO_LARGE "\"}"},
        {"{\"metadata\":{\"labels\":{\"l\":\"" TEXT_120 "\"},\"name\":\"a\"}}",
         "{\"metadata\":{\"name\":\"a\"},\"unreadable\":\"metadata.labels: " TOO_LARGE "\"}"},
        {"{\"metadata\":{\"owners\":[" TIMES_10("{\"kind\":\"12\"},") "{}],\"name\":\"a\"}}",
         "{\"metadata\":{\"name\":\"a\"},\"unreadable\":\"metadata.owners: " TOO_LARGE "\"}"},
        {"{\"metadata\":{\"owners\":[" TIMES_10(TIMES_10("{},")) "{}],\"name\":\"a\"}}",
         "{\"metadata\":{\"name\":\"a\"},\"unreadable\":\"metadata.owners: " TOO_LARGE "\"}"},
        {"{\"spec\":" TIMES_10("[1,") "2" TIMES_10("]") ",\"metadata\":{\"name\":\"a\"}}",
         "{\"spec\":[1,[1,[1,[1,[1,[1,[1,[1,[1,[1,2]]]]]]]]]],\"metadata\":{\"name\":\"a\"}}"},
        {"{\"spec\":\"" TEXT_120 "\"}", "{\"unreadable\":\"spec: " TOO_LARGE "\"}"},
        {"{\"spec\":{\"n\":" TIMES_10("123456789012") "}}",
         "{\"spec\":{},\"unreadable\":\"spec.n: " TOO_LARGE "\"}"},
        {"{\"spec\":{\"" TEXT_120 "\":1,\"x\":{\"y\":2}}}",
         "{\"spec\":{\"x\":{\"y\":2}},"
         "\"unreadable\":\"spec: has a name of more than 64 bytes\"}"},
        {"{\"" TEXT_120 "\":{\"spec\":1},\"spec\":{}}", "{\"spec\":{}}"},
    };
    static struct copy copy;
    char text[1024], left[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(text, sizeof(text), "{\"items\":[%s,{\"spec\":{}}],\"metadata\":1}",
                       rows[i].item);
        (void)snprintf(left, sizeof(left), "%s{\"spec\":{}}{\"items\":[],\"metadata\":1}",
                       rows[i].left);
        assert_int_equal(pick_cut(of_page, hvd_strview_of(text), &copy), HVD_OK);
        assert_string_equal(copy.text, left);
        (void)snprintf(text, sizeof(text), "{\"type\":\"A\",\"object\":%s}", rows[i].item);
        (void)snprintf(left, sizeof(left), "{\"type\":\"A\",\"object\":%s}", rows[i].left);
        assert_int_equal(pick_cut(of_line, hvd_strview_of(text), &copy), HVD_OK);
        assert_string_equal(copy.text, left);
    }
}

/* An object whose spec nests so deep in arrays. */
static size_t put_deep(char *text, size_t depth, const char *name)
{
    size_t len = (size_t)sprintf(text, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"deep\":", name);

    memset(text + len, '[', depth);
    memset(text + len + depth, ']', depth);
    len += 2 * depth;
    return len + (size_t)sprintf(text + len, ",\"x\":1},\"status\":{\"s\":3}}");
}

static void what_nests_too_deep_is_left_out_and_named_with_its_depth(void **state)
{
    static char text[TEXT_SIZE];
    static struct copy copy;
    struct hvd_pick_options options = of_page;
    cJSON *parsed;
    size_t len;

    (void)state;
    options.max_bytes = 10000;
    len = (size_t)sprintf(text, "{\"items\":[");
    len += put_deep(text + len, HVD_PICK_DEPTH_MAX - 2, "a");
    text[len++] = ',';
    len += put_deep(text + len, HVD_PICK_DEPTH_MAX - 1, "b");
    text[len++] = ',';
    len += put_deep(text + len, 20000, "c");
    len += (size_t)sprintf(text + len, "]}");
    assert_int_equal(pick_cut(options, (struct hvd_strview){text, len}, &copy), HVD_OK);
    assert_non_null(strstr(copy.text,
                           "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"x\":1},\"status\":{\"s\":3},"
                           "\"unreadable\":\"spec.deep: nests 501 levels deep, at most 500 are "
                           "read\"}{\"metadata\":{\"name\":\"c\"},\"spec\":{\"x\":1},\"status\":{"
                           "\"s\":3},\"unreadable\":\"spec.deep: nests 20002 levels deep, at most "
                           "500 are read\"}{\"items\":[]}"));
    *strstr(copy.text, "{\"metadata\":{\"name\":\"b\"") = '\0';
    assert_null(strstr(copy.text, "unreadable"));
    parsed = cJSON_Parse(copy.text);
    assert_non_null(parsed);
    cJSON_Delete(parsed);
}

static void an_object_of_many_values_costs_no_more_than_a_bounded_tree(void **state)
{
    static char text[2 * HVD_PICK_VALUES_MAX + 200];
    static struct copy copy;
    struct hvd_pick_options options = of_line;
    size_t len = (size_t)sprintf(text, "{\"object\":{\"spec\":{\"many\":[");

    (void)state;
    options.max_bytes = sizeof(text);
    options.take = keep;
    options.ctx = &copy;
    for (int i = 0; i < HVD_PICK_VALUES_MAX; i++, len += 2)
        memcpy(text + len, "0,", 2);
    len += (size_t)sprintf(text + len, "0],\"x\":1}}}");
    copy.len = 0;
    assert_int_equal(feed(&options, (struct hvd_strview){text, len}, 5000, 7001), HVD_OK);
    assert_string_equal(
        copy.text, "{\"object\":{\"spec\":{\"x\":1},\"unreadable\":\"spec.many: makes its part "
                   "of the object hold more than the 100000 values that are read\"}}");
}

static void of_objects_of_others_only_the_metadata_is_wanted(void **state)
{
    static const struct {
        const char *text, *left;
    } rows[] = {
        {"{\"object\":{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"a\":1},\"status\":{}},\"type\":1}",
         "{\"object\":{\"metadata\":{\"uid\":\"u\"}},\"type\":1}"},
        {"{\"object\":{\"metadata\":{\"uid\":\"u\",\"owners\":[{\"kind\": \"Owner\"}]},"
         "\"spec\":{\"a\":1}}}",
         "{\"object\":{\"metadata\":{\"uid\":\"u\",\"owners\":[{\"kind\":\"Owner\"}]},"
         "\"spec\":{\"a\":1}}}"},
        {"{\"object\":{\"metadata\":{\"uid\":\"u\",\"labels\":{\"Mark\":1}},\"spec\":{\"a\":1}}}",
         "{\"object\":{\"metadata\":{\"uid\":\"u\",\"labels\":{\"Mark\":1}},\"spec\":{\"a\":1}}}"},
        {"{\"object\":{\"metadata\":{},\"status\":{\"code\":410}}}",
         "{\"object\":{\"metadata\":{},\"status\":{\"code\":410}}}"},
    };
    static struct copy copy;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(pick_cut(of_line, hvd_strview_of(rows[i].text), &copy), HVD_OK);
        assert_string_equal(copy.text, rows[i].left);
    }
}

/* A child that has lost its owner reference is compared with what was written: all of it counts. */
static void a_child_without_its_owner_is_wanted(void **state)
{
    static const struct {
        const char *annotation;
        bool is_wanted;
    } rows[] = {{"horovod.io/job-uid", true},
                {"horovod.io/spec-hash", true}, /* an older operator's has no uid */
                {"horovod.io/attempt", true},
                {"example.com/other", false}};
    struct hvd_pick_options options = hvd_shape_pick(HVD_KIND_STATEFULSET);
    static struct copy copy;
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"uid\":\"u\",\"annotations\":{\"%s\":\"1\"}},"
                       "\"spec\":{\"replicas\":2}}",
                       rows[i].annotation);
        assert_int_equal(pick_cut(options, hvd_strview_of(text), &copy), HVD_OK);
        assert_int_equal(strstr(copy.text, "replicas") != NULL, rows[i].is_wanted);
    }
}

static void objects_of_a_list_that_is_gathered_have_limits_each(void **state)
{
#define FULL "{\"spec\":{\"x\":\"" TIMES_10("01234567") "\"}}"
#define LARGE "{\"spec\":{\"x\":\"" TEXT_120 "\"},\"status\":{\"s\":1}}"
    static const char text[] = "{\"items\":[" TIMES_10(FULL "," LARGE ",") "7]}";
    static const char left[] =
        "{\"items\":[" TIMES_10(FULL ",{\"spec\":{},\"status\":{\"s\":1},\"unreadable\":"
                                     "\"spec.x: " TOO_LARGE "\"},") "7]}";
    struct hvd_pick_options options = of_page;
    static struct copy copy;

    (void)state;
    options.has_items = false;
    options.max_total = 4000;
    assert_int_equal(pick_cut(options, hvd_strview_of(text), &copy), HVD_OK);
    assert_string_equal(copy.text, left);
    options.max_total = 2000;
    assert_int_equal(pick_cut(options, hvd_strview_of(text), &copy), HVD_ERR_TOO_LARGE);
}

static void what_is_no_object_has_one_limit(void **state)
{
    const struct hvd_pick_options options = {.max_bytes = 20};
    static struct copy copy;

    (void)state;
    assert_int_equal(pick_cut(options, hvd_strview_of(" [1,2,{\"a\":null}] "), &copy), HVD_OK);
    assert_string_equal(copy.text, "[1,2,{\"a\":null}]");
    assert_int_equal(pick_cut(options, hvd_strview_of("\"" TEXT_120 "\""), &copy),
                     HVD_ERR_TOO_LARGE);
    assert_int_equal(pick_cut(options, hvd_strview_of("  "), &copy), HVD_OK);
    assert_int_equal(copy.len, 0);
}

static hvd_status_t refuse(void *ctx, struct hvd_strview text, bool is_item)
{
    (void)ctx;
    (void)text;
    return is_item ? HVD_ERR_GONE : HVD_OK;
}

static void a_taker_ends_the_picking_and_another_text_may_follow(void **state)
{
    struct hvd_pick_options options = of_page;
    struct hvd_picker picker;

    (void)state;
    options.take = refuse;
    hvd_picker_init(&picker, &options);
    assert_int_equal(hvd_picker_feed(&picker, hvd_strview_of("{\"items\":[{},")), HVD_ERR_GONE);
    assert_int_equal(hvd_picker_feed(&picker, hvd_strview_of("{}]}")), HVD_ERR_INVALID);
    hvd_picker_reset(&picker);
    assert_int_equal(hvd_picker_feed(&picker, hvd_strview_of("{\"items\":[]}")), HVD_OK);
    assert_int_equal(hvd_picker_end(&picker), HVD_OK);
    hvd_picker_fini(&picker);
}

static void every_failed_allocation_ends_the_picking(void **state)
{
    static char text[60000];
    static struct copy copy;
    struct hvd_pick_options options = of_page;

    (void)state;
    (void)snprintf(text, sizeof(text),
                   "{\"items\":[{\"spec\":{\"x\":\"%040000d\"}},{\"spec\":{}}]}", 0);
    options.max_bytes = 50000;
    options.take = keep;
    options.ctx = &copy;
    HVD_MEM_TORTURE({
        copy.len = 0;
        hvd_status_t st = feed(&options, hvd_strview_of(text), 10, 3000);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    });
}

/* ---- long texts ---- */

static const struct hvd_shape long_spec[] = {
    {"x", NULL}, {"text", hvd_shape_tail}, {"y", NULL}, {NULL, NULL}};
static const struct hvd_shape long_object[] = {{"spec", long_spec}, {NULL, NULL}};

/* Picks an object with a text of 60,000 bytes of JSON, of that character over and over; the rest of
 * the object is there, and the end of the text. */
static void check_tail(size_t n_before, const char *character)
{
    static char text[TEXT_SIZE];
    static struct copy copy;
    const struct hvd_pick_options options = {.shape = long_object, .max_bytes = TEXT_SIZE};
    const size_t n = strlen(character);
    size_t len = (size_t)sprintf(text, "{\"spec\":{\"x\":1,\"text\":\""), len_text;
    cJSON *whole, *picked;
    const char *all, *end;

    memset(text + len, 'a', n_before);
    for (len += n_before; len < 60000; len += n)
        memcpy(text + len, character, n);
    len += (size_t)sprintf(text + len, "end\",\"y\":2}}");
    assert_int_equal(pick_cut(options, (struct hvd_strview){text, len}, &copy), HVD_OK);
    len_text = copy.len - strlen("{\"spec\":{\"x\":1,\"text\":\"") - strlen(",\"y\":2}}");
    assert_in_range(len_text, HVD_PICK_TAIL_MAX - 11, HVD_PICK_TAIL_MAX);
    assert_memory_equal(copy.text, "{\"spec\":{\"x\":1,\"text\":\"", 23);
    assert_string_equal(strstr(copy.text, "end\""), "end\",\"y\":2}}");
    whole = cJSON_Parse(text);
    picked = cJSON_Parse(copy.text);
    assert_non_null(picked);
    all = cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(whole, "spec"), "text"));
    end = cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(picked, "spec"), "text"));
    assert_string_equal(end, all + strlen(all) - strlen(end));
    cJSON_Delete(whole);
    cJSON_Delete(picked);
}

static void of_a_long_text_whole_characters_at_its_end_stay(void **state)
{
    static const char *const characters[] = {"b",
                                             "\\\\",
                                             "\\\"",
                                             "\\u003c",
                                             "\\uD83D\\ude00",
                                             "\\ud83d\\ude00\\n",
                                             "\xc3\xa4",
                                             "\xf0\x9f\x98\x80"};

    (void)state;
    for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++)
        for (size_t n_before = 0; n_before < strlen(characters[i]); n_before++)
            check_tail(n_before, characters[i]);
}

static void a_value_of_which_the_end_is_wanted_is_else_like_any_other(void **state)
{
    static const struct {
        const char *text, *left;
    } rows[] = {
        {"{\"spec\":{\"text\":\"short\",\"y\":1}}", "{\"spec\":{\"text\":\"short\",\"y\":1}}"},
        {"{\"spec\":{\"text\":\"\"}}", "{\"spec\":{\"text\":\"\"}}"},
        {"{\"spec\":{\"text\":{\"a\":[\"b\"]}}}", "{\"spec\":{\"text\":{\"a\":[\"b\"]}}}"},
        {"{\"spec\":{\"text\":7,\"x\":[]}}", "{\"spec\":{\"text\":7,\"x\":[]}}"},
        {"{\"spec\":{\"text\":\"" TEXT_120 "\",\"y\":1}}",
         "{\"spec\":{\"y\":1},\"unreadable\":\"spec.text: " TOO_LARGE "\"}"},
    };
    const struct hvd_pick_options options = {.shape = long_object, .max_bytes = 100};
    static struct copy copy;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(pick_cut(options, hvd_strview_of(rows[i].text), &copy), HVD_OK);
        assert_string_equal(copy.text, rows[i].left);
    }
}

/* ---- against a slow one ---- */

static const char *const names[] = {"a", "b", "ab", "x.io/y"};
static const char shape[] = "a{b{a},ab},x.io/y,b{a{a,b,ab}}";

static int roll(int n)
{
    return rand() %
           n; /* NOLINT(cert-msc30-c,cert-msc50-cpp,concurrency-mt-unsafe): a seed of ours */
}

static cJSON *grow(int depth)
{
    static const char *const texts[] = {"", "}", "\"", "\\", "{\"a\":1", "\xc3\xa4\n"};
    cJSON *made;

    switch (roll(depth > 0 ? 6 : 3)) {
    case 0:
        return cJSON_CreateNumber(roll(1000) / 8.0);
    case 1:
        return cJSON_CreateString(texts[roll(6)]);
    case 2:
        return cJSON_CreateNull();
    case 3:
        made = cJSON_CreateArray();
        for (int n = roll(4); n > 0; n--)
            cJSON_AddItemToArray(made, grow(depth - 1));
        return made;
    default:
        made = cJSON_CreateObject();
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (roll(2))
                cJSON_AddItemToObject(made, names[i], grow(depth - 1));
        return made;
    }
}

/* The paths that the shape above names, spelled out: 'a' stands for itself, 'c' for "ab", 'x' for
 * "x.io/y". Whether something at this path is kept. */
static bool is_kept(const char *path)
{
    static const char *const kept[] = {"a", "ab", "aba", "ac", "x", "b", "ba", "baa", "bab", "bac"};
    static const char *const whole[] = {"aba", "ac", "x", "baa", "bab", "bac"};

    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (strncmp(path, whole[i], strlen(whole[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (strcmp(path, kept[i]) == 0)
            return true;
    return false;
}

static void prune(cJSON *item, const char *path)
{
    cJSON *next, *member;

    if (cJSON_IsArray(item)) {
        cJSON_ArrayForEach(member, item)
        {
            if (!cJSON_IsArray(member)) /* an array in an array stays whole */
                prune(member, path);
        }
        return;
    }
    for (member = cJSON_IsObject(item) ? item->child : NULL; member; member = next) {
        const char letter = strcmp(member->string, "ab") == 0 ? 'c' : member->string[0];
        char below[64];

        next = member->next;
        (void)snprintf(below, sizeof(below), "%s%c", path, letter);
        if (!is_kept(below))
            cJSON_Delete(cJSON_DetachItemViaPointer(item, member));
        else
            prune(member, below);
    }
}

static void the_copy_is_what_pruning_the_tree_leaves(void **state)
{
    static char text[TEXT_SIZE], out[TEXT_SIZE];

    (void)state;
    srand(1);
    for (int i = 0; i < 500; i++) {
        cJSON *tree = grow(6);
        cJSON *picked;

        assert_true(cJSON_PrintPreallocated(tree, text, TEXT_SIZE, i % 2));
        prune(tree, "");
        assert_true(pick(text, shape, out) > 0);
        picked = cJSON_Parse(out);
        assert_true(cJSON_Compare(tree, picked, true));
        cJSON_Delete(picked);
        cJSON_Delete(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_says_what_stays),
        cmocka_unit_test(a_key_with_a_zero_byte_is_not_found),
        cmocka_unit_test(what_is_cut_short_or_torn_is_refused),
        cmocka_unit_test(items_are_handed_on_one_by_one_and_then_the_list_without_them),
        cmocka_unit_test(what_is_too_large_is_left_out_of_its_object_alone_and_named),
        cmocka_unit_test(what_nests_too_deep_is_left_out_and_named_with_its_depth),
        cmocka_unit_test(an_object_of_many_values_costs_no_more_than_a_bounded_tree),
        cmocka_unit_test(of_objects_of_others_only_the_metadata_is_wanted),
        cmocka_unit_test(a_child_without_its_owner_is_wanted),
        cmocka_unit_test(objects_of_a_list_that_is_gathered_have_limits_each),
        cmocka_unit_test(what_is_no_object_has_one_limit),
        cmocka_unit_test(a_taker_ends_the_picking_and_another_text_may_follow),
        cmocka_unit_test(every_failed_allocation_ends_the_picking),
        cmocka_unit_test(of_a_long_text_whole_characters_at_its_end_stay),
        cmocka_unit_test(a_value_of_which_the_end_is_wanted_is_else_like_any_other),
        cmocka_unit_test(the_copy_is_what_pruning_the_tree_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
