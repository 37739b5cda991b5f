#ifndef HVD_OPERATOR_CORE_VIEW_HASH_H
#define HVD_OPERATOR_CORE_VIEW_HASH_H

#include <stdint.h>

/* FNV-1a, 64 bits: distinguishes contents, but does not resist attackers. */

#define HVD_HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues a hash with a text (NULL counts as empty) and its end, so that a, bc and ab, c
 * differ. */
uint64_t hvd_hash_text(uint64_t hash, const char *text);

/* Continues a hash with a number. */
uint64_t hvd_hash_number(uint64_t hash, int64_t number);

#endif
