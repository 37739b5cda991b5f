#ifndef HVD_OPERATOR_CORE_OBSERVE_EXPLAIN_H
#define HVD_OPERATOR_CORE_OBSERVE_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/core/view/view.h"

/*
 * Questions that only events answer: why an object makes no pods, why a pod does not start or does
 * not become Ready. One list of a namespace's events answers all questions about its objects, and
 * lists are rationed.
 */

#define HVD_EXPLAIN_SIZE 512

struct hvd_indexed_event {
    const cJSON *event; /* borrowed */
};

/* The events of a list, sorted by the uid of the object that they are about. */
struct hvd_event_index {
    struct hvd_indexed_event *_events; /* owned */
    size_t _n;
};

/* Sorts the events of a list (as the API sent it, borrowed as long as the index is used). The
 * caller frees *out with hvd_explain_index_fini. HVD_ERR_NOMEM. */
hvd_status_t hvd_explain_index_init(const cJSON *list, struct hvd_event_index *out);

/* Frees the index. A zeroed one is legal. */
void hvd_explain_index_fini(struct hvd_event_index *index);

/* A question. */
struct hvd_explain_what {
    enum hvd_question question;
    const char *uid; /* of the object */
    int64_t since_s; /* ignores older events, within the skew of clocks */
};

/*
 * The newest event that answers the question, as a text without names of pods and containers,
 * because those may differ each time. False, with an empty out, if there is none.
 */
bool hvd_explain_find(const struct hvd_event_index *index, const struct hvd_explain_what *what,
                      char out[HVD_EXPLAIN_SIZE]);

/*
 * How often events may be listed: a bucket of HVD_EXPLAIN_BURST tokens, which gains one each
 * HVD_EXPLAIN_PERIOD_MS. Times are monotonic. A zeroed bucket is full.
 */
#define HVD_EXPLAIN_BURST 5
#define HVD_EXPLAIN_PERIOD_MS 2000

struct hvd_explain_budget {
    int64_t _full_ms; /* when the bucket is full again */
};

/* The earliest time for a list: now_ms or later. */
int64_t hvd_explain_due_ms(const struct hvd_explain_budget *budget, int64_t now_ms);

/* Takes a token; false if there is none. */
bool hvd_explain_take(struct hvd_explain_budget *budget, int64_t now_ms);

#endif
