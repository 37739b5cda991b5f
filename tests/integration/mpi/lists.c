/*
 * lists LIST ...: rank r passes the r-th list to horovod_init, as "0,1,2", or "all", and writes
 * what comes of it. With LISTS_MPI the program has initialised MPI before.
 */
#include <horovod/horovod.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 64

static int read_list(char *text, int ranks[RANKS_MAX])
{
    int n = 0;

    if (strcmp(text, "all") == 0)
        return 0;
    for (char *at = strtok(text, ","); at && n < RANKS_MAX; at = strtok(NULL, ","))
        ranks[n++] = atoi(at);
    return n;
}

int main(int argc, char **argv)
{
    const char *place = getenv("OMPI_COMM_WORLD_RANK");
    const int self = place ? atoi(place) : 0;
    horovod_error_t err = {0};
    int ranks[RANKS_MAX];
    int level = 0;
    char line[1200];

    if (self + 1 >= argc)
        return 2;
    if (getenv("LISTS_MPI"))
        (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    const int n = read_list(argv[self + 1], ranks);
    const bool is_good = horovod_init(n > 0 ? ranks : NULL, n, NULL, NULL, 0);
    (void)horovod_init_error(&err);
    if (is_good)
        snprintf(line, sizeof(line), "[%d] rank %d of %d\n", self, horovod_rank(), horovod_size());
    else
        snprintf(line, sizeof(line), "[%d] %s\n", self, err.message);
    fputs(line, stdout);
    fflush(stdout);
    horovod_shutdown();
    if (is_good && getenv("LISTS_MPI"))
        (void)MPI_Finalize();
    return is_good ? 0 : 1;
}
