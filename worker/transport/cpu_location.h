#ifndef HVD_WORKER_TRANSPORT_CPU_LOCATION_H
#define HVD_WORKER_TRANSPORT_CPU_LOCATION_H

#include <stdint.h>

/* Where a rank may run on its host. Plain data: ranks show it to each other. All zeroes but for the
 * places, which are -1: nothing is known. */
#define HVD_CPU_LOCATION_CORES 1024

struct hvd_cpu_location {
    uint64_t cores[HVD_CPU_LOCATION_CORES / 64]; /* a bit for each core, numbered along the host */
    int32_t package;   /* that all of them belong to; -1: several, not known */
    int32_t numa;      /* node of memory; the same */
    int32_t l3;        /* third-level cache; the same */
    uint64_t l2_bytes; /* the smallest among them; 0: not known */
    uint64_t l3_bytes;
};

/* A location of which nothing is known. */
void hvd_cpu_location_init(struct hvd_cpu_location *cpu_location);

/*
 * The location of this thread, or of processor `processor` if that is not negative. Takes some
 * milliseconds. `synthetic` describes another host in the words of hwloc, such as "package:2 l3:1
 * core:4 pu:1", for tests; NULL: this host. What cannot be found out stays not known.
 */
void hvd_cpu_location_read(const char *synthetic, int processor,
                           struct hvd_cpu_location *cpu_location);

#endif
