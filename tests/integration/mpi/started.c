/*
 * Processes that a rank starts, with its place in their environment, and that call horovod_init.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define PARENT "HVD_TEST_PARENT"

void mode_inside(void)
{
    const char *parent = getenv(PARENT);
    horovod_error_t err = {0};
    char words[128];

    check(!horovod_init(NULL, 0, NULL, NULL, 0), "a process in a rank's place", "initialises");
    check(horovod_is_initialized() == 0 && horovod_rank() == -1, "it", "is a rank");
    check(horovod_init_error(&err) == HOROVOD_PRECONDITION_ERROR, "init_error", err.message);
    snprintf(words, sizeof(words), "This process was started by rank %s", parent ? parent : "");
    check(strstr(err.message, words) != NULL, words, err.message);
    check(strstr(err.message, "if __name__ == \"__main__\":") != NULL, "no advice", err.message);
    check(!horovod_init(NULL, 0, NULL, NULL, 0), "a second time", "initialises");
    horovod_shutdown();
}

/* Starts this program in that mode, and waits for it. */
static void start_one(const char *as, const char *when)
{
    char self[] = "/proc/self/exe";
    char name[] = "mpi_runtime";
    char mode[16];
    char *arguments[] = {name, mode, NULL};
    pid_t child = 0;
    int status = -1;

    snprintf(mode, sizeof(mode), "%s", as);
    check(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0 &&
              waitpid(child, &status, 0) == child,
          when, "could not start one");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, when, "the process ended badly");
}

void mode_started(void)
{
    char rank[16];

    must_init();
    snprintf(rank, sizeof(rank), "%d", horovod_rank());
    check(setenv(PARENT, rank, 1) == 0, "setenv", "failed");
    start_one("inside", "while the job runs");
    check_sum("the job goes on");
    horovod_shutdown_job();
    start_one("inside", "between two jobs");
    must_init();
    check_sum("the next job");
    horovod_shutdown();
    start_one("inside", "after MPI");
}

void mode_alone(void)
{
    const bool is_child = getenv(PARENT) != NULL;

    must_init();
    check(setenv(PARENT, "0", 1) == 0, "setenv", "failed");
    start_one(is_child ? "gather" : "alone", "beside a job of one");
    horovod_shutdown();
}
