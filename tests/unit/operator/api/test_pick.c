#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "operator/api/pick.h"

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

static size_t pick_view(struct hvd_strview text, const char *shape, char *out)
{
    struct shapes shapes = {0};
    char *at = shapes.text;
    size_t len;

    (void)snprintf(shapes.text, sizeof(shapes.text), "%s", shape);
    len = hvd_json_pick(text, parse(&shapes, &at), out);
    assert_true(len <= text.len);
    return len;
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
        (void)snprintf(out, sizeof(out), "%s", rows[i].text); /* and in place */
        assert_true(pick(out, rows[i].shape, out) > 0);
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
    for (int i = 0; i < 5000; i++) {
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
        cmocka_unit_test(the_copy_is_what_pruning_the_tree_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
