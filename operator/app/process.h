#ifndef HVD_OPERATOR_APP_PROCESS_H
#define HVD_OPERATOR_APP_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* What the kernel counts of this process. */
struct hvd_process_usage {
    uint64_t resident_bytes;
    double cpu_s;
};

/* Reads it now; what cannot be read is 0. */
struct hvd_process_usage hvd_process_usage(void);

/* For how long this thread has waited for a processor, ever, in microseconds; 0 if that cannot be
 * read. */
int64_t hvd_process_waited_us(void);

/* Writes a name that no other process has: the host's name, '_' and 64 random bits. */
void hvd_process_identity(char *out, size_t size);

#endif
