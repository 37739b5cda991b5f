/*
 * The report as a page: bars of where the time went, the typical step as a picture, who was waited
 * for, and the tensors that took the most. Everything is in the page itself, without scripts; what
 * comes from a timeline is escaped.
 */
#include "worker/launch/timeline/page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "worker/launch/timeline/page_internal.h"

#define RANKS_SHOWN 64
#define MATRIX_RANKS 32
#define ROWS_SHOWN 30
#define WIDTH 900.0
#define LANE 22.0
#define LEFT 70.0 /* of the picture: the names of the ranks */
#define TICKS 6

static const struct {
    const char *id;
    const char *name;
    const char *meaning;
} classes[HVD_TL_CLASSES] = {
    [HVD_TL_MOVING] = {"mo", "moving", "data is on its way or being reduced"},
    [HVD_TL_COPYING] = {"co", "copying", "into and out of buffers"},
    [HVD_TL_QUEUED] = {"qu", "queued", "agreed, but behind other tensors"},
    [HVD_TL_NEGOTIATING] = {"ne", "negotiating", "all ranks have asked, the answer is on its way"},
    [HVD_TL_WAITING] = {"wa", "waiting for a rank", "a rank has not asked for it yet"},
    [HVD_TL_IDLE] = {"id", "nothing outstanding", "the program computes, or does something else"},
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
static const char style[] =
    "Where the time went</title>\n<style>\n"
    ":root{color-scheme:light dark;--mo:#2a7fd4;--co:#7b5ec6;--qu:#e0b23c;--ne:#e07b39;"
    "--wa:#cf3f4f;--id:#c9ced6;--bw:#3d9a5f}\n"
    "@media(prefers-color-scheme:dark){:root{--id:#454c57}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}\n"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{padding:.2em .6em;text-align:right;border-bottom:1px solid "
    "#8884}td{white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left}\n.names "
    "td:first-child{white-space:normal;overflow-wrap:anywhere}\n"
    ".bar{display:flex;height:1.1em;min-width:220px}.bar i{display:block}\n"
    ".key span{margin-right:1.2em;white-space:nowrap}"
    ".key i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}\n"
    ".mo{background:var(--mo);fill:var(--mo)}.co{background:var(--co);fill:var(--co)}"
    ".qu{background:var(--qu);fill:var(--qu)}.ne{background:var(--ne);fill:var(--ne)}"
    ".wa{background:var(--wa);fill:var(--wa)}.id{background:var(--id);fill:var(--id)}"
    ".bw{background:var(--bw);fill:var(--bw)}\n"
    "svg{width:100%;min-width:900px;height:auto}svg text{font:11px "
    "system-ui,sans-serif;fill:currentColor}svg line{stroke:#8886}\n"
    ".wide{overflow-x:auto}.about{display:grid;grid-template-columns:max-content 1fr;"
    "gap:0 1em;margin:0}.about dd{margin:0;overflow-wrap:anywhere}\n"
    "@media(max-width:960px){body{margin:1em auto}table{display:block;overflow-x:auto}"
    ".bar{min-width:120px}.names td:first-child{min-width:10em}}\n"
    ".note{border-left:4px solid var(--wa);padding:.2em .8em}.dim{opacity:.7}\n"
    "</style></head><body>\n";

/* --- Small things ------------------------------------------------------------------------------
 */

/* A time with three digits that matter: "1.23 ms". */
static hvd_status_t put_time(struct hvd_buf *out, double ns)
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

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* The name of a timeline: "rank 3"; the one behind the last is all that have none. */
static hvd_status_t put_rank(const struct hvd_tl_page_out *p, size_t i)
{
    if (i >= p->m->n_ranks)
        return hvd_buf_puts(p->out, "other ranks");
    return hvd_buf_printf(p->out, "rank %" PRId64, p->m->ranks[i].rank);
}

static int64_t span_of(const struct hvd_tl_rank *rank)
{
    return rank->last_ns - rank->first_ns;
}

static hvd_status_t put_key(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_puts(p->out, "<p class=\"key\">");

    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<span title=\"%s\"><i class=\"%s\"></i>%s</span>\n",
                            classes[c].meaning, classes[c].id, classes[c].name);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</p>\n") : st;
}

/* --- Sections ----------------------------------------------------------------------------------
 */

static hvd_status_t put_summary(const struct hvd_tl_page_out *p)
{
    const struct hvd_tl_analysis *a = p->a;
    double total = 0;
    double sums[HVD_TL_CLASSES] = {0};
    size_t most = HVD_TL_MOVING;
    hvd_status_t st;

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
        st = put_time(p->out, a->n_ranks ? total / (double)a->n_ranks : 0);
    if (st == HVD_OK)
        st = hvd_buf_printf(
            p->out,
            " each on average, %zu collective%s, %zu tensor%s, %" PRId64 " step%s.\n"
            "For %.1f %% of the time nothing was outstanding. Of the rest most, %.1f %% of "
            "the time, was <b>%s</b>: %s.</p>\n",
            p->m->n_ops, p->m->n_ops == 1 ? "" : "s", a->n_rows, a->n_rows == 1 ? "" : "s",
            a->n_steps, a->n_steps == 1 ? "" : "s", percent(sums[HVD_TL_IDLE], total),
            percent(sums[most], total), classes[most].name, classes[most].meaning);
    return st;
}

static hvd_status_t put_share_row(const struct hvd_tl_page_out *p, size_t i)
{
    const struct hvd_tl_share *share = &p->a->shares[i];
    const double total = (double)span_of(&p->m->ranks[i]);
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><td>");

    if (st == HVD_OK)
        st = put_rank(p, i);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</td><td><div class=\"bar\">");
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        if (share->ns[c] > 0)
            st = hvd_buf_printf(p->out, "<i class=\"%s\" style=\"width:%.2f%%\"></i>",
                                classes[c].id, percent((double)share->ns[c], total));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</div></td>");
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<td>%.1f %%</td>", percent((double)share->ns[c], total));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<td>");
    if (st == HVD_OK)
        st = put_time(p->out, total);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</td></tr>\n") : st;
}

