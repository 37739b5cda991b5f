/*
 * Ranks with a GPU each, through the public API. What a collective of tensors in the memory of the
 * GPU returns is compared with what it returns for the same tensors in the memory of the host.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <horovod/horovod.h>

#include "tests/integration/cuda/gpu.h"

#define N_DTYPES 13
#define N_REDUCES 6
#define COLUMNS 5
#define MANY 140000 /* elements: more than what is packed, for every type but those of a byte */
#define N_KINDS_MAX 64
#define N_STEPS 20
#define N_GRADIENTS 24
#define LOST_MS 5000
#define SHUTDOWN_MS 2000 /* HOROVOD_STALL_SHUTDOWN_TIME_SECONDS of mode late */
#define RELEASE_S 3      /* afterwards, so that the GPU of the late rank need not be given up */

enum collective { ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, N_COLLECTIVES };

static const size_t widths[N_DTYPES] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2, 4, 8};

static int failures;
static void *stream;
static int device;
static bool is_exact; /* through the memory of the host */

static void check(bool good, const char *what, const char *detail)
{
    if (good)
        return;
    (void)fprintf(stderr, "rank %d: %s: %s\n", horovod_rank(), what, detail);
    failures++;
}

/* --- Elements --------------------------------------------------------------------------------- */

static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const int exponent = (int)(bits >> 23 & 255) - 127 + 15;
    return value == 0 ? 0 : (uint16_t)((uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

static float of_half(uint16_t half)
{
    const float fraction = (float)(half & 1023) / 1024;
    const int exponent = half >> 10 & 31;

    if (exponent == 31)
        return INFINITY;
    return (half >> 15 ? -1.0f : 1.0f) *
           (exponent ? ldexpf(1 + fraction, exponent - 15) : ldexpf(fraction, -14));
}

static void store(horovod_dtype_t dtype, void *data, int64_t i, int value)
{
    char *at = (char *)data + (size_t)i * widths[dtype];
    const float single = (float)value;
    const double precise = value;
    const int64_t integer = dtype == HOROVOD_BOOL ? value % 2 : value;
    uint16_t narrow = half_of(single);

    if (dtype == HOROVOD_BFLOAT16)
        memcpy(&narrow, (const char *)&single + 2, sizeof(narrow));
    if (dtype == HOROVOD_FLOAT16 || dtype == HOROVOD_BFLOAT16)
        memcpy(at, &narrow, sizeof(narrow));
    else if (dtype == HOROVOD_FLOAT32)
        memcpy(at, &single, sizeof(single));
    else if (dtype == HOROVOD_FLOAT64)
        memcpy(at, &precise, sizeof(precise));
    else
        memcpy(at, &integer, widths[dtype]);
}

/* Whether two elements are the same, or close for floats that NCCL adds in an order of its own. */
static bool is_same(horovod_dtype_t dtype, const char *a, const char *b)
{
    uint16_t narrow[2];
    float single[2];
    double x = 0;
    double y = 0;

    if (memcmp(a, b, widths[dtype]) == 0)
        return true;
    memcpy(&narrow[0], a, sizeof(narrow[0]) * (widths[dtype] > 1));
    memcpy(&narrow[1], b, sizeof(narrow[1]) * (widths[dtype] > 1));
    if (dtype == HOROVOD_FLOAT16) {
        x = of_half(narrow[0]);
        y = of_half(narrow[1]);
    } else if (dtype == HOROVOD_BFLOAT16) {
        const uint32_t bits[] = {(uint32_t)narrow[0] << 16, (uint32_t)narrow[1] << 16};
        memcpy(single, bits, sizeof(single));
        x = single[0];
        y = single[1];
    } else if (dtype == HOROVOD_FLOAT32) {
        memcpy(&single[0], a, sizeof(float));
        memcpy(&single[1], b, sizeof(float));
        x = single[0];
        y = single[1];
    } else if (dtype == HOROVOD_FLOAT64) {
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
    } else {
        return false;
    }
    return !is_exact && fabs(x - y) <= fabs(y) / 64;
}

/* --- One collective --------------------------------------------------------------------------- */

/* A collective with its memory on one side. */
struct one {
    enum collective collective;
    horovod_dtype_t dtype;
    horovod_reduce_op_t op;
    int64_t rows;
    int set;
    int set_rank;
    int set_size;
    double prescale;
    char name[64];
    /* of a run */
    horovod_memory_t memory;
    size_t in_bytes;
    size_t out_bytes;
    void *input;
    void *output;
    horovod_status_t status;
    horovod_handle_t handle;
    horovod_output_t *made;
    horovod_error_t err;
};

static bool makes_output(const struct one *o)
{
    return o->collective == ALLGATHER || o->collective == ALLTOALL;
}

static void submit(struct one *o)
{
    const int64_t shape[] = {o->rows, COLUMNS};
    int64_t splits[8];
    const horovod_tensor_t tensor = {.size = sizeof(tensor),
                                     .name = o->name,
                                     .dtype = o->dtype,
                                     .ndim = 2,
                                     .shape = shape,
                                     .op = o->op,
                                     .root_rank = horovod_size() - 1,
                                     .process_set = o->set,
                                     .prescale_factor = o->prescale,
                                     .splits = o->collective == ALLTOALL ? splits : NULL,
                                     .n_splits = o->collective == ALLTOALL ? o->set_size : 0,
                                     .memory = o->memory,
                                     .device = device,
                                     .stream = stream};

    for (int i = 0; i < o->set_size; i++)
        splits[i] = i == o->set_rank ? o->rows : 0;
    if (o->rows >= 2 && o->set_size > 1) { /* uneven, and some of them empty */
        splits[o->set_rank] = o->rows - 1;
        splits[(o->set_rank + 1) % o->set_size] = 1;
    }
    if (o->collective == ALLREDUCE)
        o->status = horovod_allreduce_async(o->input, o->output, &tensor, &o->handle, &o->err);
    else if (o->collective == ALLGATHER)
        o->status = horovod_allgather_async(o->input, &tensor, &o->handle, &o->err);
    else if (o->collective == BROADCAST)
        o->status = horovod_broadcast_async(o->input, o->output, &tensor, &o->handle, &o->err);
    else if (o->collective == ALLTOALL)
        o->status = horovod_alltoall_async(o->input, &tensor, &o->handle, &o->err);
    else
        o->status = horovod_reducescatter_async(o->input, o->output, &tensor, &o->handle, &o->err);
}

static void wait_for(struct one *o)
{
    if (o->status == HOROVOD_OK)
        o->status = horovod_wait_stream(o->handle, stream, -1, &o->made, &o->err);
    if (o->made)
        o->out_bytes = horovod_output_bytes(o->made);
}

/* Sets the sizes and the input, whose values depend on rank and place. */
static void prepare(struct one *o, horovod_memory_t memory)
{
    const int64_t out_rows = o->collective == REDUCESCATTER
                                 ? horovod_reducescatter_rows(o->rows, o->set_rank, o->set_size)
                                 : o->rows;
    char *values;

    o->memory = memory;
    o->in_bytes = (size_t)o->rows * COLUMNS * widths[o->dtype];
    o->out_bytes = makes_output(o) ? 0 : (size_t)out_rows * COLUMNS * widths[o->dtype];
    values = calloc(1, o->in_bytes + 1);
    for (int64_t i = 0; i < o->rows * COLUMNS; i++)
        store(o->dtype, values, i, (int)((horovod_rank() + i) % 3) + 1);
    if (memory == HOROVOD_MEMORY_HOST) {
        o->input = values;
        o->output = calloc(1, o->out_bytes + 1);
        return;
    }
    o->input = gpu_alloc(stream, o->in_bytes);
    o->output = gpu_alloc(stream, o->out_bytes);
    gpu_put(stream, o->input, values, o->in_bytes);
    free(values);
}

/* The result in the memory of the host, to be freed. */
static char *result_of(struct one *o)
{
    char *result = calloc(1, o->out_bytes + 1);
    const void *from =
        makes_output(o) ? (o->made ? horovod_output_data(o->made) : NULL) : o->output;

    if (o->memory == HOROVOD_MEMORY_HOST && from)
        memcpy(result, from, o->out_bytes);
    else if (from)
        gpu_get(stream, result, from, o->out_bytes);
    return result;
}

static void finish(struct one *o)
{
    horovod_output_release(o->made);
    if (o->memory == HOROVOD_MEMORY_HOST) {
        free(o->input);
        free(o->output);
    } else {
        gpu_free(stream, o->input);
        gpu_free(stream, o->output);
    }
}

/* Compares a collective of the GPU with the same one of the host; frees both. */
static void compare(struct one *gpu, struct one *host)
{
    char text[HOROVOD_MESSAGE_MAX + 200];

    snprintf(text, sizeof(text), "%s, and on the host %s: %s", horovod_status_name(gpu->status),
             horovod_status_name(host->status), gpu->err.message);
    check(gpu->status == host->status, gpu->name, text);
    check(gpu->out_bytes == host->out_bytes, gpu->name, "size of the output");
    if (gpu->status == HOROVOD_OK && host->status == HOROVOD_OK &&
        gpu->out_bytes == host->out_bytes) {
        char *seen = result_of(gpu);
        char *wanted = result_of(host);
        const size_t width = widths[gpu->dtype];
        size_t n_wrong = 0;
        for (size_t i = 0; i < gpu->out_bytes / width; i++)
            n_wrong += !is_same(gpu->dtype, seen + i * width, wanted + i * width);
        snprintf(text, sizeof(text), "%zu of %zu elements are wrong", n_wrong,
                 gpu->out_bytes / width);
        check(n_wrong == 0, gpu->name, text);
        free(seen);
        free(wanted);
    }
    finish(gpu);
    finish(host);
}

/* Runs collectives on the host, then all at once on the GPU, in an order of each rank's own. */
static void run(struct one *all, int n)
{
    struct one *hosts = calloc((size_t)n, sizeof(*hosts));

    for (int i = 0; i < n; i++) {
        hosts[i] = all[i];
        prepare(&hosts[i], HOROVOD_MEMORY_HOST);
        submit(&hosts[i]);
        wait_for(&hosts[i]);
        prepare(&all[i], HOROVOD_MEMORY_CUDA);
    }
    const int stride = n % 7 == 0 ? 1 : 7;
    for (int i = 0; i < n; i++)
        submit(&all[(i * stride + horovod_rank() * 3) % n]);
    for (int i = 0; i < n; i++)
        wait_for(&all[i]);
    for (int i = 0; i < n; i++)
        compare(&all[i], &hosts[i]);
    gpu_finish(stream);
    free(hosts);
}

static void fill(struct one *o, enum collective collective, horovod_dtype_t dtype,
                 horovod_reduce_op_t op, int64_t rows)
{
    static int number;

    *o = (struct one){.collective = collective,
                      .dtype = dtype,
                      .op = op,
                      .rows = rows,
                      .set_rank = horovod_rank(),
                      .set_size = horovod_size()};
    snprintf(o->name, sizeof(o->name), "c%d.t%d.o%d.n%d", (int)collective, (int)dtype, (int)op,
             number++);
}

/* --- Modes ------------------------------------------------------------------------------------ */

/* Every collective of every type and reduction, several sizes at once. */
static void mode_collectives(void)
{
    static const int64_t rows[] = {1, 7, 0, 200, MANY / COLUMNS};
    struct one all[N_KINDS_MAX];

    for (int dtype = 0; dtype < N_DTYPES; dtype++) {
        int n = 0;
        for (int op = 0; op < N_REDUCES; op++)
            for (int k = 0; k < (op == HOROVOD_SUM || op == HOROVOD_AVERAGE ? 5 : 2); k++)
                fill(&all[n++], ALLREDUCE, (horovod_dtype_t)dtype, (horovod_reduce_op_t)op,
                     rows[(k + op) % 5]);
        fill(&all[n], ALLREDUCE, (horovod_dtype_t)dtype, HOROVOD_SUM, 9);
        all[n++].prescale = 2;
        for (int k = 0; k < 3; k++) {
            fill(&all[n++], ALLGATHER, (horovod_dtype_t)dtype, HOROVOD_SUM,
                 (horovod_rank() + k) % 3 + 40 * (k == 2));
            fill(&all[n++], BROADCAST, (horovod_dtype_t)dtype, HOROVOD_SUM, rows[k]);
            fill(&all[n++], ALLTOALL, (horovod_dtype_t)dtype, HOROVOD_SUM,
                 (horovod_rank() + k) % 4);
            fill(&all[n++], REDUCESCATTER, (horovod_dtype_t)dtype, HOROVOD_SUM, 3 + 11 * k);
        }
        fill(&all[n++], REDUCESCATTER, (horovod_dtype_t)dtype, HOROVOD_AVERAGE, 12);
        run(all, n);
    }
}

/* Steps of a training loop: the same gradients again and again, alone and in a group. */
static void mode_steps(void)
{
    const void *inputs[N_GRADIENTS];
    void *outputs[N_GRADIENTS];
    horovod_tensor_t tensors[N_GRADIENTS];
    const horovod_tensor_t *pointers[N_GRADIENTS];
    char names[N_GRADIENTS][32];
    horovod_handle_t handles[N_GRADIENTS];
    horovod_error_t err = {0};
    float values[300];
    const int64_t shape[] = {300};
    horovod_counters_t before = {.size = sizeof(before)};
    horovod_counters_t after = {.size = sizeof(after)};

    for (int i = 0; i < N_GRADIENTS; i++) {
        outputs[i] = gpu_alloc(stream, sizeof(values));
        inputs[i] = outputs[i];
        tensors[i] = (horovod_tensor_t){.size = sizeof(tensors[i]),
                                        .name = names[i],
                                        .dtype = HOROVOD_FLOAT32,
                                        .ndim = 1,
                                        .shape = shape,
                                        .memory = HOROVOD_MEMORY_CUDA,
                                        .device = device,
                                        .stream = stream};
        pointers[i] = &tensors[i];
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int i = 0; i < N_GRADIENTS; i++) {
            snprintf(names[i], sizeof(names[i]), "%s %d", step % 2 ? "grouped" : "alone", i);
            for (int k = 0; k < 300; k++)
                values[k] = (float)(horovod_rank() * 4 + step + i);
            gpu_put(stream, outputs[i], values, sizeof(values));
        }
        if (step == N_STEPS / 2)
            (void)horovod_counters(&before, NULL);
        if (step % 2)
            check(horovod_grouped_allreduce_async(N_GRADIENTS, inputs, outputs, pointers, handles,
                                                  &err) == HOROVOD_OK,
                  "group", err.message);
        for (int i = 0; i < N_GRADIENTS && step % 2 == 0; i++)
            check(horovod_allreduce_async(inputs[i], outputs[i], &tensors[i], &handles[i], &err) ==
                      HOROVOD_OK,
                  names[i], err.message);
        for (int i = 0; i < N_GRADIENTS; i++) {
            if (step % 5 == 4)
                while (horovod_poll(handles[i]) == 0)
                    ;
            check(horovod_wait_stream(handles[i], stream, 60000, NULL, &err) == HOROVOD_OK,
                  names[i], err.message);
        }
        for (int i = 0; i < N_GRADIENTS; i++) {
            gpu_get(stream, values, outputs[i], sizeof(values));
            const float wanted = (float)(horovod_size() - 1) * 2 + (float)(step + i);
            check(fabsf(values[299] - wanted) <= wanted / 1000, names[i], "wrong average");
        }
        gpu_finish(stream);
    }
    (void)horovod_counters(&after, NULL);
    check(after.plan_hits > before.plan_hits, "steps", "the layout was not cached");
    for (int i = 0; i < N_GRADIENTS; i++)
        gpu_free(stream, outputs[i]);
}

/* More sets than a GPU has room for at once, one after the other; a handle outlives its set. */
static void mode_many_sets(void)
{
    const int all_but_one[] = {0, 1};
    struct one gpu;

    for (int round = 0; round < 70; round++) {
        const int set = horovod_add_process_set(all_but_one, 2);
        const bool is_in = horovod_process_set_included(set) == 1;
        check(set > 0, "many sets", "not added");
        fill(&gpu, ALLREDUCE, HOROVOD_INT32, HOROVOD_SUM, 8);
        snprintf(gpu.name, sizeof(gpu.name), "round %d", round);
        gpu.set = set;
        if (is_in) {
            prepare(&gpu, HOROVOD_MEMORY_CUDA);
            submit(&gpu);
            while (gpu.status == HOROVOD_OK && horovod_poll(gpu.handle) == 0)
                ;
        }
        check(horovod_remove_process_set(set) == set, "many sets", "not removed");
        if (!is_in)
            continue;
        wait_for(&gpu);
        check(gpu.status == HOROVOD_OK, gpu.name, gpu.err.message);
        char *seen = result_of(&gpu);
        int32_t first = 0;
        memcpy(&first, seen, sizeof(first));
        check(first == 3, gpu.name, "wrong sum");
        free(seen);
        finish(&gpu);
        gpu_finish(stream);
    }
}

/* Sets side by side with the whole job. */
static void mode_sets(void)
{
    int evens[8];
    int odds[8];
    int n_evens = 0;
    int n_odds = 0;
    struct one all[N_KINDS_MAX];

    for (int rank = 0; rank < horovod_size(); rank++)
        *(rank % 2 ? &odds[n_odds++] : &evens[n_evens++]) = rank;
    for (int round = 0; round < 3; round++) {
        const int even = horovod_add_process_set(evens, n_evens);
        const int odd = n_odds ? horovod_add_process_set(odds, n_odds) : 0;
        const int mine = horovod_rank() % 2 ? odd : even;
        int n = 0;
        check(even > 0 && odd >= 0, "sets", "not added");
        for (int k = 0; k < 10; k++) {
            fill(&all[n++], k % 3 ? ALLREDUCE : ALLGATHER, HOROVOD_FLOAT32, HOROVOD_SUM, 5 + k);
            fill(&all[n], ALLREDUCE, HOROVOD_INT64, HOROVOD_SUM, 30 + k);
            snprintf(all[n].name, sizeof(all[n].name), "set %d.%d", round, k);
            all[n].set = mine;
            all[n].set_rank = horovod_process_set_rank(mine);
            all[n++].set_size = horovod_process_set_size(mine);
        }
        run(all, n);
        if (odd > 0)
            check(horovod_remove_process_set(odd) == odd, "sets", "not removed");
        check(horovod_remove_process_set(even) == even, "sets", "not removed");
    }
}

static uint32_t drawn = 1;

/* A number below n, the same on every rank. */
static int draw(int n)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (int)((drawn >> 8) % (uint32_t)n);
}

