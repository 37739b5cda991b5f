/*
 * FNV-1a over texts and numbers: for annotations that identify what an object was made from, and
 * for names of events. Unsafe for input that an attacker may choose. Pure.
 */
#include "operator/core/view/hash.h"

#define PRIME UINT64_C(0x100000001b3)

uint64_t hvd_hash_text(uint64_t hash, const char *text)
{
    for (const char *at = text ? text : ""; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * PRIME;
    return (hash ^ 0xff) * PRIME;
}

uint64_t hvd_hash_number(uint64_t hash, int64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        hash = (hash ^ (((uint64_t)number >> shift) & 0xff)) * PRIME;
    return hash;
}
