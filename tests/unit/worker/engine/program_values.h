#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAM_VALUES_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAM_VALUES_H

#include "worker/core/types.h"

/* Numbers in every element type, by arithmetic alone and not by the code under test. */

/* Stores a whole number of 0 to 255 that the type holds exactly as element i. */
void value_store(enum hvd_dtype dtype, void *data, int64_t i, int value);

/* Element i as a number. */
double value_load(enum hvd_dtype dtype, const void *data, int64_t i);

/* Whether results are rounded towards zero. */
bool value_is_whole(enum hvd_dtype dtype);

/* How far a quotient of small numbers may be off in the type. */
double value_slack(enum hvd_dtype dtype);

#endif
