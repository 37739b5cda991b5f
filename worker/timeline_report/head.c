/*
 * The head of the report: the program, the job, its hosts with their ranks, the files and the
 * origin of the page. It omits parts that a timeline lacks: those of older versions and of Horovod
 * name no program and no host.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "worker/timeline_report/page_internal.h"

#define FILES_SHOWN 8
#define PROGRAMS_SHOWN 8
#define HOSTS_SHOWN 16

hvd_status_t hvd_tl_head_escaped(struct hvd_buf *out, const char *text)
{
    hvd_status_t st = HVD_OK;

    for (; *text && st == HVD_OK; text++) {
        const char c = *text;

        st = c == '<'    ? hvd_buf_puts(out, "&lt;")
             : c == '>'  ? hvd_buf_puts(out, "&gt;")
             : c == '&'  ? hvd_buf_puts(out, "&amp;")
             : c == '"'  ? hvd_buf_puts(out, "&quot;")
             : c == '\'' ? hvd_buf_puts(out, "&#39;")
                         : hvd_buf_add(out, &c, 1);
    }
    return st;
}

/* Begins a term of the list, whose text follows, and ends the one before it. */
static hvd_status_t begin_term(const struct hvd_tl_page_out *p, const char *term)
{
    return hvd_buf_printf(p->out, "<dt>%s</dt><dd>", term);
}

static hvd_status_t end_term(const struct hvd_tl_page_out *p, hvd_status_t st)
{
    return st == HVD_OK ? hvd_buf_puts(p->out, "</dd>\n") : st;
}

/* --- The program ------------------------------------------------------------------------------ */

/* Returns the first timeline with the same program as the i-th one. */
static size_t first_with_program(const struct hvd_tl_model *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(m->ranks[k].program, m->ranks[i].program) == 0)
            return k;
    return i;
}

/* Lists the programs of the timelines, each once; *n: how many. Appends nothing if out is NULL. */
static hvd_status_t list_programs(const struct hvd_tl_model *m, struct hvd_buf *out, size_t *n)
{
    hvd_status_t st = HVD_OK;

    *n = 0;
    for (size_t i = 0; i < m->n_ranks && st == HVD_OK; i++) {
        if (!m->ranks[i].program[0] || first_with_program(m, i) < i)
            continue;
        if (out && *n > 0 && *n < PROGRAMS_SHOWN)
            st = hvd_buf_puts(out, ", ");
        if (out && *n < PROGRAMS_SHOWN && st == HVD_OK)
            st = hvd_tl_head_escaped(out, m->ranks[i].program);
        (*n)++;
    }
    if (out && *n > PROGRAMS_SHOWN && st == HVD_OK)
        st = hvd_buf_printf(out, " and %zu more", *n - PROGRAMS_SHOWN);
    return st;
}

static size_t count_programs(const struct hvd_tl_model *m)
{
    size_t n = 0;

    (void)!list_programs(m, NULL, &n);
    return n;
}

hvd_status_t hvd_tl_head_title(const struct hvd_tl_page_out *p)
{
    size_t n = count_programs(p->m);
    hvd_status_t st = n > 0 ? list_programs(p->m, p->out, &n) : HVD_OK;

    return st == HVD_OK && n > 0 ? hvd_buf_puts(p->out, ": ") : st;
}

static hvd_status_t put_programs(const struct hvd_tl_page_out *p)
{
    size_t n = count_programs(p->m);
    hvd_status_t st;

    if (n == 0)
        return HVD_OK;
    st = begin_term(p, n == 1 ? "program" : "programs");
    if (st == HVD_OK)
        st = list_programs(p->m, p->out, &n);
    return end_term(p, st);
}

/* --- The job ---------------------------------------------------------------------------------- */

/* Writes when the first timeline began; nothing if no timeline has its start time. */
static hvd_status_t put_beginning(const struct hvd_tl_page_out *p)
{
    int64_t first_us = -1;
    char text[32];
    struct tm tm;

    for (size_t i = 0; i < p->m->n_ranks; i++) {
        const int64_t us = p->m->ranks[i].epoch_us;
        first_us = us >= 0 && (first_us < 0 || us < first_us) ? us : first_us;
    }
    const time_t seconds = (time_t)(first_us / 1000000);
    if (first_us < 0 || !gmtime_r(&seconds, &tm) ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        return HVD_OK;
    return hvd_buf_printf(p->out, ", began %s", text);
}

static hvd_status_t put_job(const struct hvd_tl_page_out *p)
{
    hvd_status_t st = begin_term(p, "job");

    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, "%" PRId64 " rank%s", p->m->n_job, p->m->n_job == 1 ? "" : "s");
    if (st == HVD_OK && p->m->n_job > (int64_t)p->m->n_ranks)
        st = hvd_buf_printf(p->out, ", %zu of them with a timeline", p->m->n_ranks);
    if (st == HVD_OK)
        st = put_beginning(p);
    return end_term(p, st);
}

/* --- Its hosts -------------------------------------------------------------------------------- */

/* Writes the n-th host, and the beginning of its list of ranks. */
static hvd_status_t begin_host(const struct hvd_tl_page_out *p, const char *host, size_t n,
                               bool has_several)
{
    hvd_status_t st = hvd_buf_puts(p->out, n > 0 ? "; " : "");

    if (st == HVD_OK)
        st = hvd_tl_head_escaped(p->out, host);
    return st == HVD_OK ? hvd_buf_puts(p->out, has_several ? " (ranks " : " (rank ") : st;
}

