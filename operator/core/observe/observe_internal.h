#ifndef HVD_OPERATOR_CORE_OBSERVE_OBSERVE_INTERNAL_H
#define HVD_OPERATOR_CORE_OBSERVE_OBSERVE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/view/projection.h"

/* Within observe*.c only: reading objects. Nothing is kept of them but what is copied. */

#define HVD_OBSERVE_TEXT_MAX 1024 /* bytes of a text that are kept */

/*
 * The length of at most max bytes of text, cut between UTF-8 characters: what is not UTF-8 comes
 * back from the API server as something else, and would be written again and again.
 */
int hvd_observe_cut(const char *text, size_t len, size_t max);

/* Copies at most HVD_OBSERVE_TEXT_MAX bytes to *out, which owns them; a NULL text leaves it as it
 * is. False: out of memory. */
bool hvd_observe_text_n(const char *text, size_t len, char **out);

/* The same of the text at a path of the object, and of an annotation. */
bool hvd_observe_text(const cJSON *object, const char *path, char **out);
bool hvd_observe_annotation(const cJSON *object, const char *key, char **out);

/* Whether there is that text at the path. */
bool hvd_observe_is(const cJSON *object, const char *path, const char *expected);

/* A short hash of the name of a template's revision; 0 for NULL. */
uint64_t hvd_observe_revision(const char *name);

/* The condition of that type if its status is True; NULL if not. Borrowed. */
const cJSON *hvd_observe_condition(const cJSON *object, const char *type);

/* Projects a pod whose meta is in *out already; false: out of memory, and *out owns what it got. */
bool hvd_observe_pod(const cJSON *object, struct hvd_object *out);

/* Projects how far a pod has come that is not Ready, whose trouble and phase are in *out already;
 * false: out of memory. */
bool hvd_observe_stage(const cJSON *object, struct hvd_pod_view *out);

#endif
