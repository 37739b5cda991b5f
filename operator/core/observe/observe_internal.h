#ifndef HVD_OPERATOR_CORE_OBSERVE_OBSERVE_INTERNAL_H
#define HVD_OPERATOR_CORE_OBSERVE_OBSERVE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/view/projection.h"

/* Within observe*.c only: reads objects, and keeps only copies. */

#define HVD_OBSERVE_TEXT_MAX 1024 /* bytes of a text that are kept */

/*
 * The length of at most max bytes of text, cut between UTF-8 characters. The API server would
 * return invalid UTF-8 as another text, which the operator would write again and again.
 */
int hvd_observe_cut(const char *text, size_t len, size_t max);

/* Copies at most HVD_OBSERVE_TEXT_MAX bytes to *out, which owns them; for a NULL text leaves it
 * unchanged. False: out of memory. */
bool hvd_observe_text_n(const char *text, size_t len, char **out);

/* The same for the text at a path of the object, and for an annotation. */
bool hvd_observe_text(const cJSON *object, const char *path, char **out);
bool hvd_observe_annotation(const cJSON *object, const char *key, char **out);

/* Whether the path has that text. */
bool hvd_observe_is(const cJSON *object, const char *path, const char *expected);

/* A short hash of the name of a template's revision; 0 for NULL. */
uint64_t hvd_observe_revision(const char *name);

/* The condition of that type if its status is True; NULL if not. Borrowed. */
const cJSON *hvd_observe_condition(const cJSON *object, const char *type);

/* Projects a pod whose meta is already in *out; false: out of memory, and *out owns what it
 * received. */
bool hvd_observe_pod(const cJSON *object, struct hvd_object *out);

/* Projects the stage of a pod that is not Ready, whose trouble and phase are already in *out;
 * false: out of memory. */
bool hvd_observe_stage(const cJSON *object, struct hvd_pod_view *out);

#endif
