/*
 * horovodrun: runs N processes of a program over Open MPI, here or on a list of hosts. Started by
 * mpirun in place of a rank, the same program is the wrapper around it (rank.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/launch/core/options.h"
#include "worker/launch/launch.h"
#include "worker/launch/rank.h"

#define EXIT_NOT_STARTED 1
#define EXIT_USAGE 2

int main(int argc, char **argv)
{
    struct hvd_launch_options options = {0};
    struct hvd_err err = {0};
    hvd_status_t st;
    int code = 0;

    if (argc > 1 && strcmp(argv[1], HVD_RANK_EXEC) == 0)
        return hvd_rank_exec(argc, argv);
    st = hvd_launch_options_parse(argc, argv, getenv("HOROVOD_START_TIMEOUT"), &options, &err);
    if (st < 0) {
        (void)fprintf(stderr, "horovodrun: %s\n", err.msg);
        return EXIT_USAGE;
    }
    if (options.wants_help) {
        (void)fputs(hvd_launch_options_help(), stdout);
    } else if (options.wants_version) {
        (void)puts("horovodrun " HVD_VERSION);
    } else {
        st = hvd_launch(&options, &code, &err);
        if (st < 0) {
            (void)fprintf(stderr, "horovodrun: %s\n", err.msg);
            code = EXIT_NOT_STARTED;
        }
    }
    hvd_launch_options_fini(&options);
    return code;
}
