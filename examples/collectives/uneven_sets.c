/*
 * Process sets that end at different times: the even ranks take three steps, the odd ones five, and
 * no set waits for the other meanwhile. The set that ends first must neither call horovod_shutdown
 * nor remove sets: all ranks do that together, and it would end the other one's steps. The set
 * waits in a barrier of the whole job, which costs nothing, until all ranks have come.
 */
#include <horovod/horovod.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_MAX = 64 };

/* Adds the set of the ranks first, first + 2, ...; returns its number, or a negative error. */
static int add_every_other(int first, int size)
{
    int ranks[RANKS_MAX], n = 0;

    for (int rank = first; rank < size && n < RANKS_MAX; rank += 2)
        ranks[n++] = rank;
    return horovod_add_process_set(ranks, n);
}

/* One step: the first rank of the set broadcasts the step's number, then the set counts its ranks.
 * A root is a rank of the job, also in a process set. */
static int step(int set, int root, int number, horovod_error_t *err)
{
    int64_t count = 1, began = horovod_rank() == root ? number : -1;

    return horovod_broadcast(&began, &began,
                             HOROVOD_TENSOR(.name = "began", .dtype = HOROVOD_INT64, .ndim = 0,
                                            .root_rank = root, .process_set = set),
                             err) == HOROVOD_OK &&
           horovod_allreduce(&count, &count,
                             HOROVOD_TENSOR(.name = "count", .dtype = HOROVOD_INT64, .ndim = 0,
                                            .op = HOROVOD_SUM, .process_set = set),
                             err) == HOROVOD_OK &&
           began == number && count == horovod_process_set_size(set);
}

int main(void)
{
    horovod_error_t err = {0};
    int sets[2] = {0, 0}, is_right = 1, n_steps = 0;

    setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1", 0);
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size(), parity = rank % 2;

    for (int first = 0; first < 2 && size > 1; first++)
        sets[first] = add_every_other(first, size);
    while (n_steps < 3 + 2 * parity && is_right)
        is_right = step(sets[parity], parity, n_steps++, &err);

    is_right = horovod_barrier(&err) == HOROVOD_OK && is_right; /* all are done */
    for (int first = 0; first < 2 && size > 1; first++)
        is_right = horovod_remove_process_set(sets[first]) == sets[first] && is_right;

    if (is_right)
        printf("rank %d of %d: %d steps\n", rank, size, n_steps);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
