/*
 * Trains a linear classifier on handwritten digits, with the gradient in the memory of each rank's
 * GPU:
 *
 *     horovodrun -np 4 gpu_digits DATA
 *
 * The host computes the gradients of the rank's share of a batch. The GPUs sum them. At the end the
 * weights of all ranks are compared. Over the doubles, NCCL must have reduced every gradient.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <horovod/horovod.h>

#include "examples/digits/images.h"
#include "tests/integration/cuda/gpu.h"

#define N_INPUTS (PIXELS + 1) /* and a constant */
#define N_WEIGHTS (CLASSES * N_INPUTS)
#define BATCH 96
#define N_EPOCHS 8
#define RATE 0.5f

static struct image_set training, held_back;
static float weights[CLASSES][N_INPUTS], gradient[CLASSES][N_INPUTS];
static void *stream;
static void *memory; /* the gradient on the GPU */

static void must(horovod_status_t status, const char *what, const horovod_error_t *err)
{
    if (status == HOROVOD_OK)
        return;
    (void)fprintf(stderr, "gpu digits: rank %d: %s: %s\n", horovod_rank(), what, err->message);
    exit(1);
}

static horovod_tensor_t tensor_of(const char *name, const int64_t *length)
{
    return (horovod_tensor_t){.size = sizeof(horovod_tensor_t),
                              .name = name,
                              .dtype = HOROVOD_FLOAT32,
                              .ndim = 1,
                              .shape = length,
                              .op = HOROVOD_SUM,
                              .memory = HOROVOD_MEMORY_CUDA,
                              .device = horovod_local_rank(),
                              .stream = stream};
}

/* The chances of the classes, and the class that is most likely. */
static int classify(const struct image *image, float chance[CLASSES])
{
    float sum = 0;
    int best = 0;

    for (int c = 0; c < CLASSES; c++) {
        chance[c] = weights[c][PIXELS];
        for (int p = 0; p < PIXELS; p++)
            chance[c] += weights[c][p] * image->pixels[p];
        best = chance[c] > chance[best] ? c : best;
    }
    const float highest = chance[best];
    for (int c = 0; c < CLASSES; c++)
        sum += chance[c] = expf(chance[c] - highest);
    for (int c = 0; c < CLASSES; c++)
        chance[c] /= sum;
    return best;
}

/* Adds an image's part to the gradient of a batch of n images. */
static void learn(const struct image *image, int n)
{
    float chance[CLASSES];

    (void)classify(image, chance);
    for (int c = 0; c < CLASSES; c++) {
        const float error = (chance[c] - (c == image->digit ? 1.0f : 0.0f)) / (float)n;

        for (int p = 0; p < PIXELS; p++)
            gradient[c][p] += error * image->pixels[p];
        gradient[c][PIXELS] += error;
    }
}

/* Sums the gradient over all ranks, in the memory of the GPUs. */
static void sum_gradient(void)
{
    const int64_t length = N_WEIGHTS;
    const horovod_tensor_t tensor = tensor_of("gradient", &length);
    horovod_handle_t handle = 0;
    horovod_error_t err = {0};

    gpu_put(stream, memory, gradient, sizeof(gradient));
    must(horovod_allreduce_async(memory, memory, &tensor, &handle, &err), "allreduce", &err);
    must(horovod_wait_stream(handle, stream, -1, NULL, &err), "wait_stream", &err);
    gpu_get(stream, gradient, memory, sizeof(gradient));
    gpu_finish(stream);
}

static void train_epoch(void)
{
    for (int start = 0; start < training.n; start += BATCH) {
        const int n = BATCH < training.n - start ? BATCH : training.n - start;
        const int from = n * horovod_rank() / horovod_size();
        const int to = n * (horovod_rank() + 1) / horovod_size();

        memset(gradient, 0, sizeof(gradient));
        for (int i = start + from; i < start + to; i++)
            learn(&training.images[i], n);
        sum_gradient();
        for (int c = 0; c < CLASSES; c++)
            for (int i = 0; i < N_INPUTS; i++)
                weights[c][i] -= RATE * gradient[c][i];
    }
}

/* Ranks begin with different weights; all get those of rank 0. */
static void begin(void)
{
    const int64_t length = N_WEIGHTS;
    horovod_tensor_t tensor = tensor_of("weights", &length);
    horovod_error_t err = {0};

    for (int c = 0; c < CLASSES; c++)
        weights[c][PIXELS] = (float)horovod_rank();
    gpu_put(stream, memory, weights, sizeof(weights));
    must(horovod_broadcast(memory, memory, &tensor, &err), "broadcast", &err);
    gpu_get(stream, weights, memory, sizeof(weights));
    gpu_finish(stream);
}

/* Whether all ranks have the bits of this rank's weights. */
static bool are_equal(void)
{
    const int64_t length = N_WEIGHTS;
    const horovod_tensor_t tensor = tensor_of("all weights", &length);
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};
    const size_t bytes = sizeof(weights);
    bool are = true;

    gpu_put(stream, memory, weights, sizeof(weights));
    must(horovod_allgather(memory, &tensor, &output, &err), "allgather", &err);
    char *all = calloc((size_t)horovod_size() * bytes, 1);
    gpu_get(stream, all, horovod_output_data(output), horovod_output_bytes(output));
    for (int i = 0; i < horovod_size(); i++)
        are = are && memcmp(all + (size_t)i * bytes, (const char *)weights, bytes) == 0;
    gpu_finish(stream);
    free(all);
    horovod_output_release(output);
    return are;
}

/* How often NCCL's allreduce was called; -1 for a real one. */
static long n_reduced(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    long (*calls)(const char *) = NULL;

    if (driver)
        *(void **)&calls = dlsym(driver, "fake_gpu_calls");
    return calls ? calls("ncclAllReduce") : -1;
}

int main(int argc, char **argv)
{
    float chance[CLASSES];
    int n_right = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || images_load(argv[1], &training, &held_back) != 0 ||
        !horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    stream = gpu_open(horovod_local_rank());
    memory = gpu_alloc(stream, sizeof(gradient));
    begin();
    for (int epoch = 0; epoch < N_EPOCHS; epoch++)
        train_epoch();
    for (int i = 0; i < held_back.n; i++)
        n_right += classify(&held_back.images[i], chance) == held_back.images[i].digit;
    printf("gpu digits: rank %d of %d on GPU %d: accuracy %.4f, weights %s, NCCL %d reduced %ld of "
           "%d gradients\n",
           horovod_rank(), horovod_size(), horovod_local_rank(), (double)n_right / held_back.n,
           are_equal() ? "equal" : "different", horovod_nccl_built(), n_reduced(),
           N_EPOCHS * ((training.n + BATCH - 1) / BATCH));
    gpu_free(stream, memory);
    horovod_shutdown();
    return 0;
}
