/*
 * Writes the report as a page: bars of the time by class, the typical step as a picture, which
 * ranks waited for which, and the most expensive tensors. The page needs no other file and no
 * scripts. It escapes all text from timelines.
 */
#include "worker/timeline_report/page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "worker/timeline_report/page_internal.h"

#define RANKS_SHOWN 64

const struct hvd_tl_kind hvd_tl_kinds[HVD_TL_CLASSES] = {
    [HVD_TL_MOVING] = {"mo", "moving", "move", "data is on its way or being reduced"},
    [HVD_TL_COPYING] = {"co", "copying", "copy", "into and out of buffers"},
    [HVD_TL_QUEUED] = {"qu", "queued", "queue", "agreed, but behind other tensors"},
    [HVD_TL_NEGOTIATING] = {"ne", "negotiating", "agree",
                            "all ranks have asked, the answer is on its way"},
    [HVD_TL_WAITING] = {"wa", "waiting for a rank", "wait", "a rank has not asked for it yet"},
    [HVD_TL_IDLE] = {"id", "nothing outstanding", "none",
                     "the program computes, or does something else"},
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
static const char title_end[] = "Where the time went</title>\n";

/* --- Small things ----------------------------------------------------------------------------- */

hvd_status_t hvd_tl_page_time(struct hvd_buf *out, double ns)
{
    static const char *const units[] = {"ns", "&micro;s", "ms", "s"};
    size_t unit = 0;

    while (fabs(ns) >= 1000 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    return hvd_buf_printf(out, "%.*f %s",
                          fabs(ns) >= 100 || unit == 0 ? 0
                          : fabs(ns) >= 10             ? 1
                                                       : 2,
                          ns, units[unit]);
}

double hvd_tl_page_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

hvd_status_t hvd_tl_page_rank(const struct hvd_tl_page_out *p, size_t i)
{
    if (i >= p->m->n_ranks)
        return hvd_buf_puts(p->out, "other ranks");
    return hvd_buf_printf(p->out, "rank %" PRId64, p->m->ranks[i].rank);
}

static int64_t span_of(const struct hvd_tl_rank *rank)
{
    return rank->last_ns - rank->first_ns;
}

/* Writes the legend: the colours, their names and meanings. */
static hvd_status_t put_key(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_puts(p->out, "<ul class=\"key full\">");

    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<li><i class=\"%s\"></i><b>%s</b>: %s</li>\n",
                            hvd_tl_kinds[c].id, hvd_tl_kinds[c].name, hvd_tl_kinds[c].meaning);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</ul>\n") : st;
}

/* --- Sections --------------------------------------------------------------------------------- */

static hvd_status_t put_summary(const struct hvd_tl_page_out *p)
{
    const struct hvd_tl_analysis *a = p->a;
    double total = 0;
    double sums[HVD_TL_CLASSES] = {0};
    size_t most = HVD_TL_MOVING;
    hvd_status_t st;

    if (p->m->n_ops == 0)
        return hvd_buf_printf(p->out,
                              "<h1>Where the time went</h1>\n<p>%zu timeline%s, in which no "
                              "collective came to its end.</p>\n",
                              a->n_ranks, a->n_ranks == 1 ? "" : "s");
    for (size_t i = 0; i < a->n_ranks; i++)
        for (size_t c = 0; c < HVD_TL_CLASSES; c++) {
            sums[c] += (double)a->shares[i].ns[c];
            total += (double)a->shares[i].ns[c];
        }
    for (size_t c = 0; c < HVD_TL_IDLE; c++)
        most = sums[c] > sums[most] ? c : most;
    st = hvd_buf_printf(p->out, "<h1>Where the time went</h1>\n<p>%zu timeline%s, ", a->n_ranks,
                        a->n_ranks == 1 ? "" : "s");
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, a->n_ranks ? total / (double)a->n_ranks : 0);
    if (st == HVD_OK)
        st = hvd_buf_printf(
            p->out,
            " each on average, %zu collective%s, %zu tensor%s, %" PRId64 " step%s.\n"
            "For %.1f %% of the time nothing was outstanding. Of the rest most, %.1f %% of "
            "the time, was <b>%s</b>: %s.</p>\n",
            p->m->n_ops, p->m->n_ops == 1 ? "" : "s", a->n_rows, a->n_rows == 1 ? "" : "s",
            a->n_steps, a->n_steps == 1 ? "" : "s", hvd_tl_page_percent(sums[HVD_TL_IDLE], total),
            hvd_tl_page_percent(sums[most], total), hvd_tl_kinds[most].name,
            hvd_tl_kinds[most].meaning);
    return st;
}

