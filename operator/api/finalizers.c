/*
 * Joins the finalizers of an object into one text, which messages show and code searches. Pure.
 */
#include "operator/api/finalizers.h"

#include <string.h>

#include "base/mem.h"

#define TEXT_MAX 256
#define SEPARATOR ", "
#define MORE "..."

/* Appends the name if there is room for it; false if not. */
static bool append(char text[TEXT_MAX + sizeof(MORE)], const char *name)
{
    const size_t len = strlen(text), n = strlen(name);
    const size_t n_separator = len ? strlen(SEPARATOR) : 0;

    if (n > TEXT_MAX || len + n_separator + n > TEXT_MAX - strlen(SEPARATOR MORE))
        return false;
    memcpy(text + len, SEPARATOR, n_separator);
    memcpy(text + len + n_separator, name, n + 1);
    return true;
}

hvd_status_t hvd_finalizers_text(const cJSON *meta, char **out)
{
    char text[TEXT_MAX + sizeof(MORE)] = "";
    const cJSON *item = NULL;
    char *made = NULL;
    bool is_whole = true;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(meta, "finalizers"))
    {
        const char *name = cJSON_GetStringValue((cJSON *)item);

        is_whole = is_whole && (!name || *name == '\0' || append(text, name));
    }
    if (!is_whole)
        memcpy(text + strlen(text), text[0] ? SEPARATOR MORE : MORE,
               text[0] ? sizeof(SEPARATOR MORE) : sizeof(MORE));
    if (text[0] == '\0')
        return HVD_OK;
    made = hvd_strdup(text);
    if (!made)
        return HVD_ERR_NOMEM;
    *out = made;
    return HVD_OK;
}

bool hvd_finalizers_has(const char *text, const char *name)
{
    const size_t n = strlen(name);

    while (text && *text) {
        const char *end = strstr(text, SEPARATOR);
        const size_t len = end ? (size_t)(end - text) : strlen(text);

        if (len == n && strncmp(text, name, n) == 0)
            return true;
        text = end ? end + strlen(SEPARATOR) : NULL;
    }
    return false;
}
