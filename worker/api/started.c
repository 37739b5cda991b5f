/*
 * The library in a process that a rank has started by exec. It inherits the environment, and in it
 * the place that the launcher gave to the rank. MPI_Init would end the process, because that place
 * is taken, and later the rank would wait in MPI_Finalize for ever. So a rank sets a variable for
 * its children, and a process that finds the variable refuses to join.
 *
 * The variable holds the rank's process id, its number among all ranks, and its place. A process
 * that another launcher has started has another place. A process without a launcher has none. Holds
 * `life` of lifecycle.c: each process writes to the environment once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/api/api_internal.h"

#define LOCATION_MAX 512

/* The place that a launcher gave to a process. */
struct location {
    const char *rank;
    char text[LOCATION_MAX];
};

/* Reads the place from the environment; false if there is none. Open MPI sets PMIX_NAMESPACE also
 * in a process without a launcher, once MPI is initialised, so OMPI_MCA_ess is checked first: its
 * children have no launcher either. The other names are Slurm's own protocol. */
static bool find_location(struct location *out)
{
    static const char *const names[][2] = {{"PMIX_NAMESPACE", "PMIX_RANK"},
                                           {"PMI_JOBID", "PMI_RANK"}};
    const char *ess = getenv("OMPI_MCA_ess");

    if (ess && strcmp(ess, "singleton") == 0)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *job = getenv(names[i][0]);
        out->rank = getenv(names[i][1]);
        if (!job || !out->rank)
            continue;
        const int n = snprintf(out->text, sizeof(out->text), "%s %s", out->rank, job);
        return n > 0 && (size_t)n < sizeof(out->text);
    }
    return false;
}

static bool lives(pid_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

hvd_status_t hvd_api_check_started(struct hvd_err *err)
{
    const char *left = getenv(HVD_API_RANK_PROCESS);
    struct location location;
    char *end = NULL;

    if (!left || !find_location(&location))
        return HVD_OK;
    const long pid = strtol(left, &end, 10);
    if (pid <= 0 || pid == (long)getpid() || *end != ' ' || strcmp(end + 1, location.text) != 0 ||
        !lives((pid_t)pid))
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_STATE, 0,
                    "This process was started by rank %.16s (process %ld), which has initialized "
                    "Horovod already, and is no part of the job. In Python, guard the main module "
                    "with if __name__ == \"__main__\": where processes are started with \"spawn\" "
                    "(a DataLoader's workers), each of them imports that module.",
                    location.rank, pid);
}

void hvd_api_mark_children(void)
{
    struct location location;
    char value[LOCATION_MAX + 32];

    if (!find_location(&location))
        return;
    (void)snprintf(value, sizeof(value), "%ld %s", (long)getpid(), location.text);
    const char *left = getenv(HVD_API_RANK_PROCESS);
    if (!left || strcmp(left, value) != 0)
        (void)setenv(HVD_API_RANK_PROCESS, value, 1); /* on failure the children stay unmarked */
}