/* Random collectives of the job and of two sets, on two streams in turn. */
static void mode_random(void)
{
    void *streams[] = {stream, gpu_open(device)};
    int all_but_last[8];
    struct one all[N_KINDS_MAX];
    const char *const programs = getenv("GPU_RANKS_PROGRAMS");
    const int n_programs = programs ? atoi(programs) : 10;

    for (int rank = 0; rank < horovod_size(); rank++)
        all_but_last[rank] = rank;
    const int set = horovod_add_process_set(all_but_last, horovod_size() - 1);
    check(set > 0, "random", "no set");
    for (int program = 0; program < n_programs; program++) {
        const int n = 1 + draw(20);
        int n_mine = 0;
        stream = streams[program % 2];
        for (int i = 0; i < n; i++) {
            const int collective = draw(N_COLLECTIVES);
            const int dtype = draw(N_DTYPES);
            const int op = draw(collective == ALLREDUCE ? N_REDUCES : 2);
            const int size = draw(20);
            const bool is_of_set = draw(3) == 0 && collective != BROADCAST;
            struct one *o = &all[n_mine];
            fill(o, (enum collective)collective, (horovod_dtype_t)dtype, (horovod_reduce_op_t)op,
                 size == 0 ? MANY / COLUMNS : draw(300));
            if (!is_of_set) {
                n_mine++;
                continue;
            }
            snprintf(o->name, sizeof(o->name), "set %d.%d", program, i);
            o->set = set;
            o->set_rank = horovod_process_set_rank(set);
            o->set_size = horovod_size() - 1;
            n_mine += o->set_rank >= 0;
        }
        if (n_mine > 0)
            run(all, n_mine);
    }
    stream = streams[0];
}

