/*
 * Decodes the envelopes of list and watch answers. Pure. Nothing of the API server's input is taken
 * for granted: an answer that lacks a required part is an error, never a crash.
 */
#include "operator/kube/codec.h"

#include <string.h>

#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/kube/api.h"

static hvd_status_t decode_error(const cJSON *object, struct hvd_err *err)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(object, "code");
    int http = cJSON_IsNumber(code) ? code->valueint : 0;
    const char *text = hvd_kube_api_text(object, "message");

    if (http == 410)
        return HVD_FAIL(err, HVD_ERR_GONE, http, "the API server answered: %s", text);
    return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, http, "the API server answered: HTTP %d: %s", http,
                    text);
}

static hvd_status_t decode_event(cJSON *doc, struct hvd_watch_event *out, struct hvd_err *err)
{
    const char *type = hvd_kube_api_text(doc, "type");
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(doc, "object");
    const char *version =
        hvd_kube_api_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "resourceVersion");
    hvd_watch_event_type_t t;

    if (strcmp(type, "ERROR") == 0)
        return decode_error(object, err);
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
        t = HVD_WATCH_PUT;
    else if (strcmp(type, "DELETED") == 0)
        t = HVD_WATCH_REMOVE;
    else if (strcmp(type, "BOOKMARK") == 0)
        t = HVD_WATCH_BOOKMARK;
    else
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "watch event of unknown type \"%.32s\"", type);
    if (!*version)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "watch event %s without a resourceVersion", type);
    *out = (struct hvd_watch_event){t, object, version, doc};
    return HVD_OK;
}

hvd_status_t hvd_kube_codec_watch(struct hvd_strview copy, struct hvd_watch_event *out,
                                  struct hvd_err *err)
{
    cJSON *doc = NULL;
    hvd_status_t st = hvd_object_parse(copy, true, &doc);

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "a line of the watch stream: %s",
                        st == HVD_ERR_NOMEM ? "out of memory" : "it is not JSON");
    st = decode_event(doc, out, err);
    if (st != HVD_OK)
        hvd_json_drop(doc);
    return st;
}

hvd_status_t hvd_kube_codec_feed(struct hvd_picker *picker, struct hvd_strview bytes)
{
    hvd_status_t st = HVD_OK;

    while (bytes.len && st == HVD_OK) {
        const char *end = memchr(bytes.data, '\n', bytes.len);
        struct hvd_strview piece = {bytes.data, end ? (size_t)(end - bytes.data) : bytes.len};

        st = hvd_picker_feed(picker, piece);
        if (!end)
            break;
        if (st == HVD_OK)
            st = hvd_picker_end(picker);
        bytes.data += piece.len + 1;
        bytes.len -= piece.len + 1;
    }
    return st;
}

hvd_status_t hvd_kube_codec_list(const cJSON *doc, struct hvd_list_page *out, struct hvd_err *err)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(doc, "metadata");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(doc, "items");
    const char *version = hvd_kube_api_text(metadata, "resourceVersion");

    /* Without items an answer would make all objects look removed; null means none. */
    if (!*version || (!cJSON_IsArray(items) && !cJSON_IsNull(items)))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the answer is not a list");
    *out = (struct hvd_list_page){version, hvd_kube_api_text(metadata, "continue")};
    return HVD_OK;
}
