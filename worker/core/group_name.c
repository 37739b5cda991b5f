/*
 * Names of tensors in groups; see group_name.h. Each lookup in a table of names calls these
 * functions, so they reject other names by their first bytes. Pure.
 */
#include "worker/core/group_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "grouped_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define DIGITS_MAX 9

/* Cuts the number off the end of the text. False when there is none, or it has leading zeros or
 * too many digits. */
static bool cut_number(struct hvd_strview *text, uint32_t *out)
{
    size_t at = text->len;
    uint32_t number = 0;

    while (at > 0 && text->data[at - 1] >= '0' && text->data[at - 1] <= '9')
        at--;
    const size_t n_digits = text->len - at;
    if (n_digits == 0 || n_digits > DIGITS_MAX || (n_digits > 1 && text->data[at] == '0'))
        return false;
    for (size_t i = at; i < text->len; i++)
        number = 10 * number + (uint32_t)(text->data[i] - '0');
    text->len = at;
    *out = number;
    return true;
}

static bool cut_text(struct hvd_strview *text, const char *end, size_t n)
{
    if (text->len < n || memcmp(text->data + text->len - n, end, n) != 0)
        return false;
    text->len -= n;
    return true;
}

bool hvd_group_name_parse(struct hvd_strview name, struct hvd_group_name *out)
{
    struct hvd_group_name found = {.base = name};

    if (name.len <= PREFIX_LEN || memcmp(name.data, PREFIX, PREFIX_LEN) != 0)
        return false;
    if (!cut_number(&found.base, &found.n) || !cut_text(&found.base, "of", 2) ||
        !cut_number(&found.base, &found.i) || !cut_text(&found.base, "_", 1) ||
        found.base.len <= PREFIX_LEN)
        return false;
    if (found.i == 0 || found.i > (found.n > 0 ? found.n : 1))
        return false;
    *out = found;
    return true;
}

struct hvd_strview hvd_group_name_key(struct hvd_strview name)
{
    struct hvd_group_name group;

    if (hvd_group_name_parse(name, &group) && group.i == 1)
        name.len = group.base.len + sizeof("_1of") - 1;
    return name;
}

bool hvd_group_name_is_head(struct hvd_strview name)
{
    return hvd_group_name_key(name).len < name.len;
}

struct hvd_strview hvd_group_name_of(const struct hvd_group_name *group, uint32_t i, uint32_t n,
                                     char *text, size_t size)
{
    const int len = snprintf(text, size, "%.*s_%" PRIu32 "of%" PRIu32, (int)group->base.len,
                             group->base.data, i, n);

    return (struct hvd_strview){.data = text,
                                .len = len > 0 && (size_t)len < size ? (size_t)len : 0};
}
