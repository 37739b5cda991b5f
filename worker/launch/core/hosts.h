#ifndef HVD_WORKER_LAUNCH_CORE_HOSTS_H
#define HVD_WORKER_LAUNCH_CORE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

#define HVD_HOST_NAME_MAX 253

/* One host and how many processes it takes. The later fields are filled by the checks. */
struct hvd_host {
    char *name; /* owned */
    int64_t slots;
    bool is_local;    /* this machine: reached without ssh */
    bool has_wrapper; /* horovodrun is there at the same path, so its ranks can be watched */
    int mpi_major;    /* major version of Open MPI; 0 = not known yet */
};

/* The hosts in the order in which ranks fill them. A zeroed struct is an empty list. */
struct hvd_hosts {
    struct hvd_host *items; /* owned */
    size_t n;
    size_t _capacity;
};

/* Frees the list; the struct is an empty one afterwards. */
void hvd_hosts_fini(struct hvd_hosts *hosts);

/*
 * Reads "h1:4,h2" (no number means one slot) into *out, which must be empty. A host named twice has
 * the sum. HVD_ERR_INVALID names the entry that is wrong; nothing to free on failure.
 */
hvd_status_t hvd_hosts_parse_list(const char *text, struct hvd_hosts *out, struct hvd_err *err);

/*
 * Reads a hostfile, lines "h1 slots=4", comments from '#', into *out, which must be empty.
 * HVD_ERR_INVALID names the line that is wrong; nothing to free on failure.
 */
hvd_status_t hvd_hosts_parse_file(struct hvd_strview text, struct hvd_hosts *out,
                                  struct hvd_err *err);

/* The slots of all hosts together. */
int64_t hvd_hosts_slots(const struct hvd_hosts *hosts);

/*
 * Keeps of the list just what n_proc processes fill, in order: the hosts behind are dropped.
 * HVD_ERR_INVALID with the numbers when there are fewer slots than processes.
 */
hvd_status_t hvd_hosts_fit(struct hvd_hosts *hosts, int64_t n_proc, struct hvd_err *err);

/* The name in the list of the host that runs a rank, NULL past the last slot. Borrowed. */
const char *hvd_hosts_of_rank(const struct hvd_hosts *hosts, int64_t rank);

/*
 * HVD_ERR_MISMATCH when not all hosts have the same major version of Open MPI as this one, which
 * has this_major: names the odd ones, those that differ from what most have. Hosts with version 0
 * are not looked at.
 */
hvd_status_t hvd_hosts_check_versions(const struct hvd_hosts *hosts, int this_major,
                                      struct hvd_err *err);

#endif