/* One value on the GPU, the same on each rank but for its rank. */
static float sum_of(const char *name, horovod_status_t *status, horovod_error_t *err)
{
    const int64_t shape[] = {1};
    float value = (float)horovod_rank() + 1;
    void *memory = gpu_alloc(stream, sizeof(value));

    gpu_put(stream, memory, &value, sizeof(value));
    *status = horovod_allreduce(memory, memory,
                                HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                               .shape = shape, .op = HOROVOD_SUM,
                                               .memory = HOROVOD_MEMORY_CUDA, .device = device,
                                               .stream = stream),
                                err);
    if (*status == HOROVOD_OK)
        gpu_get(stream, &value, memory, sizeof(value));
    gpu_free(stream, memory);
    return value;
}

static void check_sum(const char *name, float wanted)
{
    horovod_status_t status;
    horovod_error_t err = {0};
    const float seen = sum_of(name, &status, &err);

    check(status == HOROVOD_OK, name, err.message);
    check(seen == wanted, name, "wrong sum");
}

static float sum_from(int rank)
{
    float sum = 0;

    for (; rank < horovod_size(); rank++)
        sum += (float)rank + 1;
    return sum;
}

/* Ranks join one after the other, and the first one before it had a tensor on its GPU. */
static void mode_join(void)
{
    char name[32];
    int last = -1;

    for (int round = 0; round < 3; round++) {
        for (int step = 0; step < horovod_rank(); step++) {
            snprintf(name, sizeof(name), "round %d step %d", round, step);
            check_sum(name, sum_from(step + 1));
        }
        check(horovod_join(&last, NULL) == HOROVOD_OK, "join", "failed");
        check(last == horovod_size() - 1, "join", "the last rank");
        snprintf(name, sizeof(name), "round %d", round);
        check_sum(name, sum_from(0));
    }
}

