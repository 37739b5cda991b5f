#ifndef HVD_BASE_ROOM_H
#define HVD_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* What Open MPI 4 needs for its temporary files: PMIx allocates two segments of 4 MiB at once. */
#define HVD_ROOM_MPI_4 ((size_t)9 << 20)

/* Whether the error `why` says that a file system is full, or that its user may have no more. */
bool hvd_room_lacks(int why);

/*
 * Whether an open folder takes a file of so many bytes, which is removed again, and some files
 * more. A file system that cannot tell has room. Of the bytes, no more are asked for than a file
 * may have (ulimit -f): beyond that SIGXFSZ would end the process.
 */
bool hvd_room_is_in(int folder, size_t size_bytes);

#endif