/* Writes all hosts, as the timeline of rank 0 lists them; *n: how many. */
static hvd_status_t put_rank_hosts(const struct hvd_tl_page_out *p, size_t *n)
{
    const struct hvd_tl_host *hosts = p->m->hosts;
    hvd_status_t st = HVD_OK;

    *n = 0;
    for (size_t i = 0; i < p->m->n_hosts && st == HVD_OK; i++) {
        const bool goes_on = i + 1 < p->m->n_hosts && strcmp(hosts[i + 1].host, hosts[i].host) == 0;

        if (i > 0 && strcmp(hosts[i - 1].host, hosts[i].host) == 0)
            continue;
        if ((*n)++ >= HOSTS_SHOWN)
            continue;
        st = begin_host(p, hosts[i].host, *n - 1, goes_on || strpbrk(hosts[i].ranks, ",-"));
        if (st == HVD_OK)
            st = hvd_tl_head_escaped(p->out, hosts[i].ranks);
        if (st == HVD_OK)
            st = hvd_buf_puts(p->out, goes_on ? ", ...)" : ")");
    }
    return st;
}

/* Returns the next timeline of that host, from i on; n_ranks: none. */
static size_t next_of_host(const struct hvd_tl_model *m, size_t i, const char *host)
{
    while (i < m->n_ranks && strcmp(m->ranks[i].host, host) != 0)
        i++;
    return i;
}

/* Writes the ranks of a host's timelines as ranges, from the first one on. */
static hvd_status_t put_ranks_of(const struct hvd_tl_page_out *p, size_t first)
{
    const struct hvd_tl_model *m = p->m;
    const char *host = m->ranks[first].host;
    hvd_status_t st = HVD_OK;

    for (size_t i = first; i < m->n_ranks && st == HVD_OK;) {
        size_t last = i;
        size_t next = next_of_host(m, i + 1, host);

        while (next < m->n_ranks && m->ranks[next].rank == m->ranks[last].rank + 1) {
            last = next;
            next = next_of_host(m, next + 1, host);
        }
        st = hvd_buf_printf(p->out, "%s%" PRId64, i > first ? ", " : "", m->ranks[i].rank);
        if (st == HVD_OK && last > i)
            st = hvd_buf_printf(p->out, "-%" PRId64, m->ranks[last].rank);
        i = next;
    }
    return st == HVD_OK ? hvd_buf_puts(p->out, ")") : st;
}

/* Writes the hosts that the timelines themselves name; *n: how many. */
static hvd_status_t put_own_hosts(const struct hvd_tl_page_out *p, size_t *n)
{
    const struct hvd_tl_model *m = p->m;
    hvd_status_t st = HVD_OK;

    *n = 0;
    for (size_t i = 0; i < m->n_ranks && st == HVD_OK; i++) {
        const char *host = m->ranks[i].host;

        if (!host[0] || next_of_host(m, 0, host) < i || (*n)++ >= HOSTS_SHOWN)
            continue;
        st = begin_host(p, host, *n - 1, next_of_host(m, i + 1, host) < m->n_ranks);
        if (st == HVD_OK)
            st = put_ranks_of(p, i);
    }
    return st;
}

static bool names_hosts(const struct hvd_tl_model *m)
{
    bool does = m->n_hosts > 0;

    for (size_t i = 0; i < m->n_ranks && !does; i++)
        does = m->ranks[i].host[0] != '\0';
    return does;
}

static hvd_status_t put_hosts(const struct hvd_tl_page_out *p)
{
    size_t n = 0;
    hvd_status_t st;

    if (!names_hosts(p->m))
        return HVD_OK;
    st = begin_term(p, "hosts");
    if (st == HVD_OK)
        st = p->m->n_hosts > 0 ? put_rank_hosts(p, &n) : put_own_hosts(p, &n);
    if (st == HVD_OK && n > HOSTS_SHOWN)
        st = hvd_buf_printf(p->out, " and %zu more", n - HOSTS_SHOWN);
    return end_term(p, st);
}

/* --- The page itself -------------------------------------------------------------------------- */

static hvd_status_t put_files(const struct hvd_tl_page_out *p)
{
    const struct hvd_tl_about *about = p->about;
    hvd_status_t st;

    if (about->n_files == 0)
        return HVD_OK;
    st = begin_term(p, "files");
    for (size_t i = 0; i < about->n_files && i < FILES_SHOWN && st == HVD_OK; i++) {
        st = hvd_buf_puts(p->out, i ? ", " : "");
        if (st == HVD_OK)
            st = hvd_tl_head_escaped(p->out, about->files[i]);
    }
    if (st == HVD_OK && about->n_files > FILES_SHOWN)
        st = hvd_buf_printf(p->out, " and %zu more", about->n_files - FILES_SHOWN);
    return end_term(p, st);
}

static hvd_status_t put_origin(const struct hvd_tl_page_out *p)
{
    hvd_status_t st;

    if (!p->about->host || !p->about->made)
        return HVD_OK;
    st = begin_term(p, "page");
    if (st == HVD_OK)
        st = hvd_buf_puts(p->out, "made on host ");
    if (st == HVD_OK)
        st = hvd_tl_head_escaped(p->out, p->about->host);
    if (st == HVD_OK)
        st = hvd_buf_printf(p->out, ", %s", p->about->made);
    return end_term(p, st);
}

hvd_status_t hvd_tl_head_about(const struct hvd_tl_page_out *p)
{
    static hvd_status_t (*const terms[])(const struct hvd_tl_page_out *) = {
        put_programs, put_job, put_hosts, put_files, put_origin};
    hvd_status_t st = hvd_buf_puts(p->out, "<dl class=\"about\">");

    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]) && st == HVD_OK; i++)
        st = terms[i](p);
    return st == HVD_OK ? hvd_buf_puts(p->out, "</dl>\n") : st;
}
