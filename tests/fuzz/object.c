/* Every kind of child from the API server, whatever it holds: projected or refused; and what is
 * read of it can be parsed when all of it can. */
#include "operator/api/json.h"
#include "operator/core/observe.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_object object;
    struct hvd_err err = {0};

    if (size < 1)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    hvd_json_use_base_memory();
    cJSON *document = cJSON_ParseWithLength(text, size - 1);
    const enum hvd_kind kind = (enum hvd_kind)(data[0] % HVD_N_KINDS);
    if (document && hvd_observe(kind, document, &object, &err) == HVD_OK) {
        MUST(object.meta.name && object.meta.namespace && object.meta.uid);
        hvd_object_fini(&object);
    }
    cJSON *parts = hvd_json_read((struct hvd_strview){text, size - 1}, hvd_kind_shape(kind));
    MUST(!document || parts);
    if (parts && hvd_observe(kind, parts, &object, &err) == HVD_OK)
        hvd_object_fini(&object);
    hvd_json_drop(parts);
    cJSON_Delete(document);
    free(text);
    return 0;
}
