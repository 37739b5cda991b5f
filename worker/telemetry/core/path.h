#ifndef HVD_WORKER_TELEMETRY_CORE_PATH_H
#define HVD_WORKER_TELEMETRY_CORE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether the pattern has a place for the rank: %d. */
bool hvd_path_names_rank(const char *pattern);

/* Writes the pattern with the rank in the place of %d. Without one, the rank goes before the
 * extension of the file: "t.json" becomes "t.3.json". Returns false when it does not fit into size
 * bytes. */
bool hvd_path_of_rank(const char *pattern, int rank, char *out, size_t size);

#endif
