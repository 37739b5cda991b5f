/*
 * Names of files that every rank writes for itself.
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
    const char *gap = strstr(pattern, "%d");
    const char *file = strrchr(pattern, '/');
    const char *rest = gap ? gap + 2 : NULL;

    if (!gap) {
        file = file ? file + 1 : pattern;
        gap = strrchr(file, '.');
        if (!gap || gap == file)
            gap = pattern + strlen(pattern);
        rest = gap;
    }
    const int n = snprintf(out, size, "%.*s%s%d%s", (int)(gap - pattern), pattern,
                           rest == gap ? "." : "", rank, rest);
    return n >= 0 && (size_t)n < size;
}
