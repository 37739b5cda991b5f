#ifndef HVD_TESTS_FUZZ_FUZZ_H
#define HVD_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry of a libFuzzer target: decodes the bytes; ends the process on a broken promise. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise is a crash, which libFuzzer reports with the input. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A terminated copy on the heap, so that reading past the end is seen; the caller's to free. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    MUST(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* cJSON takes any control character for white space, JSON does not. */
static inline bool fuzz_has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' && !memchr("\t\n\r", text[i], 3))
            return true;
    }
    return false;
}

#endif
