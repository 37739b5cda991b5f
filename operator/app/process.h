#ifndef HVD_OPERATOR_APP_PROCESS_H
#define HVD_OPERATOR_APP_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* The kernel's counters of this process. */
struct hvd_process_usage {
    uint64_t resident_bytes;
    double cpu_s;
};

/* Reads them now; an unreadable value is 0. */
struct hvd_process_usage hvd_process_usage(void);

/* The total time that this thread has waited for a processor, in microseconds; 0 if that cannot be
 * read. */
int64_t hvd_process_waited_us(void);

/* Writes a name that no other process has: the host's name, '_' and 64 random bits. */
void hvd_process_identity(char *out, size_t size);

#endif
