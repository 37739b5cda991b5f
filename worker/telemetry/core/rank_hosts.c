/*
 * Writes the hosts of a job with their ranks as records of a timeline.
 */
#include "worker/telemetry/core/rank_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/telemetry/core/json.h"

#define RANKS_MAX 900 /* bytes of a list of ranks in one record */
#define RANGE_MAX 32

/* A rank, and the first rank of its host once that is known. */
struct rank_host {
    const char *host;
    int rank;
    int first;
};

static int by_host(const void *left, const void *right)
{
    const struct rank_host *a = left;
    const struct rank_host *b = right;
    const int order = strcmp(a->host, b->host);

    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_first(const void *left, const void *right)
{
    const struct rank_host *a = left;
    const struct rank_host *b = right;

    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Collects the ranks whose hosts are known, grouped by host; returns how many. */
static size_t gather(const struct hvd_rank_hosts *from, struct rank_host *out)
{
    size_t n = 0;

    for (int rank = 0; rank < from->size; rank++) {
        const char *host = from->host(from->ctx, rank);
        if (host && *host)
            out[n++] = (struct rank_host){.host = host, .rank = rank};
    }
    if (n > 0)
        qsort(out, n, sizeof(*out), by_host);
    for (size_t i = 0; i < n; i++)
        out[i].first =
            i > 0 && strcmp(out[i].host, out[i - 1].host) == 0 ? out[i - 1].first : out[i].rank;
    if (n > 0)
        qsort(out, n, sizeof(*out), by_first);
    return n;
}

/* Writes ranges of ranks from the first of n entries on, all of one host, until the text is full.
 * Returns how many entries it wrote. */
static size_t list(const struct rank_host *rank_hosts, size_t n, char text[RANKS_MAX])
{
    size_t len = 0;
    size_t i = 0;

    text[0] = '\0';
    while (i < n && rank_hosts[i].first == rank_hosts[0].first && len + RANGE_MAX < RANKS_MAX) {
        size_t end = i + 1;

        while (end < n && rank_hosts[end].first == rank_hosts[0].first &&
               rank_hosts[end].rank == rank_hosts[end - 1].rank + 1)
            end++;
        len += (size_t)snprintf(text + len, RANKS_MAX - len, "%s%d", i > 0 ? ", " : "",
                                rank_hosts[i].rank);
        if (end > i + 1)
            len += (size_t)snprintf(text + len, RANKS_MAX - len, "-%d", rank_hosts[end - 1].rank);
        i = end;
    }
    return i;
}

static hvd_status_t put(const struct hvd_rank_hosts *from, const char *host, const char *ranks,
                        struct hvd_buf *lines)
{
    struct hvd_json json;

    json.len = 0;
    hvd_json_raw(&json, "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{"
                        "\"name\":\"rank ");
    hvd_json_int(&json, from->rank);
    hvd_json_raw(&json, "\",\"host\":");
    hvd_json_string(&json, hvd_strview_of(host));
    hvd_json_raw(&json, ",\"ranks\":\"");
    hvd_json_raw(&json, ranks);
    hvd_json_raw(&json, "\"}}\n");
    return hvd_buf_add(lines, json.text, json.len);
}

hvd_status_t hvd_rank_hosts_write(const struct hvd_rank_hosts *from, struct hvd_buf *lines)
{
    struct rank_host *rank_hosts = hvd_calloc((size_t)from->size + 1, sizeof(*rank_hosts));
    hvd_status_t st = rank_hosts ? HVD_OK : HVD_ERR_NOMEM;
    const size_t n = rank_hosts ? gather(from, rank_hosts) : 0;
    char ranks[RANKS_MAX];

    for (size_t i = 0; i < n && st == HVD_OK;) {
        const char *host = rank_hosts[i].host;
        i += list(rank_hosts + i, n - i, ranks);
        st = put(from, host, ranks, lines);
    }
    hvd_free(rank_hosts);
    return st;
}
