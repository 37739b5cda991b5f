/*
 * Names of files of which every rank writes its own.
 */
#include "worker/telemetry/core/path.h"

#include <stdio.h>
#include <string.h>

bool hvd_path_names_rank(const char *pattern)
{
    return strstr(pattern, "%d") != NULL;
}

bool hvd_path_of_rank(const char *pattern, int rank, char *out, size_t size)
{
    const char *place = strstr(pattern, "%d");
    const char *file = strrchr(pattern, '/');
    const char *rest = place ? place + 2 : NULL;

    if (!place) {
        file = file ? file + 1 : pattern;
        place = strrchr(file, '.');
        if (!place || place == file)
            place = pattern + strlen(pattern);
        rest = place;
    }
    const int n = snprintf(out, size, "%.*s%s%d%s", (int)(place - pattern), pattern,
                           rest == place ? "." : "", rank, rest);
    return n >= 0 && (size_t)n < size;
}
