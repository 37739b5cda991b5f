/* A page of a list, and every object in it: read or refused. */
#include "operator/core/observe.h"
#include "operator/kube/codec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_list_page page;
    struct hvd_object object;
    struct hvd_err err = {0};
    const cJSON *item = NULL;

    if (size < 1)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    cJSON *document = cJSON_ParseWithLength(text, size - 1);
    if (document && hvd_list_decode(document, &page, &err) == HVD_OK) {
        MUST(page.items && page.resource_version[0] && page.continue_token);
        cJSON_ArrayForEach(item, page.items)
        {
            if (hvd_observe((enum hvd_kind)(data[0] % HVD_N_KINDS), item, &object, &err) == HVD_OK)
                hvd_object_fini(&object);
        }
    } else {
        MUST(!document || err.msg[0]);
    }
    cJSON_Delete(document);
    free(text);
    return 0;
}