static void expect_refusal(horovod_memory_t memory, int on, const void *input, void *output,
                           void *its_stream, const char *wanted)
{
    const int64_t shape[] = {4};
    horovod_error_t err = {0};
    const horovod_status_t status = horovod_allreduce(
        input, output,
        HOROVOD_TENSOR(.name = "refused", .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = shape,
                       .memory = memory, .device = on, .stream = its_stream),
        &err);

    check(status == HOROVOD_INVALID_ARGUMENT, wanted, horovod_status_name(status));
    check(strstr(err.message, wanted) != NULL, wanted, err.message);
}

/* The wait is refused, and leaves no work behind that uses the memory. */
static void wait_on_a_captured_stream(void)
{
    void *other = gpu_open(device);
    struct one gpu;

    fill(&gpu, ALLREDUCE, HOROVOD_FLOAT32, HOROVOD_SUM, 50);
    prepare(&gpu, HOROVOD_MEMORY_CUDA);
    submit(&gpu);
    gpu_capture(other, true);
    gpu.status = horovod_wait_stream(gpu.handle, other, -1, NULL, &gpu.err);
    gpu_capture(other, false);
    check(gpu.status == HOROVOD_INVALID_ARGUMENT, "captured", horovod_status_name(gpu.status));
    check(strstr(gpu.err.message, "captured into a graph") != NULL, "captured", gpu.err.message);
    finish(&gpu);
}

