/* A watch stream: the lines do not depend on how the network cut it, and each decodes or fails. */
#include "operator/api/json.h"
#include "operator/kube/codec.h"
#include "tests/fuzz/fuzz.h"

static uint64_t mix(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return (hash ^ 256) * 1099511628211u;
}

static hvd_status_t take_line(void *ctx, struct hvd_strview line, bool is_item)
{
    uint64_t *hash = ctx;
    struct hvd_watch_event event;
    struct hvd_err err = {0};

    MUST(!is_item);
    *hash = mix(*hash, line.data, line.len);
    if (hvd_kube_codec_watch(line, &event, &err) != HVD_OK) {
        MUST(err.msg[0]);
        return HVD_OK;
    }
    MUST(event.object && event.resource_version[0]);
    hvd_json_drop(event.doc);
    return HVD_OK;
}

static uint64_t lines_of(const char *text, size_t size, size_t piece)
{
    const struct hvd_shape line[] = {{"type", NULL}, {"object", NULL}, {NULL, NULL}};
    uint64_t hash = 14695981039346656037u;
    const struct hvd_pick_options options = {
        .shape = line, .max_bytes = 4096, .take = take_line, .ctx = &hash};
    struct hvd_picker picker;
    hvd_status_t st = HVD_OK;

    hvd_picker_init(&picker, &options);
    for (size_t at = 0; at < size && st == HVD_OK; at += piece) {
        const size_t len = size - at < piece ? size - at : piece;
        st = hvd_kube_codec_feed(&picker, (struct hvd_strview){text + at, len});
    }
    hvd_picker_fini(&picker);
    return hash ^ (uint64_t)(st + 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    MUST(lines_of(text, size - 1, size) == lines_of(text, size - 1, data[0] % 16 + 1));
    free(text);
    return 0;
}