static hvd_status_t put_share_row(const struct hvd_tl_page_out *p, size_t i)
{
    const struct hvd_tl_share *share = &p->a->shares[i];
    const double total = (double)span_of(&p->m->ranks[i]);
    hvd_status_t st = hvd_buf_puts(p->out, "<tr class=\"bars\"><th scope=\"row\" rowspan=\"2\">");

    if (st == HVD_OK)
        st = hvd_tl_page_rank(p, i);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out,
                            "</th><td colspan=\"%d\"><div class=\"bar\" aria-hidden=\"true\">",
                            HVD_TL_CLASSES + 1);
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        if (share->ns[c] > 0)
            st = hvd_buf_printf(p->out, "<i class=\"%s\" style=\"width:%.2f%%\"></i>",
                                hvd_tl_kinds[c].id,
                                hvd_tl_page_percent((double)share->ns[c], total));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</div></td></tr>\n<tr>");
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<td>%.1f</td>",
                            hvd_tl_page_percent((double)share->ns[c], total));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<td>");
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, total);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</td></tr>\n") : st;
}

static hvd_status_t put_shares(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_puts(
        p->out, "<h2>Each rank</h2>\n<p>Shares of the time of its timeline, in percent.</p>\n");

    if (st == HVD_OK)
        st = put_key(p);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out,
                          "<table class=\"shares fill\">\n<thead><tr><th scope=\"col\">%</th>");
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(
            p->out,
            "<th scope=\"col\"><i class=\"%s\"></i><span class=\"long\">%s</span><span "
            "class=\"short\" aria-hidden=\"true\">%s</span></th>",
            hvd_tl_kinds[c].id, hvd_tl_kinds[c].name, hvd_tl_kinds[c].short_name);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<th scope=\"col\">all</th></tr></thead>\n<tbody>");
    for (size_t i = 0; i < p->a->n_ranks && i < RANKS_SHOWN && st == HVD_OK; i++)
        st = put_share_row(p, i);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</tbody></table>\n");
    if (st == HVD_OK && p->a->n_ranks > RANKS_SHOWN)
        st = hvd_buf_printf(p->out, "<p>%zu more ranks have no line.</p>\n",
                            p->a->n_ranks - RANKS_SHOWN);
    return st;
}

static hvd_status_t put_overlap(const struct hvd_tl_page_out *p)
{
    double moving = 0;
    double beside = 0;
    hvd_status_t st = hvd_buf_puts(p->out, "<h2>Overlap</h2>\n<p>");

    for (size_t i = 0; i < p->a->n_ranks; i++) {
        moving += (double)p->a->shares[i].ns[HVD_TL_MOVING];
        beside += (double)p->a->shares[i].beside_ns;
    }
    if (st == HVD_OK && !p->a->has_backward && p->a->n_steps < 2)
        return hvd_buf_puts(p->out, p->a->n_steps == 1
                                        ? "One step is too few to measure it.</p>\n"
                                        : "There are no steps to measure it by.</p>\n");
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, "%.1f %% of the time in which data moved, ",
                            hvd_tl_page_percent(beside, moving));
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, beside);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, " of ");
    if (st == HVD_OK)
        st = hvd_tl_page_time(p->out, moving);
    if (st == HVD_OK)
        st = hvd_buf_puts(
            p->out, p->a->has_backward
                        ? " over all ranks, lay within backward, as marked.</p>\n"
                        : " over all ranks, lay between the first and the last tensor that the "
                          "program handed out in a step: for gradients, while backward still "
                          "ran.</p>\n");
    return st;
}

hvd_status_t hvd_tl_page(const struct hvd_tl_model *model, const struct hvd_tl_analysis *analysis,
                         const struct hvd_tl_about *about, struct hvd_buf *out)
{
    static hvd_status_t (*const sections[])(const struct hvd_tl_page_out *) = {
        put_summary,         hvd_tl_head_about, hvd_tl_notes_put, put_shares,
        hvd_tl_picture_step, hvd_tl_waits_put,  put_overlap,      hvd_tl_tensors_put};
    static const size_t n_sections = sizeof(sections) / sizeof(sections[0]);
    const struct hvd_tl_page_out p = {.m = model, .a = analysis, .about = about, .out = out};
    hvd_status_t st = hvd_buf_puts(out, head);

    if (st == HVD_OK)
        st = hvd_tl_head_title(&p);
    if (st == HVD_OK)
        st = hvd_buf_puts(out, title_end);
    if (st == HVD_OK)
        st = hvd_buf_puts(out, hvd_tl_style);
    if (st == HVD_OK)
        st = hvd_buf_puts(out, "</head><body><main>\n");
    /* Without a collective the page has only a summary, the head and the notes. */
    for (size_t i = 0; i < (model->n_ops > 0 ? n_sections : 3) && st == HVD_OK; i++)
        st = sections[i](&p);
    if (st == HVD_OK && model->n_ops > 0)
        st = hvd_buf_puts(
            out,
            "<p class=\"dim\">Each moment of a rank counts once, for the first of the kinds in "
            "the order of the legend. Clocks are aligned by the moments of agreement.</p>\n");
    return st == HVD_OK ? hvd_buf_puts(out, "</main></body></html>\n") : st;
}
