/* Writes the most expensive tensors as a table. A reader can unfold a long name. */
#include <inttypes.h>
#include <string.h>

#include "worker/timeline_report/page_internal.h"

#define ROWS_SHOWN 30
#define NAME_SHOWN 96 /* bytes of a name that is not folded */
#define NAME_BEGIN 56 /* of a folded name: its beginning */
#define NAME_END 32   /* and its end, where most names differ */

static hvd_status_t put_bytes(struct hvd_buf *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;

    while (bytes >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    return hvd_buf_printf(out, "%.*f %s", bytes >= 100 || unit == 0 ? 0 : 1, bytes, units[unit]);
}

/* Returns where a character begins, at or before that byte. */
static size_t whole(const char *name, size_t at)
{
    while (at > 0 && ((unsigned char)name[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static hvd_status_t put_name(struct hvd_buf *out, const char *name)
{
    const size_t len = strlen(name);
    char begin[NAME_BEGIN + 1] = "";
    hvd_status_t st;

    if (len <= NAME_SHOWN)
        return hvd_tl_head_escaped(out, name);
    memcpy(begin, name, whole(name, NAME_BEGIN));
    st = hvd_buf_puts(out, "<details><summary>");
    if (st == HVD_OK)
        st = hvd_tl_head_escaped(out, begin);
    if (st == HVD_OK)
        st = hvd_buf_puts(out, "&hellip;");
    if (st == HVD_OK)
        st = hvd_tl_head_escaped(out, name + whole(name, len - NAME_END));
    if (st == HVD_OK)
        st = hvd_buf_puts(out, "</summary>");
    if (st == HVD_OK)
        st = hvd_tl_head_escaped(out, name);
    return st == HVD_OK ? hvd_buf_puts(out, "</details>") : st;
}

static hvd_status_t put_row(const struct hvd_tl_page_out *p, const struct hvd_tl_row *row)
{
    const double n = (double)row->n;
    const double times[] = {row->waiting_ns / n, row->negotiating_ns / n, row->queued_ns / n,
                            row->moving_ns / n};
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><th scope=\"row\" class=\"name\">");

    if (st == HVD_OK)
        st = put_name(p->out, p->m->tensors[row->tensor].name);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, "</th><td>%" PRId64 "</td><td>", row->n);
    if (st == HVD_OK && row->n_sized > 0)
        st = put_bytes(p->out, row->bytes / (double)row->n_sized);
    for (size_t i = 0; i < 4 && st == HVD_OK; i++) {
        st = hvd_buf_puts(p->out, "</td><td>");
        if (st == HVD_OK)
            st = hvd_tl_page_time(p->out, times[i]);
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, "</td></tr>\n") : st;
}

hvd_status_t hvd_tl_tensors_put(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_printf(
        p->out,
        "<h2>Tensors</h2>\n<p>The %s by time, each on average over its collectives and "
        "ranks.</p>\n<table class=\"names fill\">\n<thead><tr><th scope=\"col\" class=\"name\">"
        "tensor</th><th scope=\"col\">times</th><th scope=\"col\">size</th>",
        p->a->n_rows > ROWS_SHOWN ? "first 30" : "tensors");
    static const uint8_t shown[] = {HVD_TL_WAITING, HVD_TL_NEGOTIATING, HVD_TL_QUEUED,
                                    HVD_TL_MOVING};

    for (size_t i = 0; i < sizeof(shown) && st == HVD_OK; i++)
        st = hvd_buf_printf(p->out,
                            "<th scope=\"col\"><span class=\"long\">%s</span><span class=\"short\" "
                            "aria-hidden=\"true\">%s</span></th>",
                            shown[i] == HVD_TL_WAITING ? "waiting" : hvd_tl_kinds[shown[i]].name,
                            hvd_tl_kinds[shown[i]].short_name);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</tr></thead>\n<tbody>");
    for (size_t i = 0; i < p->a->n_rows && i < ROWS_SHOWN && st == HVD_OK; i++)
        st = put_row(p, &p->a->rows[i]);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</tbody></table>\n") : st;
}
