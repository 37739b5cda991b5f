/*
 * Slurm's compact lists. Node names are "prefix[ranges]suffix", separated by commas outside of
 * brackets. In a name with several brackets the later ones count faster. Numbers keep their leading
 * zeros. The list is expanded into the text of a -H list, which is then parsed as any other.
 */
#include "worker/launch/core/slurm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define LIST_MAX ((size_t)8 << 20)
#define BRACKETS_MAX 8

/* The numbers of tasks of the nodes, in their order. */
struct counts {
    struct hvd_strview rest;
    int64_t value;
    int64_t times;
};

/* A name being expanded. */
struct name {
    struct hvd_buf *list; /* "a:2,b:2" so far */
    struct counts *counts;
    size_t n_nodes;
    char text[HVD_HOST_NAME_MAX + 1];
    struct hvd_err *err;
};

static hvd_status_t next_count(struct counts *counts, struct hvd_err *err)
{
    const int64_t range[2] = {1, 1000000};
    struct hvd_strview item;
    struct hvd_strview times;
    hvd_status_t st;

    if (counts->times > 0) {
        counts->times--;
        return HVD_OK;
    }
    if (!counts->rest.data)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "there are more nodes than task counts");
    item = hvd_strview_cut(&counts->rest, ',');
    times = item;
    item = hvd_strview_cut(&times, '(');
    st = hvd_str_parse_int64(item, range, &counts->value, err);
    if (st == HVD_OK && times.data) {
        if (times.len < 3 || times.data[0] != 'x' || times.data[times.len - 1] != ')')
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a task count is not like 2(x3)");
        times = (struct hvd_strview){.data = times.data + 1, .len = times.len - 2};
        st = hvd_str_parse_int64(times, range, &counts->times, err);
        counts->times--;
    }
    return st;
}

static hvd_status_t expand(struct name *name, size_t len, struct hvd_strview rest, int depth);

static hvd_status_t add_node(struct name *name, size_t len)
{
    hvd_status_t st = next_count(name->counts, name->err);

    if (st < 0)
        return st;
    if (++name->n_nodes > HVD_SLURM_NODES_MAX)
        return HVD_FAIL(name->err, HVD_ERR_TOO_LARGE, 0, "there are more than %d nodes",
                        HVD_SLURM_NODES_MAX);
    st = hvd_buf_printf(name->list, "%s%.*s:%" PRId64, name->list->len ? "," : "", (int)len,
                        name->text, name->counts->value);
    return st < 0 ? HVD_FAIL(name->err, st, 0, "%s", hvd_status_str(st)) : HVD_OK;
}

/* Expands "01-03" or "7": the names with each of the numbers in place of the bracket. */
static hvd_status_t expand_range(struct name *name, size_t len, struct hvd_strview range,
                                 const struct hvd_strview rest, int depth)
{
    const int64_t limits[2] = {0, INT32_MAX};
    struct hvd_strview high = range;
    struct hvd_strview low = hvd_strview_cut(&high, '-');
    int64_t from = 0;
    int64_t to = 0;
    hvd_status_t st = hvd_str_parse_int64(low, limits, &from, name->err);

    if (st == HVD_OK)
        st = hvd_str_parse_int64(high.data ? high : low, limits, &to, name->err);
    if (st == HVD_OK && to < from)
        st = HVD_FAIL(name->err, HVD_ERR_INVALID, 0, "a range of nodes counts down");
    for (int64_t i = from; i <= to && st == HVD_OK; i++) {
        const int n = snprintf(name->text + len, sizeof(name->text) - len, "%0*" PRId64,
                               low.len > 20 ? 20 : (int)low.len, i);

        if (n < 0 || (size_t)n >= sizeof(name->text) - len)
            return HVD_FAIL(name->err, HVD_ERR_TOO_LARGE, 0, "the name of a node is too long");
        st = expand(name, len + (size_t)n, rest, depth + 1);
    }
    return st;
}

/* Expands all names that begin with the first len bytes of text and continue with rest. */
static hvd_status_t expand(struct name *name, size_t len, struct hvd_strview rest, int depth)
{
    const char *open = rest.len ? memchr(rest.data, '[', rest.len) : NULL;
    const size_t plain = open ? (size_t)(open - rest.data) : rest.len;
    const char *close = open ? memchr(open, ']', rest.len - plain) : NULL;
    struct hvd_strview ranges;
    hvd_status_t st = HVD_OK;

    if (len + plain >= sizeof(name->text))
        return HVD_FAIL(name->err, HVD_ERR_TOO_LARGE, 0, "the name of a node is too long");
    if (plain > 0)
        memcpy(name->text + len, rest.data, plain);
    len += plain;
    if (!open)
        return add_node(name, len);
    if (!close || depth >= BRACKETS_MAX)
        return HVD_FAIL(name->err, HVD_ERR_INVALID, 0, "a bracket is not closed");
    ranges = (struct hvd_strview){.data = open + 1, .len = (size_t)(close - open) - 1};
    rest =
        (struct hvd_strview){.data = close + 1, .len = rest.len - (size_t)(close + 1 - rest.data)};
    while (ranges.data && st == HVD_OK)
        st = expand_range(name, len, hvd_strview_cut(&ranges, ','), rest, depth);
    return st;
}

/* Cuts the next name off; a comma within brackets belongs to it. */
static struct hvd_strview cut_name(const char **at)
{
    struct hvd_strview name = {.data = *at};
    bool is_inside = false;

    for (; **at && (is_inside || **at != ','); ++*at)
        is_inside = **at == '[' || (is_inside && **at != ']');
    name.len = (size_t)(*at - name.data);
    *at += **at == ',';
    return name;
}

hvd_status_t hvd_slurm_hosts(const char *nodes, const char *tasks, struct hvd_hosts *out,
                             struct hvd_err *err)
{
    struct hvd_buf list = {0};
    struct counts counts = {.rest = hvd_strview_of(tasks)};
    struct name name = {.list = &list, .counts = &counts, .err = err};
    const char *at = nodes;
    hvd_status_t st = HVD_OK;

    hvd_buf_init(&list, LIST_MAX);
    do
        st = expand(&name, 0, cut_name(&at), 0);
    while (st == HVD_OK && *at);
    if (st == HVD_OK)
        st = hvd_hosts_parse_list(list.data, out, err);
    if (st < 0)
        st = HVD_WRAP(err, st, "Slurm's allocation \"%.200s\" with \"%.100s\" tasks", nodes, tasks);
    hvd_buf_fini(&list);
    return st;
}
