#ifndef HVD_WORKER_TRANSPORT_CPU_LOCATION_H
#define HVD_WORKER_TRANSPORT_CPU_LOCATION_H

#include <stdint.h>

/* The cores on which a rank may run, and their caches. Plain data, because ranks publish it to each
 * other. Where nothing is known, all fields are 0 and the places -1. */
#define HVD_CPU_LOCATION_CORES 1024

struct hvd_cpu_location {
    uint64_t cores[HVD_CPU_LOCATION_CORES / 64]; /* a bit for each core, numbered along the host */
    int32_t package;   /* that contains all these cores; -1: several, or unknown */
    int32_t numa;      /* node of memory; as package */
    int32_t l3;        /* third-level cache; as package */
    uint64_t l2_bytes; /* of the smallest among them; 0: unknown */
    uint64_t l3_bytes;
};

/* Makes a location of which nothing is known. */
void hvd_cpu_location_init(struct hvd_cpu_location *cpu_location);

/*
 * Reads the location of this thread, or of processor `processor` where that is not negative. Takes
 * some milliseconds. For tests, `synthetic` describes another host in the syntax of hwloc, such as
 * "package:2 l3:1 core:4 pu:1"; NULL: this host. Fields that hwloc cannot determine stay unknown.
 */
void hvd_cpu_location_read(const char *synthetic, int processor,
                           struct hvd_cpu_location *cpu_location);

#endif
