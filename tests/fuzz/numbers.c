/*
 * Any JSON: what is printed of it holds the same numbers in the same order, each as it was written,
 * and the same again when it is read again.
 */
#include <ctype.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/fuzz/fuzz.h"

/* The next number outside of strings; its length, 0 at the end. */
static size_t next(const char **at)
{
    bool is_text = false;

    for (; **at; ++*at) {
        const char c = **at;

        if (is_text && c == '\\' && (*at)[1])
            ++*at;
        else if (c == '"')
            is_text = !is_text;
        else if (!is_text && (c == '-' || isdigit((unsigned char)c)))
            return strspn(*at, "+-.eE0123456789");
    }
    return 0;
}

static void compare(const char *text, const char *printed)
{
    size_t n, m;

    do {
        n = next(&text);
        m = next(&printed);
        MUST(n == m && memcmp(text, printed, n) == 0);
        text += n;
        printed += n;
    } while (n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    cJSON *document = NULL, *again = NULL, *strict = NULL;

    hvd_json_use_base_memory();
    if (hvd_json_parse(text, &document) == HVD_OK) {
        char *printed = hvd_print_json(document), *twice;

        MUST(printed);
        /* cJSON accepts what follows a document. */
        if ((strict = cJSON_ParseWithOpts(text, NULL, true)) != NULL)
            compare(text, printed);
        MUST(hvd_json_parse(printed, &again) == HVD_OK);
        twice = hvd_print_json(again);
        MUST(twice && strcmp(printed, twice) == 0);
        cJSON_free(printed);
        cJSON_free(twice);
    }
    cJSON_Delete(strict);
    cJSON_Delete(again);
    cJSON_Delete(document);
    free(text);
    return 0;
}
