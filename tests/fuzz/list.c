/* A page of a list: its items do not depend on how the network cut it, and each is read or refused.
 */
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/api/shape.h"
#include "operator/core/observe/observe.h"
#include "operator/kube/codec.h"
#include "tests/fuzz/fuzz.h"

struct seen {
    enum hvd_kind kind;
    uint64_t hash;
    size_t n_items;
};

static void take_item(const struct seen *seen, const cJSON *item)
{
    struct hvd_object object;
    struct hvd_err err = {0};

    if (hvd_observe(seen->kind, item, &object, &err) == HVD_OK)
        hvd_observe_object_fini(&object);
    else
        MUST(err.msg[0]);
}

static hvd_status_t take(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct seen *seen = ctx;
    struct hvd_list_page page;
    struct hvd_err err = {0};
    cJSON *document = NULL;

    MUST(copy.data[copy.len] == '\0');
    for (size_t i = 0; i < copy.len; i++)
        seen->hash = (seen->hash ^ (unsigned char)copy.data[i]) * 1099511628211u;
    seen->hash = (seen->hash ^ 256) * 1099511628211u;
    if (is_item && hvd_object_parse(copy, false, &document) == HVD_OK)
        take_item(seen, document);
    else if (!is_item && hvd_json_read(copy, &document) == HVD_OK &&
             hvd_kube_codec_list(document, &page, &err) == HVD_OK)
        MUST(page.resource_version[0] && page.continue_token);
    hvd_json_drop(document);
    seen->n_items += is_item;
    return HVD_OK;
}

static hvd_status_t pick(const char *text, size_t size, size_t piece, struct seen *seen)
{
    const struct hvd_shape page[] = {
        {"metadata", NULL}, {"items", hvd_shape_of_kind(seen->kind)}, {NULL, NULL}};
    struct hvd_pick_options options = hvd_shape_pick(seen->kind);
    struct hvd_picker picker;
    hvd_status_t st = HVD_OK;

    options.shape = page;
    options.has_items = true;
    options.max_bytes = 256;
    options.take = take;
    options.ctx = seen;
    hvd_picker_init(&picker, &options);
    for (size_t at = 0; at < size && st == HVD_OK; at += piece)
        st = hvd_picker_feed(
            &picker, (struct hvd_strview){text + at, size - at < piece ? size - at : piece});
    if (st == HVD_OK)
        st = hvd_picker_end(&picker);
    hvd_picker_fini(&picker);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const enum hvd_kind kind = (enum hvd_kind)(data[0] % HVD_N_KINDS);
    struct seen whole = {.kind = kind}, pieces = {.kind = kind};
    char *text = fuzz_text(data + 1, size - 1);
    cJSON *document = cJSON_ParseWithLengthOpts(text, size, NULL, true);
    const bool is_json = document && !fuzz_has_control(text, size - 1);
    const hvd_status_t st = pick(text, size - 1, size, &whole);
    const hvd_status_t st_pieces = pick(text, size - 1, data[0] / HVD_N_KINDS % 8 + 1, &pieces);
    /* Of a page that is no JSON, how soon that is seen depends on the cut. */
    MUST(!is_json || st == st_pieces);
    MUST(!is_json || (whole.hash == pieces.hash && whole.n_items == pieces.n_items));
    cJSON_Delete(document);
    free(text);
    return 0;
}
