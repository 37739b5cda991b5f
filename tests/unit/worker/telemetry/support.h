#ifndef HVD_TESTS_UNIT_WORKER_TELEMETRY_SUPPORT_H
#define HVD_TESTS_UNIT_WORKER_TELEMETRY_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* The file's content, terminated; NULL when it cannot be read. The caller's to free. */
static inline char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;

    for (size_t room = 1 << 16; file && !feof(file) && !ferror(file); room *= 2) {
        char *more = realloc(text, room);
        if (!more)
            break;
        text = more;
        len += fread(text + len, 1, room - 1 - len, file);
        text[len] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

/* The file as one JSON value with nothing but white space behind it; NULL when it is none. */
static inline cJSON *parse_file(const char *path)
{
    char *text = read_file(path);
    const char *end = NULL;
    cJSON *json = text ? cJSON_ParseWithOpts(text, &end, 1) : NULL;

    free(text);
    return json;
}

#endif
