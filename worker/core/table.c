/*
 * The request table of one rank: the names that are pending here. It serves to reject a second
 * tensor of the same name, and to find the tensor of a plan's step. Pure; the caller serialises.
 */
#include "worker/core/table.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/core/names.h"

struct row {
    struct hvd_named named; /* first, so that pointers to the two convert */
    void *owner;
    char name[];
};

struct hvd_table {
    struct hvd_names rows;
};

hvd_status_t hvd_table_create(struct hvd_table **out, struct hvd_err *err)
{
    struct hvd_table *t = hvd_calloc(1, sizeof(*t));

    if (!t)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the request table");
    *out = t;
    return HVD_OK;
}

static void *remove_row(struct hvd_table *t, struct row *row)
{
    void *owner = row->owner;

    hvd_names_remove(&t->rows, &row->named);
    hvd_free(row);
    return owner;
}

void hvd_table_destroy(struct hvd_table *t)
{
    if (!t)
        return;
    while (t->rows.first)
        remove_row(t, (struct row *)t->rows.first);
    hvd_free(t);
}

static struct row *find(const struct hvd_table *t, struct hvd_strview name)
{
    return (struct row *)hvd_names_find(&t->rows, hvd_group_name_key(name));
}

hvd_status_t hvd_table_add(struct hvd_table *t, struct hvd_strview name, void *owner,
                           struct hvd_err *err)
{
    if (find(t, name))
        return HVD_FAIL(err, HVD_ERR_EXISTS, 0,
                        "Requested to allreduce, allgather, or broadcast a tensor with the same "
                        "name as another tensor that is currently being processed.  If you want to "
                        "request another tensor, use a different tensor name.");

    struct row *row = hvd_malloc(sizeof(*row) + name.len, 1);
    if (!row)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a pending tensor");
    row->owner = owner;
    name = hvd_group_name_key(name);
    memcpy(row->name, name.data, name.len);
    name.data = row->name;
    if (!hvd_names_add(&t->rows, name, &row->named)) {
        hvd_free(row);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a pending tensor");
    }
    return HVD_OK;
}

void *hvd_table_find(const struct hvd_table *t, struct hvd_strview name)
{
    struct row *row = find(t, name);

    return row ? row->owner : NULL;
}

void *hvd_table_take(struct hvd_table *t, struct hvd_strview name)
{
    struct row *row = find(t, name);

    return row ? remove_row(t, row) : NULL;
}

void *hvd_table_take_first(struct hvd_table *t)
{
    return t->rows.first ? remove_row(t, (struct row *)t->rows.first) : NULL;
}

void *hvd_table_first(const struct hvd_table *t)
{
    return t->rows.first ? ((struct row *)t->rows.first)->owner : NULL;
}

size_t hvd_table_count(const struct hvd_table *t)
{
    return hvd_names_count(&t->rows);
}