static hvd_status_t put_shares(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_puts(p->out, "<h2>Each rank</h2>\n");

    if (st == HVD_OK)
        st = put_key(p);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<table><tr><th></th><th></th>");
    for (size_t c = 0; c < HVD_TL_CLASSES && st == HVD_OK; c++)
        st = hvd_buf_printf(p->out, "<th>%s</th>", classes[c].name);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<th>all</th></tr>\n");
    for (size_t i = 0; i < p->a->n_ranks && i < RANKS_SHOWN && st == HVD_OK; i++)
        st = put_share_row(p, i);
    if (st == HVD_OK && p->a->n_ranks > RANKS_SHOWN)
        st =
            hvd_buf_printf(p->out, "<tr><td>and %zu more</td></tr>\n", p->a->n_ranks - RANKS_SHOWN);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</table>\n") : st;
}

/* One rank's lane in the picture of the typical step. */
static hvd_status_t put_lane(const struct hvd_tl_page_out *p, size_t i)
{
    const struct hvd_tl_share *share = &p->a->shares[i];
    const double length = (double)(p->a->step_to_ns - p->a->step_from_ns);
    const double y = (double)i * LANE;
    hvd_status_t st = hvd_buf_printf(p->out, "<text x=\"0\" y=\"%.0f\">", y + 13);

    if (st == HVD_OK)
        st = put_rank(p, i);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</text>");
    for (size_t k = 0; k < share->n_step && st == HVD_OK; k++) {
        const struct hvd_tl_stretch *s = &share->step[k];
        const double x = LEFT + WIDTH * (double)(s->from_ns - p->a->step_from_ns) / length;
        const double w = WIDTH * (double)(s->to_ns - s->from_ns) / length;

        st = hvd_buf_printf(
            p->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"14\"/>",
            classes[s->class_].id, x, y + 2, w);
        if (st == HVD_OK && s->is_backward)
            st = hvd_buf_printf(
                p->out, "<rect class=\"bw\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"3\"/>", x,
                y + 16, w);
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, "\n") : st;
}

/* Whether the picture has a green line anywhere. */
static bool has_green(const struct hvd_tl_page_out *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < p->a->shares[i].n_step; k++)
            if (p->a->shares[i].step[k].is_backward)
                return true;
    return false;
}

