#ifndef HVD_OPERATOR_CORE_WRITES_REFUSAL_H
#define HVD_OPERATOR_CORE_WRITES_REFUSAL_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

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

/* Within operator/core only. What others refuse. Each tells why in out, false if there is nothing
 * to tell. */

/* Pods that a StatefulSet, or the master's Job, is not allowed to make; asks if that is not known.
 */
bool hvd_refusal_of_workers(struct hvd_pass *p, char *out, size_t size);
bool hvd_refusal_of_master(struct hvd_pass *p, char *out, size_t size);

/*
 * Asks events about an object, of what holds since that time, if it has lasted for long enough and
 * it was not asked a short while ago. Returns the last answer, borrowed from the view; NULL: none.
 */
const char *hvd_refusal_ask(struct hvd_pass *p, const struct hvd_object *object,
                            enum hvd_question question, int64_t since_ms);

/* Why nothing is known of the object from its events: they name no cause, or cannot be read. */
const char *hvd_refusal_silence(const struct hvd_pass *p, const struct hvd_object *object);

/* The failure of a status that was refused and is told of; NULL: none. Borrowed from the view. */
const struct hvd_failure *hvd_refusal_of_status(const struct hvd_pass *p);

/* Notes a change or a deletion that was denied the last time and waits for its next try; known is
 * borrowed. */
void hvd_refusal_add(struct hvd_pass *p, const struct hvd_failure *known, bool is_removal);

/* All changes and deletions that are planned, or wait, and were denied the last time: each object
 * once, with the words of those who deny them. False, and out untouched, if there are none. */
bool hvd_refusal_of_change(struct hvd_pass *p, char *out, size_t size);

/* Whether the API server has refused an object because the namespace is being deleted: it refuses
 * events, too, and what controllers would make. */
bool hvd_refusal_is_leaving(const struct hvd_pass *p);

/* The same on the condition Running; true if nothing is to be made for that. Once in a long time it
 * may be tried. */
bool hvd_refusal_of_namespace(struct hvd_pass *p);

#endif
