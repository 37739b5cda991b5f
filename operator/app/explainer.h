#ifndef HVD_OPERATOR_APP_EXPLAINER_H
#define HVD_OPERATOR_APP_EXPLAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "operator/app/store.h"
#include "operator/core/lease/server_clock.h"
#include "operator/core/observe/explain.h"
#include "operator/core/pass/plan.h"
#include "operator/kube/api.h"

/*
 * Answers HVD_ACTION_EXPLAIN of all jobs with few lists of events. A question stays open in its
 * entry's failures until a list answers it. One list is under way at a time. If several jobs of a
 * namespace have questions, it covers the whole namespace and renews all their answers.
 */

#define HVD_EXPLAIN_NS_MAX 256

/* Initialised by hvd_explainer_init. Everything borrowed must outlive the requests. */
struct hvd_explainer {
    const struct hvd_kube_api *_api;
    struct hvd_store *_store;
    const struct hvd_log *_log;
    const struct hvd_server_clock *_clock;
    struct hvd_explain_budget _budget;
    bool _is_wanted; /* a question may be open */
    bool _is_asking; /* a list is under way, of: */
    bool _is_wide;   /* all questions of the namespace, else the one about the uid */
    char _ns[HVD_EXPLAIN_NS_MAX];
    char _uid[64];
};

/* Its dependencies. */
struct hvd_explainer_setup {
    const struct hvd_kube_api *api;
    struct hvd_store *store;
    const struct hvd_log *log;
    const struct hvd_server_clock *clock;
};

/* Initialises *explainer without a question. */
void hvd_explainer_init(struct hvd_explainer *explainer, const struct hvd_explainer_setup *setup);

/* Opens the question of an action of the entry's job; the store reports the entry as changed when
 * it is answered. HVD_ERR_NOMEM. */
hvd_status_t hvd_explainer_ask(struct hvd_explainer *explainer, struct hvd_entry *entry,
                               const struct hvd_action *action);

/* Sends the next list if there is a question and the budget allows it. Returns the latest time for
 * the next call, by hvd_clock_ms; INT64_MAX: after the next question or answer. */
int64_t hvd_explainer_step(struct hvd_explainer *explainer, int64_t now_ms);

#endif
