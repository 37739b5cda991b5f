#ifndef HVD_TESTS_UNIT_WORKER_TELEMETRY_SUPPORT_H
#define HVD_TESTS_UNIT_WORKER_TELEMETRY_SUPPORT_H

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include <stdio.h>

#define FILE_MAX ((size_t)32 << 20)

/* The file's content, terminated; NULL when it cannot be read. The caller's to free. */
static inline char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t len = 0;
    char *text = calloc(1, FILE_MAX);

    if (file && text)
        len = fread(text, 1, FILE_MAX - 1, file);
    if (file)
        fclose(file);
    if (file && text && len < FILE_MAX - 1)
        return text;
    free(text);
    return NULL;
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
