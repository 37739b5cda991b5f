/*
 * Tensors of random programs on fake devices. Where a tensor is, what devices can do, and how late
 * inputs come, follow from the seed without drawing from it: a program is the same one on the host.
 */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/device/fake.h"
#include "tests/unit/worker/engine/program.h"
#include "worker/engine/output.h"

/* Whether the device of a rank has collectives of its own: all have, none has, or but one. */
static bool moves(const struct program_run *r, int rank)
{
    const uint64_t kind = r->options->seed / 7 % 3;

    return kind == 0 || (kind == 1 && rank != r->options->n_ranks - 1);
}

/* Whether devices of equal hosts take three steps for an allreduce. */
static bool has_steps(const struct program_run *r)
{
    return r->options->seed / 11 % 2 == 0;
}

void program_open_devices(struct program_run *r)
{
    const struct hvd_sim_options sim = {
        .size = r->options->n_ranks, .seed = r->options->seed + 1, .max_delay = 3};

    if (hvd_sim_create(&sim, &r->inner, NULL) != HVD_OK)
        abort();
    for (int rank = 0; rank < sim.size; rank++) {
        if (moves(r, rank) && hvd_sim_join(r->inner, rank, &r->movers[rank], NULL) != HVD_OK)
            abort();
        const struct fake_options fake = {.seed = r->options->seed + (uint64_t)rank,
                                          .max_delay = (unsigned)(r->options->seed % 5),
                                          .mover = r->movers[rank],
                                          .in_steps = has_steps(r)};
        r->devices[rank] = fake_create(&fake);
    }
}

void program_close_devices(struct program_run *r)
{
    for (int rank = 0; rank < r->options->n_ranks; rank++) {
        fake_destroy(r->devices[rank]);
        if (r->movers[rank])
            r->movers[rank]->ops->destroy(r->movers[rank], true);
    }
    hvd_sim_destroy(r->inner);
}

/* Three steps add in another order than that of the ranks. */
bool program_is_on_device(const struct program_run *r, int round, int tensor)
{
    if (has_steps(r) && program_tensor_of(r, round, tensor)->is_rough)
        return false;
    return r->options->has_devices && (r->options->seed + (uint64_t)(tensor + round / 2)) % 3 != 0;
}

void program_load(struct program_run *r, int rank, struct program_submitted *s,
                  struct hvd_submission *submission)
{
    struct hvd_device_port *d = r->devices[rank];
    const bool is_shared = s->output == s->input;

    s->device = d;
    s->device_input = fake_put(d, s->input, s->bytes);
    s->device_output = is_shared ? s->device_input : fake_put(d, s->output, s->bytes);
    if ((r->options->seed + (uint64_t)rank) % 4 == 0)
        s->ready = fake_ready_after((unsigned)(s->bytes % 20) + 1);
    submission->request.device = HVD_GPU;
    submission->input = s->device_input;
    submission->output = submission->output ? s->device_output : NULL;
    submission->ready = s->ready;
}

void program_unload(struct program_submitted *s, struct horovod_output *output)
{
    if (!s->device)
        return;
    fake_get(s->device, s->output, s->device_output, s->bytes);
    if (!output || !output->data)
        return;
    void *copy = hvd_malloc(output->bytes, 1);
    if (!copy)
        abort();
    fake_get(s->device, copy, output->data, output->bytes);
    s->device->ops->free(s->device, output->data, output->after);
    output->data = copy;
    output->device = NULL;
}

void program_drop(struct program_submitted *s)
{
    if (!s->device)
        return;
    if (s->device_output != s->device_input)
        s->device->ops->free(s->device, s->device_output, NULL);
    s->device->ops->free(s->device, s->device_input, NULL);
    fake_ready_free(s->ready);
}
