#ifndef HVD_OPERATOR_CORE_WRITES_REFUSAL_H
#define HVD_OPERATOR_CORE_WRITES_REFUSAL_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/core/reconcile.h"

/* What an answer to a write means for the job. All but the first are tried again. */
enum hvd_refusal {
    HVD_REFUSAL_FINAL,    /* the job's own template is wrong: the same write never passes */
    HVD_REFUSAL_RULE,     /* a rule of the API server, for what others made of the object */
    HVD_REFUSAL_DENIED,   /* somebody or something denies this write */
    HVD_REFUSAL_UNSERVED, /* it says nothing about this write: told when it lasts */
    HVD_REFUSAL_LEAVING,  /* the namespace is being deleted, and nothing can be made in it */
};

#define HVD_REFUSAL_LASTS 8 /* answers in a row; with the shell's backoff, after about 10 s */

/*
 * Judges an answer with an HTTP code that is no success, as status of operator/kube and its
 * document, which may be NULL. Only what the API server's own validation or decoding finds wrong in
 * the template of a StatefulSet or Job is final: what a webhook, a policy, a quota or a proxy
 * denies today, whatever its code is, may be allowed tomorrow with the same object.
 */
enum hvd_refusal hvd_refusal_judge(const struct hvd_action *action, hvd_status_t status, long code,
                                   const cJSON *body);

/*
 * The words of the answer that name what is wrong, borrowed from the document; "" without any. A
 * JSON patch that cannot be decoded is answered with the whole object before them.
 */
const char *hvd_refusal_words(const cJSON *body);

/* Whether a failure is one to tell of: at once, or because it has lasted. */
bool hvd_refusal_is_told(const struct hvd_failure *failure);

#endif
