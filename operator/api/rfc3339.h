#ifndef HVD_OPERATOR_API_RFC3339_H
#define HVD_OPERATOR_API_RFC3339_H

#include <stdint.h>

#define HVD_RFC3339_SIZE 32

/* Whole seconds since 1970 of "2025-03-01T12:00:00Z": fractions are dropped, offsets are applied. 0
 * for NULL and for malformed times. Pure: reads no time zone of the machine. */
int64_t hvd_rfc3339_parse(const char *text);

/* Writes seconds since 1970 (years 1970 to 9999) as "2025-03-01T12:00:00Z". */
void hvd_rfc3339_format(int64_t seconds, char out[HVD_RFC3339_SIZE]);

#endif
