#ifndef HVD_WORKER_LAUNCH_CORE_HOSTS_H
#define HVD_WORKER_LAUNCH_CORE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

#define HVD_HOST_NAME_MAX 253

/* One host and its number of processes. The checks fill the later fields. */
struct hvd_host {
    char *name; /* owned */
    int64_t slots;
    bool is_local;    /* this machine: reached without ssh */
    bool has_wrapper; /* it has horovodrun at the same path, so a wrapper can watch its ranks */
    int mpi_major;    /* major version of Open MPI; 0 = not known yet */
};

/* The hosts in the order in which ranks fill them. A zeroed struct is an empty list. */
struct hvd_hosts {
    struct hvd_host *items; /* owned */
    size_t n;
    size_t _capacity;
};

/* Frees the list, which is empty afterwards. */
void hvd_hosts_fini(struct hvd_hosts *hosts);

/*
 * Reads "h1:4,h2" (no number means one slot) into *out, which must be empty. The slots of a host
 * named twice are added. HVD_ERR_INVALID names the wrong entry; there is nothing to free on
 * failure.
 */
hvd_status_t hvd_hosts_parse_list(const char *text, struct hvd_hosts *out, struct hvd_err *err);

/*
 * Reads a hostfile, lines "h1 slots=4", comments from '#', into *out, which must be empty.
 * HVD_ERR_INVALID names the wrong line; there is nothing to free on failure.
 */
hvd_status_t hvd_hosts_parse_file(struct hvd_strview text, struct hvd_hosts *out,
                                  struct hvd_err *err);

/* The number of slots of all hosts. */
int64_t hvd_hosts_slots(const struct hvd_hosts *hosts);

/*
 * Reduces the list to the slots that n_proc processes fill, in order, and drops the other hosts.
 * HVD_ERR_INVALID gives both numbers when there are fewer slots than processes.
 */
hvd_status_t hvd_hosts_fit(struct hvd_hosts *hosts, int64_t n_proc, struct hvd_err *err);

/* The listed name of the host that runs a rank; NULL past the last slot. Borrowed. */
const char *hvd_hosts_of_rank(const struct hvd_hosts *hosts, int64_t rank);

/*
 * Fails with HVD_ERR_MISMATCH unless all hosts have this host's major version of Open MPI,
 * this_major. The error names the hosts that differ from the majority. Hosts with version 0 are
 * skipped.
 */
hvd_status_t hvd_hosts_check_versions(const struct hvd_hosts *hosts, int this_major,
                                      struct hvd_err *err);

#endif
