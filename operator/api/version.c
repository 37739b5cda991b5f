/*
 * Compares resource versions. Pure.
 */
#include "operator/api/version.h"

#include <stdlib.h>

unsigned long long hvd_version_number(const char *version)
{
    char *end = NULL;
    unsigned long long number;

    if (!version || *version < '0' || *version > '9')
        return 0;
    number = strtoull(version, &end, 10);
    return *end ? 0 : number;
}

bool hvd_version_is_older(const char *a, const char *b)
{
    const unsigned long long number_a = hvd_version_number(a);
    const unsigned long long number_b = hvd_version_number(b);

    return number_a && number_b && number_a < number_b;
}