/* What a program may do wrong: the same on every rank, which all get the reason. */
static void mode_refusals(void)
{
    float values[4] = {0};
    void *memory = gpu_alloc(stream, sizeof(values));
    const horovod_memory_t unknown = (horovod_memory_t)7;

    gpu_put(stream, memory, values, sizeof(values));
    expect_refusal(unknown, device, memory, memory, stream, "memory is 7");
    expect_refusal(HOROVOD_MEMORY_CUDA, 99, memory, memory, stream, "GPU 99");
    check_sum("before", sum_from(0));
    expect_refusal(HOROVOD_MEMORY_CUDA, device + 1, memory, memory, stream, "a rank has one GPU");
    expect_refusal(HOROVOD_MEMORY_CUDA, device, values, memory, stream,
                   "input is not memory of a GPU");
    expect_refusal(HOROVOD_MEMORY_CUDA, device, memory, values, stream,
                   "output is not memory of a GPU");
    expect_refusal(HOROVOD_MEMORY_CUDA, device, memory, NULL, stream, "output is NULL");
    expect_refusal(HOROVOD_MEMORY_CUDA, device, (char *)memory + 1, (char *)memory + 1, stream,
                   "is not aligned for its type");
    gpu_capture(stream, true);
    expect_refusal(HOROVOD_MEMORY_CUDA, device, memory, memory, stream, "captured into a graph");
    gpu_capture(stream, false);
    wait_on_a_captured_stream();
    check_sum("behind", sum_from(0));
    gpu_free(stream, memory);
}

