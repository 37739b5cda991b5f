/* The environment that a wrapper gets from horovodrun: decoding undoes encoding. */
#include "worker/launch/core/environment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_args entries = {0}, again = {0};
    struct hvd_err err = {0};
    struct hvd_buf encoded;
    char *text = fuzz_text(data, size);

    hvd_buf_init(&encoded, (size_t)64 << 20);
    if (hvd_environment_decode(text, &entries, &err) == HVD_OK) {
        MUST(hvd_environment_encode(&entries, &encoded) == HVD_OK);
        MUST(hvd_environment_decode(encoded.data ? encoded.data : "", &again, &err) == HVD_OK);
        MUST(again.n == entries.n);
        for (size_t i = 0; i < again.n; i++)
            MUST(strcmp(again.items[i], entries.items[i]) == 0);
    }
    hvd_args_fini(&entries);
    hvd_args_fini(&again);
    hvd_buf_fini(&encoded);
    free(text);
    return 0;
}
