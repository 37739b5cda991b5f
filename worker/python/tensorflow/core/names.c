/* Names of tensors in the runtime, made from those of nodes in a graph of TensorFlow. Pure. */
#include "worker/python/tensorflow/core/names.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "grouped_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

struct hvd_strview hvd_tf_name_of(const struct hvd_tf_naming *from)
{
    struct hvd_strview name = from->node;

    if (from->given.len > 0)
        return from->given;
    if (from->is_eager)
        return (struct hvd_strview){.data = NULL, .len = 0};
    if (!from->is_scope_ignored)
        return name;
    for (size_t i = name.len; i > 0; i--)
        if (name.data[i - 1] == '/')
            return (struct hvd_strview){.data = name.data + i, .len = name.len - i};
    return name;
}

/* A name that has the prefix already gets no second one. */
static const char *prefix_of(struct hvd_strview name, int n)
{
    const bool has_prefix = name.len >= PREFIX_LEN && memcmp(name.data, PREFIX, PREFIX_LEN) == 0;

    return n > 0 && !has_prefix ? PREFIX : "";
}

/* As snprintf: returns the length without the terminator. */
static int write_name(struct hvd_strview name, int i, int n, char *out, size_t size)
{
    const char *prefix = prefix_of(name, n);

    if (n == 0)
        return snprintf(out, size, "%.*s", (int)name.len, name.data);
    return snprintf(out, size, "%s%.*s_%dof%d", prefix, (int)name.len, name.data, i + 1, n);
}

size_t hvd_tf_name_member_size(struct hvd_strview name, int n)
{
    if (name.len > HVD_TF_NAME_MAX)
        return 0;
    const int longest = write_name(name, n > 0 ? n - 1 : 0, n, NULL, 0);
    return longest > HVD_TF_NAME_MAX ? 0 : (size_t)longest + 1;
}

void hvd_tf_name_write(struct hvd_strview name, int i, int n, char *out, size_t size)
{
    (void)write_name(name, i, n, out, size);
}