/* The last rank has the tensor in the memory of the host. */
static void mode_mixed(void)
{
    const int64_t shape[] = {4};
    const bool is_host = horovod_rank() == horovod_size() - 1;
    float values[4] = {0};
    void *memory = gpu_alloc(stream, sizeof(values));
    horovod_error_t err = {0};

    gpu_put(stream, memory, values, sizeof(values));
    const horovod_status_t status = horovod_allreduce(
        is_host ? values : memory, is_host ? values : memory,
        HOROVOD_TENSOR(.name = "mixed", .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = shape,
                       .memory = is_host ? HOROVOD_MEMORY_HOST : HOROVOD_MEMORY_CUDA,
                       .device = device, .stream = stream),
        &err);
    check(status == HOROVOD_PRECONDITION_ERROR, "mixed", horovod_status_name(status));
    check(strstr(err.message, "Mismatched ALLREDUCE CPU/GPU device selection") != NULL, "mixed",
          err.message);
    check_sum("behind", sum_from(0));
    gpu_free(stream, memory);
}

/* A forked process may release what it has inherited, as interpreters do. */
static void release_in_child(horovod_output_t *output)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        (void)alarm(20);
        horovod_output_release(output);
        _exit(0);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork",
          "the child did not end well");
}

/* Jobs that follow one another, and an output that outlives its job. */
static void mode_jobs(void)
{
    const int64_t shape[] = {1, COLUMNS};
    const float values[COLUMNS] = {1, 2, 3, 4, 5};
    void *memory = gpu_alloc(stream, sizeof(values));
    float seen[8 * COLUMNS];

    gpu_put(stream, memory, values, sizeof(values));
    for (int job = 0; job < 3; job++) {
        horovod_handle_t handle = 0;
        horovod_output_t *output = NULL;
        horovod_error_t err = {0};
        check_sum("sum", sum_from(0));
        check(horovod_allgather_async(memory,
                                      HOROVOD_TENSOR(.name = "rows", .dtype = HOROVOD_FLOAT32,
                                                     .ndim = 2, .shape = shape,
                                                     .memory = HOROVOD_MEMORY_CUDA,
                                                     .device = device, .stream = stream),
                                      &handle, &err) == HOROVOD_OK,
              "rows", err.message);
        check(horovod_wait_stream(handle, stream, -1, &output, &err) == HOROVOD_OK, "rows",
              err.message);
        const int size = horovod_size();
        horovod_shutdown_job();
        if (!horovod_init(NULL, 0, NULL, NULL, 0))
            exit(1);
        check(output && horovod_output_device(output) == device, "rows", "is not on the GPU");
        gpu_get(stream, seen, horovod_output_data(output), (size_t)size * sizeof(values));
        check(seen[size * COLUMNS - 1] == 5, "rows", "wrong");
        release_in_child(output);
        horovod_output_release(output);
    }
    gpu_free(stream, memory);
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last rank dies while the others have work on their GPUs that waits for it. */
static void mode_killed(void)
{
    const int victim = horovod_size() - 1;
    char wanted[32];
    struct one last;
    horovod_status_t status = HOROVOD_OK;
    horovod_error_t err = {0};

    check_sum("before", sum_from(0));
    fill(&last, ALLREDUCE, HOROVOD_FLOAT32, HOROVOD_SUM, MANY);
    prepare(&last, HOROVOD_MEMORY_CUDA);
    submit(&last);
    wait_for(&last); /* it is launched now, and late on this rank's GPU */
    if (horovod_rank() == victim)
        raise(SIGKILL);
    const int64_t start_ms = now_ms();
    if (last.status != HOROVOD_OK) { /* the victim was faster */
        status = last.status;
        err = last.err;
    }
    while (status == HOROVOD_OK)
        (void)sum_of("after", &status, &err);
    snprintf(wanted, sizeof(wanted), "ank %d", victim);
    check(status == HOROVOD_ABORTED, "after", horovod_status_name(status));
    check(strstr(err.message, wanted) != NULL, wanted, err.message);
    check(now_ms() - start_ms <= LOST_MS, "after", "took too long");
    if (failures == 0)
        (void)fprintf(stderr, "rank %d knows: %s\n", horovod_rank(), err.message);
    _exit(failures ? 1 : 0);
}

/* The same while the others wait for their GPUs alone, and no thread submits anything. */
static void wait_for_a_killed_rank(bool on_host)
{
    const int victim = horovod_size() - 1;
    char wanted[32];
    struct one last;
    horovod_error_t err = {0};

    check_sum("before", sum_from(0));
    fill(&last, ALLREDUCE, HOROVOD_FLOAT32, HOROVOD_SUM, MANY);
    prepare(&last, HOROVOD_MEMORY_CUDA);
    submit(&last);
    const int64_t start_ms = now_ms();
    if (on_host && horovod_rank() != victim) {
        last.status = horovod_wait(last.handle, &err);
    } else {
        wait_for(&last);
        if (horovod_rank() == victim)
            raise(SIGKILL);
        gpu_synchronize(stream);
        err = last.err; /* of a launch behind the victim's end */
        if (last.status == HOROVOD_OK)
            last.status = horovod_barrier(&err);
    }
    snprintf(wanted, sizeof(wanted), "ank %d", victim);
    check(last.status == HOROVOD_ABORTED, "after", horovod_status_name(last.status));
    check(strstr(err.message, wanted) != NULL, wanted, err.message);
    check(now_ms() - start_ms <= LOST_MS, "after", "took too long");
    if (failures == 0)
        (void)fprintf(stderr, "rank %d knows: %s\n", horovod_rank(), err.message);
    _exit(failures ? 1 : 0);
}

static void mode_killed_beside_waits(void)
{
    wait_for_a_killed_rank(true);
}

static void mode_killed_beside_synchronizations(void)
{
    wait_for_a_killed_rank(false);
}

static void *release_late(void *held)
{
    (void)sleep(RELEASE_S);
    gpu_release(held);
    return NULL;
}

/* On the last rank, the program's work in front of the tensor does not end, so the others wait on
 * their GPUs until the stall shutdown time ends the job. */
static void mode_late(void)
{
    const int victim = horovod_size() - 1;
    char wanted[100];
    pthread_t thread;
    struct one late;
    horovod_status_t status = HOROVOD_OK;
    horovod_error_t err = {0};

    check_sum("before", sum_from(0));
    const int64_t start_ms = now_ms();
    fill(&late, ALLREDUCE, HOROVOD_FLOAT32, HOROVOD_SUM, MANY / COLUMNS);
    snprintf(late.name, sizeof(late.name), "gradient");
    prepare(&late, HOROVOD_MEMORY_CUDA);
    if (horovod_rank() == victim)
        (void)pthread_create(&thread, NULL, release_late, (void *)gpu_hold(stream));
    submit(&late);
    wait_for(&late); /* it is launched now; a hierarchical one has to be done for that */
    status = late.status;
    err = late.err;
    while (status == HOROVOD_OK)
        (void)sum_of("after", &status, &err);
    const int64_t ms = now_ms() - start_ms;
    snprintf(wanted, sizeof(wanted), "the GPU of rank %d on host ", victim);
    check(status == HOROVOD_ABORTED, "after", horovod_status_name(status));
    check(strstr(err.message, wanted) != NULL, wanted, err.message);
    check(ms >= SHUTDOWN_MS - 100 && ms <= SHUTDOWN_MS + LOST_MS, "after", "at the wrong time");
    if (failures == 0)
        (void)fprintf(stderr, "rank %d knows: %s\n", horovod_rank(), err.message);
    _exit(failures ? 1 : 0);
}

/* Where a callback found its output. */
struct found {
    atomic_bool is_done;
    bool is_bad; /* the memory is the host's */
    void *memory;
    horovod_status_t status;
    char message[HOROVOD_MESSAGE_MAX];
};

static void *allocate(void *context, int64_t rows, size_t bytes)
{
    struct found *found = context;

    (void)rows;
    (void)bytes;
    return found->memory;
}

static void note_end(void *context, horovod_status_t status, const char *message,
                     horovod_output_t *output)
{
    struct found *found = context;

    found->status = status;
    snprintf(found->message, sizeof(found->message), "%s", message);
    horovod_output_release(output);
    atomic_store(&found->is_done, true);
}

/* Gathers rows by callbacks. The program's stream is idle, so its memory is usable at once. */
static void gather_by_callbacks(struct found *found)
{
    const int64_t shape[] = {1, COLUMNS};
    const float values[COLUMNS] = {1, 2, 3, 4, 5};
    void *memory = gpu_alloc(stream, sizeof(values));
    horovod_error_t err = {0};

    found->memory =
        found->is_bad ? calloc(8, sizeof(values)) : gpu_alloc(stream, 8 * sizeof(values));
    gpu_put(stream, memory, values, sizeof(values));
    gpu_finish(stream);
    check(horovod_allgather_async(
              memory,
              HOROVOD_TENSOR(.name = found->is_bad ? "bad rows" : "rows", .dtype = HOROVOD_FLOAT32,
                             .ndim = 2, .shape = shape, .done = note_end, .allocate = allocate,
                             .context = found, .memory = HOROVOD_MEMORY_CUDA, .device = device,
                             .stream = stream),
              NULL, &err) == HOROVOD_OK,
          "rows", err.message);
    while (!atomic_load(&found->is_done))
        (void)usleep(100);
}

/* Outputs in memory of the program, at last of the wrong side, which ends the job. */
static void mode_callbacks(void)
{
    struct found good = {.is_bad = false};
    struct found bad = {.is_bad = true};
    float seen[8 * COLUMNS];

    gather_by_callbacks(&good);
    check(good.status == HOROVOD_OK, "rows", good.message);
    gpu_get(stream, seen, good.memory, (size_t)horovod_size() * COLUMNS * sizeof(float));
    check(seen[horovod_size() * COLUMNS - 1] == 5, "rows", "wrong");
    gather_by_callbacks(&bad);
    check(bad.status == HOROVOD_ABORTED, "bad rows", horovod_status_name(bad.status));
    check(strstr(bad.message, "allocate returned memory that is not of GPU") != NULL, "bad rows",
          bad.message);
    if (failures == 0)
        (void)fprintf(stderr, "rank %d is content\n", horovod_rank());
    _exit(failures ? 1 : 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"collectives", mode_collectives},
    {"steps", mode_steps},
    {"sets", mode_sets},
    {"random", mode_random},
    {"callbacks", mode_callbacks},
    {"many_sets", mode_many_sets},
    {"join", mode_join},
    {"mixed", mode_mixed},
    {"refusals", mode_refusals},
    {"jobs", mode_jobs},
    {"killed", mode_killed},
    {"killed_beside_waits", mode_killed_beside_waits},
    {"killed_beside_synchronizations", mode_killed_beside_synchronizations},
    {"late", mode_late},
};

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";
    const char *route = getenv("HOROVOD_GPU_OPERATIONS");
    const char *devices = getenv("GPU_RANKS_DEVICE");

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    device = devices ? atoi(devices) : horovod_local_rank();
    is_exact = route && strcmp(route, "MPI") == 0;
    stream = gpu_open(device);
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        if (strcmp(modes[i].name, wanted) != 0)
            continue;
        modes[i].run();
        gpu_finish(stream);
        horovod_shutdown();
        return failures > 0;
    }
    (void)fprintf(stderr, "there is no mode %s\n", wanted);
    return 2;
}
