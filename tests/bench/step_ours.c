/*
 * The step benchmark's table for libhorovod, over its public functions alone.
 */
#include <stdint.h>
#include <stdlib.h>

#include <horovod/horovod.h>

#include "tests/bench/step.h"

static struct {
    const struct step_tensor *tensors;
    horovod_tensor_t *descriptions;
    int64_t *shapes;
    horovod_handle_t *handles;
    size_t n;
    horovod_error_t err;
} ours;

static const char *init(void)
{
    if (horovod_init(NULL, 0, NULL, NULL, 0))
        return NULL;
    horovod_init_error(&ours.err);
    return ours.err.message;
}

static void forget(void)
{
    free(ours.descriptions);
    free(ours.shapes);
    free(ours.handles);
    ours.descriptions = NULL;
    ours.shapes = NULL;
    ours.handles = NULL;
    ours.n = 0;
}

static const char *prepare(const struct step_tensor *tensors, size_t n_tensors)
{
    ours.descriptions = calloc(n_tensors, sizeof(*ours.descriptions));
    ours.shapes = calloc(n_tensors, sizeof(*ours.shapes));
    ours.handles = calloc(n_tensors, sizeof(*ours.handles));
    if (!ours.descriptions || !ours.shapes || !ours.handles)
        return "out of memory";
    ours.tensors = tensors;
    ours.n = n_tensors;
    for (size_t i = 0; i < n_tensors; i++) {
        ours.shapes[i] = (int64_t)tensors[i].n;
        ours.descriptions[i] =
            *HOROVOD_TENSOR(.name = tensors[i].name, .dtype = HOROVOD_FLOAT32, .ndim = 1,
                            .shape = &ours.shapes[i],
                            .op = tensors[i].is_average ? HOROVOD_AVERAGE : HOROVOD_SUM);
    }
    return NULL;
}

static const char *step(void)
{
    for (size_t i = 0; i < ours.n; i++)
        if (horovod_allreduce_async(ours.tensors[i].input, ours.tensors[i].output,
                                    &ours.descriptions[i], &ours.handles[i],
                                    &ours.err) != HOROVOD_OK)
            return ours.err.message;
    for (size_t i = 0; i < ours.n; i++)
        if (horovod_wait(ours.handles[i], &ours.err) != HOROVOD_OK)
            return ours.err.message;
    return NULL;
}

const struct step_port step_ours = {
    .init = init, .prepare = prepare, .step = step, .forget = forget, .shutdown = horovod_shutdown};