/* 1, 2 or 5 times a power of ten, so that at most TICKS of them fit behind 0. */
static double tick_of(double length)
{
    const double least = length / TICKS;
    const double power = pow(10, floor(log10(least)));

    return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

/* Lines through the lanes with their times below them, and what they are. */
static hvd_status_t put_axis(const struct hvd_tl_page_out *p, size_t n)
{
    const double length = (double)(p->a->step_to_ns - p->a->step_from_ns);
    const double bottom = (double)n * LANE;
    const double tick = tick_of(length);
    hvd_status_t st = HVD_OK;

    for (int i = 0; i <= TICKS && i * tick <= length && st == HVD_OK; i++) {
        const double x = LEFT + WIDTH * i * tick / length;

        st = hvd_buf_printf(p->out,
                            "<line x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%.0f\"/>"
                            "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">",
                            x, x, bottom + 4, x, bottom + 16,
                            x > LEFT + WIDTH - 30 ? "end"
                            : i > 0               ? "middle"
                                                  : "start");
        if (st == HVD_OK)
            st = i == 0 ? hvd_buf_puts(p->out, "0") : put_time(p->out, i * tick);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</text>\n");
    }
    return st == HVD_OK ? hvd_buf_printf(p->out,
                                         "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">time "
                                         "since the step began</text></svg></div>\n",
                                         LEFT + WIDTH / 2, bottom + 31)
                        : st;
}

static hvd_status_t put_step(const struct hvd_tl_page_out *p)
{
    const size_t n = p->a->n_ranks < MATRIX_RANKS ? p->a->n_ranks : MATRIX_RANKS;
    hvd_status_t st;

    if (p->a->step_to_ns <= p->a->step_from_ns)
        return HVD_OK;
    st =
        hvd_buf_puts(p->out, "<h2>A typical step</h2>\n<p>Of all steps the one of middle length, ");
    if (st == HVD_OK)
        st = put_time(p->out, (double)(p->a->step_to_ns - p->a->step_from_ns));
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, ". A step begins where a tensor comes again.");
    if (st == HVD_OK && has_green(p, n))
        st = hvd_buf_printf(p->out, " The green line: %s.",
                            p->a->has_backward ? "backward, as marked"
                                               : "from the first to the last tensor handed out");
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</p>\n");
    if (st == HVD_OK)
        st = put_key(p);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out,
                            "<div class=\"wide\"><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                            "aria-label=\"The ranks in a typical step\">\n",
                            WIDTH + LEFT + 5, (double)n * LANE + 36);
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = put_lane(p, i);
    return st == HVD_OK ? put_axis(p, n) : st;
}

/* Whether ranks without a timeline were waited for: then they have a column. */
static bool has_others(const struct hvd_tl_page_out *p)
{
    bool has = p->a->n_ranks > MATRIX_RANKS || p->a->n_last[p->a->n_ranks] > 0;

    for (size_t i = 0; i < p->a->n_ranks; i++)
        has = has || p->a->waited_ns[i * (p->a->n_ranks + 1) + p->a->n_ranks] > 0;
    return has;
}

/* One rank that waited, and for whom. */
static hvd_status_t put_waiter(const struct hvd_tl_page_out *p, size_t i, size_t n,
                               size_t n_columns)
{
    const double *waited = &p->a->waited_ns[i * (p->a->n_ranks + 1)];
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><td>");

    if (st == HVD_OK)
        st = put_rank(p, i);
    for (size_t k = 0; k < n_columns && st == HVD_OK; k++) {
        st = hvd_buf_puts(p->out, "</td><td>");
        if (st == HVD_OK && waited[k < n ? k : p->a->n_ranks] > 0)
            st = put_time(p->out, waited[k < n ? k : p->a->n_ranks]);
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, "</td></tr>\n") : st;
}

static hvd_status_t put_waits(const struct hvd_tl_page_out *p)
{
    const size_t n = p->a->n_ranks < MATRIX_RANKS ? p->a->n_ranks : MATRIX_RANKS;
    const size_t n_columns = n + has_others(p);
    hvd_status_t st = hvd_buf_puts(p->out, "<h2>Waiting for whom</h2>\n");

    if (st == HVD_OK && p->a->n_groups == 0)
        return hvd_buf_puts(p->out, "<p>The timelines do not tell: there is one of a single rank, "
                                    "and it has no ticks of others.</p>\n");
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<p>How long a rank (line) had nothing to do but wait for "
                                  "another (column) to ask for the same tensor.</p>\n"
                                  "<table><tr><th></th>");
    for (size_t k = 0; k < n_columns && st == HVD_OK; k++) {
        st = hvd_buf_puts(p->out, "<th>");
        if (st == HVD_OK)
            st = put_rank(p, k < n ? k : p->a->n_ranks);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</th>");
    }
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</tr>\n");
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = put_waiter(p, i, n, n_columns);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "<tr><td>was the last</td>");
    for (size_t k = 0; k < n_columns && st == HVD_OK; k++)
        st = hvd_buf_printf(
            p->out, "<td>%.1f %%</td>",
            percent((double)p->a->n_last[k < n ? k : p->a->n_ranks], (double)p->a->n_groups));
    return st == HVD_OK ? hvd_buf_puts(p->out, "</tr></table>\n") : st;
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
        return hvd_buf_puts(p->out, p->a->n_steps == 1 ? "One step is too few to tell it by.</p>\n"
                                                       : "There are no steps to tell it by.</p>\n");
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, "%.1f %% of the time in which data moved, ",
                            percent(beside, moving));
    if (st == HVD_OK)
        st = put_time(p->out, beside);
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, " of ");
    if (st == HVD_OK)
        st = put_time(p->out, moving);
    if (st == HVD_OK)
        st = hvd_buf_puts(
            p->out, p->a->has_backward
                        ? " over all ranks, lay within backward, as marked.</p>\n"
                        : " over all ranks, lay between the first and the last tensor that the "
                          "program handed out in a step: for gradients, while backward still "
                          "ran.</p>\n");
    return st;
}

