/* A watch stream: the lines do not depend on how the network cut it, and each decodes or fails. */
#include "operator/api/json.h"
#include "operator/kube/codec.h"
#include "operator/kube/framer.h"
#include "tests/fuzz/fuzz.h"

#define LINE_MAX_BYTES ((size_t)1 << 16)

static uint64_t mix(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return (hash ^ 256) * 1099511628211u;
}

static hvd_status_t take_line(void *ctx, struct hvd_strview line)
{
    uint64_t *hash = ctx;
    struct hvd_watch_event event;
    struct hvd_err err = {0};

    *hash = mix(*hash, line.data, line.len);
    if (hvd_watch_decode(line, NULL, &event, &err) != HVD_OK) {
        MUST(err.msg[0]);
        return HVD_OK;
    }
    MUST(event.object && event.resource_version[0]);
    hvd_json_drop(event.doc);
    return HVD_OK;
}

static uint64_t lines_of(const char *text, size_t size, size_t piece)
{
    struct hvd_framer framer;
    uint64_t hash = 14695981039346656037u;

    hvd_framer_init(&framer, LINE_MAX_BYTES);
    for (size_t at = 0; at < size; at += piece) {
        const size_t len = size - at < piece ? size - at : piece;
        MUST(hvd_framer_feed(&framer, (struct hvd_strview){text + at, len}, take_line, &hash) ==
             HVD_OK);
    }
    hvd_framer_fini(&framer);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > LINE_MAX_BYTES)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    MUST(lines_of(text, size - 1, size) == lines_of(text, size - 1, data[0] % 16 + 1));
    free(text);
    return 0;
}
