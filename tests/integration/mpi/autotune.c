/* A training loop without training: twenty gradients a step, waited for at the end of the step, and
 * checked. Its one argument is the number of steps. */
#include <stdio.h>
#include <stdlib.h>

#include <horovod/horovod.h>

#define N_TENSORS 20
#define COUNT 5000

static float gradients[N_TENSORS][COUNT];

static int step(int number)
{
    horovod_handle_t handles[N_TENSORS];
    horovod_error_t err = {0};
    char name[32];

    for (int i = 0; i < N_TENSORS; i++) {
        for (int k = 0; k < COUNT; k++)
            gradients[i][k] = (float)(number % 7 + i);
        snprintf(name, sizeof(name), "gradient.%d", i);
        if (horovod_allreduce_async(gradients[i], gradients[i],
                                    HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32,
                                                   .ndim = 1, .shape = (const int64_t[]){COUNT},
                                                   .op = HOROVOD_SUM),
                                    &handles[i], &err) != HOROVOD_OK)
            goto fail;
    }
    for (int i = 0; i < N_TENSORS; i++) {
        if (horovod_wait(handles[i], &err) != HOROVOD_OK)
            goto fail;
        const float expected = (float)((number % 7 + i) * horovod_size());
        if (gradients[i][COUNT - 1] < expected || gradients[i][COUNT - 1] > expected) {
            fprintf(stderr, "step %d: gradient %d is wrong\n", number, i);
            return 1;
        }
    }
    return 0;
fail:
    fprintf(stderr, "step %d: %s\n", number, err.message);
    return 1;
}

int main(int argc, char **argv)
{
    const int n_steps = argc > 1 ? atoi(argv[1]) : 0;
    int failed = 0;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    for (int i = 0; i < n_steps && !failed; i++)
        failed = step(i);
    horovod_shutdown();
    return failed;
}
