/*
 * Barrier: no rank continues before all ranks have called it. Use it in the rare cases in which
 * ranks exchange no data but must not run ahead. Here rank 0 of each host writes a file that all
 * its ranks read.
 *
 * Collectives need no barrier between them: each waits for the data that it needs.
 */
#include <horovod/horovod.h>
#include <stdio.h>
#include <stdlib.h>

static const char *path(void)
{
    const char *given = getenv("BARRIER_EXAMPLE_FILE");

    return given ? given : "/tmp/horovod-barrier-example";
}

static int write_file(void)
{
    FILE *file = fopen(path(), "w");

    if (!file)
        return 0;
    fprintf(file, "%d\n", 42);
    return fclose(file) == 0;
}

static int read_file(void)
{
    int number = 0;
    FILE *file = fopen(path(), "r");

    if (!file)
        return 0;
    const int n_read = fscanf(file, "%d", &number);
    fclose(file);
    return n_read == 1 && number == 42;
}

int main(void)
{
    horovod_error_t err = {0};
    int is_right = 1;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    if (horovod_local_rank() == 0) /* one rank of each host writes for the others */
        is_right = write_file();

    /* The file exists on every host, whichever rank comes last. */
    is_right = horovod_barrier(&err) == HOROVOD_OK && is_right;
    is_right = is_right && read_file();

    /* All ranks have read the file before its removal. */
    is_right = horovod_barrier(&err) == HOROVOD_OK && is_right;
    if (horovod_local_rank() == 0)
        remove(path());

    if (is_right)
        printf("rank %d of %d: has read the file\n", horovod_rank(), horovod_size());
    else
        fprintf(stderr, "rank %d: wrong: %s\n", horovod_rank(), err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
