#ifndef HVD_OPERATOR_CORE_WRITES_REFUSAL_H
#define HVD_OPERATOR_CORE_WRITES_REFUSAL_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* The meaning of an answer to a write for the job. All but the first are tried again. */
enum hvd_refusal {
    HVD_REFUSAL_FINAL,    /* the job's own template is wrong: the same write never succeeds */
    HVD_REFUSAL_RULE,     /* a rule of the API server, because of what others changed in the
                             object */
    HVD_REFUSAL_DENIED,   /* a person or program denies this write */
    HVD_REFUSAL_UNSERVED, /* not about this write: reported when it lasts */
    HVD_REFUSAL_LEAVING,  /* the namespace is being deleted, and nothing can be made in it */
};

#define HVD_REFUSAL_LASTS 8 /* consecutive answers; with the waits of denial.h after about 10 s */

/*
 * Judges an answer with an HTTP error code. It gets the status from operator/kube and the answer's
 * document, which may be NULL. Only errors of the API server's own validation or decoding in the
 * template of a StatefulSet or Job are final. Denials by a webhook, a policy, a quota or a proxy,
 * with any code, may pass tomorrow for the same object.
 */
enum hvd_refusal hvd_refusal_judge(const struct hvd_action *action, hvd_status_t status, long code,
                                   const cJSON *body);

/*
 * The text of the answer that names the mistake, borrowed from the document; "" without any. For a
 * JSON patch that cannot be decoded, the answer has the whole object before it.
 */
const char *hvd_refusal_words(const cJSON *body);

/* Whether to report a failure: at once, or because it has lasted. */
bool hvd_refusal_is_told(const struct hvd_failure *failure);

/* Within operator/core only. Refusals by others. Each function writes the cause to out, false if
 * there is nothing to report. */

/* Pods that a StatefulSet, or the master's Job, is not allowed to make. Reads events if the cause
 * is not known. */
bool hvd_refusal_of_workers(struct hvd_pass *p, char *out, size_t size);
bool hvd_refusal_of_master(struct hvd_pass *p, char *out, size_t size);

/*
 * Asks events about an object, for a state that holds since that time. Does so only if the state
 * has lasted for long enough and the last question is not recent. Returns the last answer, borrowed
 * from the view; NULL: none.
 */
const char *hvd_refusal_ask(struct hvd_pass *p, const struct hvd_object *object,
                            enum hvd_question question, int64_t since_ms);

/* Why the object's events give no information: they name no cause, or cannot be read. */
const char *hvd_refusal_silence(const struct hvd_pass *p, const struct hvd_object *object);

/* The failure of a rejected status that is reported; NULL: none. Borrowed from the view. */
const struct hvd_failure *hvd_refusal_of_status(const struct hvd_pass *p);

/* Records a change or a deletion that was denied the last time and waits for its next try; known is
 * borrowed. */
void hvd_refusal_add(struct hvd_pass *p, const struct hvd_failure *known, bool is_removal);

/* Describes all changes and deletions that are planned, or wait, and were denied the last time:
 * each object once, with the texts of the denials. False, with out untouched, if there are none. */
bool hvd_refusal_of_change(struct hvd_pass *p, char *out, size_t size);

/* Whether the API server has rejected an object because the namespace is being deleted: it then
 * also rejects events, and the controllers' objects. */
bool hvd_refusal_is_leaving(const struct hvd_pass *p);

/* Reports that on the condition Running; true if the job must create nothing because of it. Once in
 * a long time a try is allowed. */
bool hvd_refusal_of_namespace(struct hvd_pass *p);

#endif
