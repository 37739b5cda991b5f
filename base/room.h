#ifndef HVD_BASE_ROOM_H
#define HVD_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Space that Open MPI 4 needs for temporary files: PMIx allocates two segments of 4 MiB at once. */
#define HVD_ROOM_MPI_4 ((size_t)9 << 20)

/* Returns whether the errno value `why` means that a file system or its user's quota is full. */
bool hvd_room_lacks(int why);

/*
 * Returns whether a file of size_bytes, and some files more, fit into an open folder. It allocates
 * such a file and removes it again. Returns true if the file system cannot answer. The file is
 * never larger than RLIMIT_FSIZE (ulimit -f), because beyond that SIGXFSZ would end the process.
 */
bool hvd_room_is_in(int folder, size_t size_bytes);

#endif
