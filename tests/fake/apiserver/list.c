/*
 * Lists. All pages of a list are of one moment: the first page takes a snapshot, and the continue
 * token names it.
 */
#include "tests/fake/apiserver/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "tests/fake/apiserver/answer.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/patch.h"

#define MAX_SNAPSHOTS 64

struct fake_snapshots {
    struct fake_snapshots *next;
    uint64_t id;
    uint64_t number; /* the resource version of the list */
    struct fake_version **versions;
    size_t n;
};

static void free_snapshot(struct fake_snapshots *s)
{
    for (size_t i = 0; i < s->n; i++)
        fake_version_unref(s->versions[i]);
    free(s->versions);
    free(s);
}

void fake_snapshots_fini(struct fake_server *server)
{
    struct fake_snapshots *s, *next;

    LL_FOREACH_SAFE(server->snapshots, s, next)
    {
        LL_DELETE(server->snapshots, s);
        free_snapshot(s);
    }
}

void fake_snapshots_expire(struct fake_server *server)
{
    fake_snapshots_fini(server);
}

static int by_key(const void *a, const void *b)
{
    const struct fake_version *const *x = a;
    const struct fake_version *const *y = b;

    return strcmp((*x)->key, (*y)->key);
}

static bool is_in(const struct fake_version *version, const char *ns)
{
    size_t len = ns ? strlen(ns) : 0;

    return !ns || (strncmp(version->key, ns, len) == 0 && version->key[len] == '/');
}

static struct fake_snapshots *take_snapshot(const struct fake_request *request)
{
    static uint64_t n_made;
    struct fake_server *server = request->conn->server;
    const char *selector = fake_query(request, "labelSelector");
    struct fake_snapshots *s = fake_new(sizeof(*s));
    struct fake_object *object, *next;

    s->id = ++n_made;
    s->number = server->store.number;
    s->versions =
        fake_new((fake_count(&server->store, request->kind) + 1) * sizeof(s->versions[0]));
    HASH_ITER(hh, server->store.objects[fake_kind_index(request->kind)], object, next)
    {
        if (is_in(object->now, request->ns) && fake_selects(selector, object->now->labels))
            s->versions[s->n++] = fake_version_ref(object->now);
    }
    qsort(s->versions, s->n, sizeof(s->versions[0]), by_key);
    return s;
}

static struct fake_snapshots *find_snapshot(struct fake_server *server, uint64_t id)
{
    struct fake_snapshots *s = NULL;

    LL_SEARCH_SCALAR(server->snapshots, s, id, id);
    return s;
}

/* Keeps the snapshot for its next page; the oldest goes when there are too many. */
static void keep_snapshot(struct fake_server *server, struct fake_snapshots *s)
{
    struct fake_snapshots *oldest;
    int n;

    LL_APPEND(server->snapshots, s);
    LL_COUNT(server->snapshots, oldest, n);
    if (n <= MAX_SNAPSHOTS)
        return;
    oldest = server->snapshots;
    LL_DELETE(server->snapshots, oldest);
    free_snapshot(oldest);
}

static void put_page(struct fake_answer *answer, const struct fake_request *request,
                     const struct fake_snapshots *s, size_t first, size_t n)
{
    struct hvd_buf *out = &answer->body;

    answer->code = 200;
    if (request->is_meta)
        fake_puts(out, "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\"");
    else
        fake_printf(out, "{\"kind\":\"%sList\",\"apiVersion\":\"%s\"", request->kind->name,
                    request->kind->api_version);
    fake_printf(out, ",\"metadata\":{\"resourceVersion\":\"%" PRIu64 "\"", s->number);
    if (first + n < s->n)
        fake_printf(out, ",\"continue\":\"%" PRIu64 ".%zu\",\"remainingItemCount\":%zu", s->id,
                    first + n, s->n - first - n);
    fake_puts(out, "},\"items\":[");
    for (size_t i = first; i < first + n; i++) {
        if (i > first)
            fake_puts(out, ",");
        fake_version_put(out, s->versions[i], request->is_meta ? FAKE_FORM_META : FAKE_FORM_ITEM);
    }
    fake_puts(out, "]}");
}

void fake_list(struct fake_answer *answer, const struct fake_request *request)
{
    struct fake_server *server = request->conn->server;
    const char *limit_text = fake_query(request, "limit");
    const char *token = fake_query(request, "continue");
    size_t limit = limit_text ? (size_t)strtoul(limit_text, NULL, 10) : 0;
    struct fake_snapshots *s;
    size_t first = 0, n;

    if (token && *token) {
        const char *dot = strchr(token, '.');

        s = find_snapshot(server, strtoull(token, NULL, 10));
        first = dot ? (size_t)strtoul(dot + 1, NULL, 10) : 0;
        if (!s || first > s->n) {
            fake_answer_fail(
                answer, request, 410, NULL,
                "The provided continue parameter is too old to display a consistent "
                "list result. You can start a new list without the continue parameter.");
            return;
        }
    } else {
        s = take_snapshot(request);
        keep_snapshot(server, s);
    }
    n = limit && s->n - first > limit ? limit : s->n - first;
    put_page(answer, request, s, first, n);
    if (first + n == s->n) {
        LL_DELETE(server->snapshots, s);
        free_snapshot(s);
    }
}
