/*
 * Parses the copy of an API object. An object that cannot be parsed must not hide the others, nor
 * itself: the parts that identify it are then picked from its copy once more. Pure.
 */
#include "operator/api/object.h"

#include "operator/api/json.h"
#include "operator/api/shape.h"

struct result {
    cJSON *doc;
    bool is_event;
};

static hvd_status_t take_reduced(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct result *result = ctx;

    (void)is_item;
    return hvd_json_read(copy, &result->doc);
}

/* Picks the whole text; take parses its copy. */
static hvd_status_t pick(struct hvd_strview text, const struct hvd_pick_options *options)
{
    struct hvd_picker picker;
    hvd_status_t st;

    hvd_picker_init(&picker, options);
    st = hvd_picker_feed(&picker, text);
    if (st == HVD_OK)
        st = hvd_picker_end(&picker);
    hvd_picker_fini(&picker);
    return st;
}

static hvd_status_t parse_reduced(struct hvd_strview copy, bool has_status, struct result *result)
{
    const struct hvd_shape *object = hvd_shape_reduced(has_status);
    const struct hvd_shape event[] = {{"type", NULL}, {"object", object}, {NULL, NULL}};
    const struct hvd_pick_options options = {
        .shape = result->is_event ? event : object,
        .object = object,
        .max_bytes = HVD_KIND_OBJECT_MAX,
        .trouble = "it holds a value that is no JSON",
        .take = take_reduced,
        .ctx = result,
    };

    return pick(copy, &options);
}

hvd_status_t hvd_object_parse(struct hvd_strview copy, bool is_event, cJSON **out)
{
    struct result result = {NULL, is_event};
    hvd_status_t st = hvd_json_read(copy, &result.doc);

    if (st == HVD_ERR_INVALID)
        st = parse_reduced(copy, true, &result);
    if (st == HVD_ERR_INVALID)
        st = parse_reduced(copy, false, &result);
    if (st != HVD_OK)
        return st;
    if (!result.doc)
        return HVD_ERR_INVALID;
    *out = result.doc;
    return HVD_OK;
}

static hvd_status_t take_object(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct result *result = ctx;

    (void)is_item;
    return hvd_object_parse(copy, false, &result->doc);
}

hvd_status_t hvd_object_read(enum hvd_kind kind, struct hvd_strview text, cJSON **out)
{
    struct hvd_pick_options options = hvd_shape_pick(kind);
    struct result result = {NULL, false};
    hvd_status_t st;

    options.gates = NULL;
    options.take = take_object;
    options.ctx = &result;
    st = pick(text, &options);
    if (st == HVD_OK && !result.doc)
        st = HVD_ERR_INVALID;
    if (st != HVD_OK) {
        hvd_json_drop(result.doc);
        return st;
    }
    *out = result.doc;
    return HVD_OK;
}

const char *hvd_object_trouble(const cJSON *object)
{
    return cJSON_GetStringValue((cJSON *)hvd_json_get(object, HVD_PICK_UNREADABLE));
}
