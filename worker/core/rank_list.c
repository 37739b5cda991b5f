/*
 * Compares lists of ranks and writes them as text: see rank_list.h. A run of three or more ranks is
 * written as its two ends. Ranks that do not fit are left out, and the total number of ranks
 * follows.
 */
#include "worker/core/rank_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define DIGEST_START UINT64_C(14695981039346656037) /* FNV-1a */
#define DIGEST_FACTOR UINT64_C(1099511628211)
#define ITEM_MAX 32 /* ", -2147483648--2147483648" */
#define END_MAX 40  /* ", ... (2147483647 ranks)" */

static uint64_t add_to_digest(uint64_t digest, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        digest = (digest ^ (value >> (8 * i) & 0xFF)) * DIGEST_FACTOR;
    return digest;
}

/* Returns how many consecutive ranks start here. */
static int run_length(const int *ranks, int n_ranks)
{
    int n = 1;

    while (n < n_ranks && (int64_t)ranks[n] == (int64_t)ranks[0] + n)
        n++;
    return n;
}

void hvd_rank_list_init(struct hvd_rank_list *list, const int *ranks, int n_ranks)
{
    size_t len = 0;
    int n = 0;

    list->digest = add_to_digest(DIGEST_START, (uint32_t)n_ranks);
    for (int i = 0; i < n_ranks; i++)
        list->digest = add_to_digest(list->digest, (uint32_t)ranks[i]);
    (void)snprintf(list->text, sizeof(list->text), "all ranks");
    for (int i = 0; i < n_ranks; i += n, len = strlen(list->text)) {
        const char *comma = i > 0 ? ", " : "";

        if (len + ITEM_MAX + END_MAX > sizeof(list->text)) {
            (void)snprintf(list->text + len, sizeof(list->text) - len, ", ... (%d ranks)", n_ranks);
            return;
        }
        n = run_length(ranks + i, n_ranks - i);
        if (n > 2) {
            (void)snprintf(list->text + len, sizeof(list->text) - len, "%s%d-%d", comma, ranks[i],
                           ranks[i + n - 1]);
        } else {
            n = 1;
            (void)snprintf(list->text + len, sizeof(list->text) - len, "%s%d", comma, ranks[i]);
        }
    }
}

hvd_status_t hvd_rank_list_check(const int *ranks, int n_ranks, int size, struct hvd_err *err)
{
    bool *seen = hvd_calloc((size_t)size, sizeof(*seen));
    hvd_status_t st = HVD_OK;

    if (!seen)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the ranks of the job");
    for (int i = 0; i < n_ranks && st == HVD_OK; i++) {
        const int rank = ranks[i];
        if (rank < 0 || rank >= size)
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0,
                          "rank %d does not exist: the communicator has %d ranks", rank, size);
        else if (seen[rank])
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d is given twice", rank);
        else
            seen[rank] = true;
    }
    hvd_free(seen);
    return st;
}

void hvd_rank_list_explain(const struct hvd_rank_list_of *a, const struct hvd_rank_list_of *b,
                           char *text, size_t size)
{
    const struct hvd_rank_list_of *first = a->rank < b->rank ? a : b;
    const struct hvd_rank_list_of *second = first == a ? b : a;

    (void)snprintf(text, size,
                   "The ranks passed to horovod_init differ: rank %d%s%.64s passes [%.*s], and "
                   "rank %d%s%.64s [%.*s]. All ranks of a job pass the same ranks, in the same "
                   "order",
                   first->rank, first->host[0] ? " on host " : "", first->host,
                   HVD_RANK_LIST_TEXT - 1, first->list, second->rank,
                   second->host[0] ? " on host " : "", second->host, HVD_RANK_LIST_TEXT - 1,
                   second->list);
}
