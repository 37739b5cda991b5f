/*
 * JSON merge patch, JSON patch and label selectors. Pure.
 */
#include "tests/fake/apiserver/patch.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fake/apiserver/must.h"

void fake_merge_patch(cJSON *target, const cJSON *patch)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, patch)
    {
        cJSON *was = cJSON_GetObjectItemCaseSensitive(target, item->string);

        if (cJSON_IsNull(item)) {
            cJSON_DeleteItemFromObjectCaseSensitive(target, item->string);
        } else if (!cJSON_IsObject(item)) {
            fake_set(target, item->string, cJSON_Duplicate(item, true));
        } else if (cJSON_IsObject(was)) {
            fake_merge_patch(was, item);
        } else {
            cJSON *made = fake_must(cJSON_CreateObject());

            fake_merge_patch(made, item);
            fake_set(target, item->string, made);
        }
    }
}

/* ---- JSON patch ---- */

/* Decodes ~1 and ~0 of one part of a pointer in place. */
static void unescape(char *part)
{
    char *out = part;

    for (const char *in = part; *in; in++) {
        if (in[0] == '~' && (in[1] == '0' || in[1] == '1'))
            *out++ = *++in == '0' ? '~' : '/';
        else
            *out++ = *in;
    }
    *out = '\0';
}

static cJSON *child_of(cJSON *parent, const char *key)
{
    if (cJSON_IsArray(parent))
        return cJSON_GetArrayItem(parent, (int)strtol(key, NULL, 10));
    return cJSON_GetObjectItemCaseSensitive(parent, key);
}

/* The parent of what the pointer names, and the last part, which lies in pointer (changed). */
static cJSON *parent_of(cJSON *target, char *pointer, char **last)
{
    cJSON *at = target;
    char *part = pointer;

    if (*part != '/')
        return NULL;
    for (part++;; part = *last) {
        char *slash = strchr(part, '/');

        if (slash)
            *slash = '\0';
        unescape(part);
        *last = part;
        if (!slash || !at)
            return at;
        at = child_of(at, part);
        *last = slash + 1;
    }
}

static bool add_at(cJSON *parent, const char *key, const cJSON *value)
{
    if (cJSON_IsObject(parent)) {
        fake_set(parent, key, cJSON_Duplicate(value, true));
        return true;
    }
    if (!cJSON_IsArray(parent))
        return false;
    if (strcmp(key, "-") == 0)
        return cJSON_AddItemToArray(parent, fake_must(cJSON_Duplicate(value, true)));
    return cJSON_InsertItemInArray(parent, (int)strtol(key, NULL, 10),
                                   fake_must(cJSON_Duplicate(value, true)));
}

static bool apply_step(cJSON *parent, const char *key, const char *op, const cJSON *value)
{
    cJSON *was = child_of(parent, key);

    if (strcmp(op, "test") == 0)
        return was && value && cJSON_Compare(was, value, true);
    if (strcmp(op, "add") == 0)
        return value && add_at(parent, key, value);
    if (!was)
        return false;
    if (strcmp(op, "remove") == 0) {
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, was));
        return true;
    }
    if (strcmp(op, "replace") != 0 || !value)
        return false;
    if (cJSON_IsObject(parent)) {
        fake_set(parent, key, cJSON_Duplicate(value, true));
        return true;
    }
    return cJSON_ReplaceItemViaPointer(parent, was, fake_must(cJSON_Duplicate(value, true)));
}

bool fake_json_patch(cJSON *target, const cJSON *patch)
{
    const cJSON *step = NULL;

    if (!cJSON_IsArray(patch))
        return false;
    cJSON_ArrayForEach(step, patch)
    {
        const char *op = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(step, "op"));
        const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(step, "path"));
        char *pointer = fake_copy(path ? path : "");
        char *last = NULL;
        cJSON *parent = parent_of(target, pointer, &last);
        bool ok = op && parent && last &&
                  apply_step(parent, last, op, cJSON_GetObjectItemCaseSensitive(step, "value"));

        free(pointer);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- selectors ---- */

static char *trim(char *s)
{
    char *end;

    while (*s == ' ')
        s++;
    end = s + strlen(s);
    while (end > s && end[-1] == ' ')
        *--end = '\0';
    return s;
}

static const char *label(const cJSON *labels, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(labels, key));
}

/* "(x, y)" holds value. */
static bool is_among(char *set, const char *value)
{
    char *state = NULL;

    for (char *item = strtok_r(set, "(),", &state); item; item = strtok_r(NULL, "(),", &state))
        if (value && strcmp(trim(item), value) == 0)
            return true;
    return false;
}

static bool meets(char *term, const cJSON *labels)
{
    char *op;

    if ((op = strstr(term, " notin ")) != NULL) {
        *op = '\0';
        return !is_among(op + 7, label(labels, trim(term)));
    }
    if ((op = strstr(term, " in ")) != NULL) {
        *op = '\0';
        return is_among(op + 4, label(labels, trim(term)));
    }
    if ((op = strstr(term, "!=")) != NULL) {
        const char *value;

        *op = '\0';
        value = label(labels, trim(term));
        return !value || strcmp(value, trim(op + 2)) != 0;
    }
    if ((op = strchr(term, '=')) != NULL) {
        const char *value;

        *op = '\0';
        value = label(labels, trim(term));
        return value && strcmp(value, trim(op[1] == '=' ? op + 2 : op + 1)) == 0;
    }
    return *term == '!' ? !label(labels, trim(term + 1)) : label(labels, term) != NULL;
}

bool fake_selects(const char *selector, const cJSON *labels)
{
    char *copy = fake_copy(selector ? selector : "");
    bool ok = true;
    char *term = copy;

    while (ok && term && *term) {
        int depth = 0;
        char *end = term;

        while (*end && (*end != ',' || depth)) {
            depth += (*end == '(') - (*end == ')');
            end++;
        }
        if (*end)
            *end++ = '\0';
        ok = meets(trim(term), labels);
        term = end;
    }
    free(copy);
    return ok;
}
