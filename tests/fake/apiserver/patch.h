#ifndef HVD_TESTS_FAKE_APISERVER_PATCH_H
#define HVD_TESTS_FAKE_APISERVER_PATCH_H

#include <stdbool.h>

#include <cjson/cJSON.h>

/* Changes target as a JSON merge patch says. target and patch are objects. */
void fake_merge_patch(cJSON *target, const cJSON *patch);

/* Applies a JSON patch; false, with the target in an undefined state, when it does not apply. */
bool fake_json_patch(cJSON *target, const cJSON *patch);

/*
 * Whether labels (an object or NULL) meet a selector "a=b,c!=d,e,!f,g in (x,y),h notin (z)". NULL
 * and
 * "" select all.
 */
bool fake_selects(const char *selector, const cJSON *labels);

#endif
