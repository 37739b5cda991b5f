#ifndef HVD_OPERATOR_API_VERSION_H
#define HVD_OPERATOR_API_VERSION_H

#include <stdbool.h>

/*
 * resourceVersion: in every API server a decimal number that grows with each write. Any other text
 * cannot be compared.
 */

/* The version as a number; 0 when it is none (NULL is legal). */
unsigned long long hvd_version_number(const char *version);

/* Whether both are numbers, and a is the smaller one. */
bool hvd_version_is_older(const char *a, const char *b);

#endif
