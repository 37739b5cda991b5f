/* The configuration file of horovodrun: what it becomes is what the command line takes. */
#include "worker/launch/config.h"
#include "tests/fuzz/fuzz.h"
#include "worker/launch/core/options.h"

#define WORDS_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct hvd_launch_around around = {.has_allocation = true};
    struct hvd_launch_options options;
    struct hvd_args words = {0};
    struct hvd_err err = {0};
    char *argv[WORDS_MAX] = {(char *)"horovodrun"};
    char *text = fuzz_text(data, size);

    if (hvd_launch_config_parse((struct hvd_strview){text, size}, &words, &err) == HVD_OK &&
        words.n < WORDS_MAX - 3) {
        for (size_t i = 0; i < words.n; i++)
            argv[i + 1] = words.items[i];
        argv[words.n + 1] = (char *)"program";
        MUST(hvd_launch_options_parse((int)words.n + 2, argv, &around, &options, &err) == HVD_OK);
        MUST(options.n_command == 1);
        hvd_launch_options_fini(&options);
    }
    hvd_args_fini(&words);
    free(text);
    return 0;
}