static hvd_status_t put_row(const struct hvd_tl_page_out *p, const struct hvd_tl_row *row)
{
    const double n = (double)row->n;
    const double times[] = {row->waiting_ns / n, row->negotiating_ns / n, row->queued_ns / n,
                            row->moving_ns / n};
    hvd_status_t st = hvd_buf_puts(p->out, "<tr><td>");

    if (st == HVD_OK)
        st = hvd_tl_put_escaped(p->out, p->m->tensors[row->tensor].name);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, "</td><td>%" PRId64 "</td><td>", row->n);
    if (st == HVD_OK && row->n_sized > 0)
        st = put_bytes(p->out, row->bytes / (double)row->n_sized);
    for (size_t i = 0; i < 4 && st == HVD_OK; i++) {
        st = hvd_buf_puts(p->out, "</td><td>");
        if (st == HVD_OK)
            st = put_time(p->out, times[i]);
    }
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "</td></tr>\n");
    return st;
}

static hvd_status_t put_tensors(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = hvd_buf_printf(
        p->out,
        "<h2>Tensors</h2>\n<p>The %s by time, each on average over its collectives and "
        "ranks.</p>\n<table "
        "class=\"names\"><tr><th></th><th>times</th><th>size</th><th>waiting</th>"
        "<th>negotiating</th><th>queued</th><th>moving</th></tr>\n",
        p->a->n_rows > ROWS_SHOWN ? "first 30" : "tensors");

    for (size_t i = 0; i < p->a->n_rows && i < ROWS_SHOWN && st == HVD_OK; i++)
        st = put_row(p, &p->a->rows[i]);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</table>\n") : st;
}

/* What makes the numbers less sure. */
static hvd_status_t put_notes(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < p->m->n_ranks && st == HVD_OK; i++) {
        const struct hvd_tl_rank *rank = &p->m->ranks[i];

        if (rank->n_damaged + rank->n_dropped + rank->n_stalls == 0)
            continue;
        st = hvd_buf_puts(p->out, "<p class=\"note\">");
        if (st == HVD_OK)
            st = put_rank(p, i);
        if (st == HVD_OK)
            st = hvd_buf_printf(p->out,
                                ": %" PRId64 " records could not be read, %" PRId64
                                " events came too fast to be written, %" PRId64
                                " stalls, losses or failures. ",
                                rank->n_damaged, rank->n_dropped, rank->n_stalls);
        if (st == HVD_OK)
            st = hvd_tl_put_escaped(p->out, rank->trouble);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, "</p>\n");
    }
    if (st == HVD_OK && p->a->n_odd > 0)
        st = hvd_buf_printf(p->out,
                            "<p class=\"note\">%" PRId64 " of %" PRId64
                            " collectives do not fit together between the ranks and count as "
                            "negotiating: events are missing, or a timeline began later.</p>\n",
                            p->a->n_odd, p->a->n_groups);
    return st;
}

hvd_status_t hvd_tl_page(const struct hvd_tl_model *model, const struct hvd_tl_analysis *analysis,
                         const struct hvd_tl_about *about, struct hvd_buf *out)
{
    static hvd_status_t (*const sections[])(const struct hvd_tl_page_out *) = {
        put_summary, hvd_tl_put_about, put_notes,   put_shares,
        put_step,    put_waits,        put_overlap, put_tensors};
    const struct hvd_tl_page_out p = {.m = model, .a = analysis, .about = about, .out = out};
    hvd_status_t st = hvd_buf_puts(out, head);

    if (st == HVD_OK)
        st = hvd_tl_put_title(&p);
    if (st == HVD_OK)
        st = hvd_buf_puts(out, style);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && st == HVD_OK; i++)
        st = sections[i](&p);
    if (st == HVD_OK)
        st = hvd_buf_puts(
            out,
            "<p class=\"dim\">Each moment of a rank counts once, for the first of the kinds in "
            "the order of the legend. Clocks are aligned by the moments of agreement.</p>\n"
            "</body></html>\n");
    return st;
}
