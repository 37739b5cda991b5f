/*
 * Trains a small neural network on images of handwritten digits, on as many processes as you like:
 *
 *     horovodrun -np 2 digits
 *
 * Each process takes its share of every batch, and the gradients are summed over all. So any number
 * of processes computes the same result. [horovod] marks the distributed parts; the rest is as for
 * one process.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <horovod/horovod.h>

#include "examples/digits/images.h"

enum {
    HIDDEN = 64,
    N_TENSORS = 4,
};

#define LEARNING_RATE 0.05f
#define MOMENTUM 0.9f
#define SEED UINT64_C(20240229)
#define MAGIC UINT64_C(0x3174696769640a0d)

/* The weights, their gradient and their momentum all have this shape. */
struct network {
    float w1[HIDDEN][PIXELS];
    float b1[HIDDEN];
    float w2[CLASSES][HIDDEN];
    float b2[CLASSES];
};

#define N_FLOATS ((int64_t)(sizeof(struct network) / sizeof(float)))

static const struct {
    const char *name;
    size_t offset;
    int64_t length;
} tensors[N_TENSORS] = {
    {"w1", offsetof(struct network, w1), (int64_t)HIDDEN *PIXELS},
    {"b1", offsetof(struct network, b1), HIDDEN},
    {"w2", offsetof(struct network, w2), (int64_t)CLASSES *HIDDEN},
    {"b2", offsetof(struct network, b2), CLASSES},
};

/* The content of a checkpoint: all data that a run needs to continue. */
struct state {
    uint64_t magic;
    int64_t epochs_done;
    struct network model;
    struct network momentum;
};

static struct image_set training, held_back;
static struct state state = {.magic = MAGIC};
static struct network gradient;

/* Returns a number from 0 to 1 that depends only on the seed (Marsaglia's xorshift). */
static float next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (float)(*seed >> 40) / (float)(1 << 24);
}

static void fill_random(float *weights, int n_outputs, int n_inputs, uint64_t *seed)
{
    for (int i = 0; i < n_outputs * n_inputs; i++)
        weights[i] = (2 * next_random(seed) - 1) * sqrtf(6.0f / (float)n_inputs);
}

/* Computes the order of the images in an epoch: the same on every process, and after a restart. */
static void shuffle(int64_t epoch, int order[MAX_IMAGES])
{
    uint64_t seed = SEED + (uint64_t)epoch;

    for (int i = 0; i < training.n; i++) {
        int k = (int)(next_random(&seed) * (float)(i + 1));

        k = k > i ? i : k;
        order[i] = order[k];
        order[k] = i;
    }
}

/* Runs the network on an image; returns the loss, and whether the network recognised the digit in
 * *is_correct. */
static float forward(const struct image *image, float hidden[HIDDEN], float chance[CLASSES],
                     int *is_correct)
{
    const struct network *net = &state.model;
    float sum = 0;
    float highest;
    int best = 0;

    for (int h = 0; h < HIDDEN; h++) {
        hidden[h] = net->b1[h];
        for (int p = 0; p < PIXELS; p++)
            hidden[h] += net->w1[h][p] * image->pixels[p];
        hidden[h] = fmaxf(hidden[h], 0);
    }
    for (int c = 0; c < CLASSES; c++) {
        chance[c] = net->b2[c];
        for (int h = 0; h < HIDDEN; h++)
            chance[c] += net->w2[c][h] * hidden[h];
        best = chance[c] > chance[best] ? c : best;
    }
    highest = chance[best];
    for (int c = 0; c < CLASSES; c++)
        sum += chance[c] = expf(chance[c] - highest);
    for (int c = 0; c < CLASSES; c++)
        chance[c] /= sum;
    *is_correct = best == image->digit;
    return -logf(fmaxf(chance[image->digit], 1e-30f));
}

/* Adds an image's part to the gradient of a batch of `batch` images. */
static void backward(const struct image *image, const float hidden[HIDDEN],
                     const float chance[CLASSES], int batch)
{
    float error[CLASSES];

    for (int c = 0; c < CLASSES; c++) {
        error[c] = (chance[c] - (c == image->digit ? 1.0f : 0.0f)) / (float)batch;
        gradient.b2[c] += error[c];
        for (int h = 0; h < HIDDEN; h++)
            gradient.w2[c][h] += error[c] * hidden[h];
    }
    for (int h = 0; h < HIDDEN; h++) {
        float back = 0;

        for (int c = 0; c < CLASSES && hidden[h] > 0; c++)
            back += error[c] * state.model.w2[c][h];
        gradient.b1[h] += back;
        for (int p = 0; p < PIXELS; p++)
            gradient.w1[h][p] += back * image->pixels[p];
    }
}

static void update(void)
{
    float *weights = &state.model.w1[0][0];
    float *speed = &state.momentum.w1[0][0];
    const float *slope = &gradient.w1[0][0];

    for (int64_t i = 0; i < N_FLOATS; i++) {
        speed[i] = MOMENTUM * speed[i] + slope[i];
        weights[i] -= LEARNING_RATE * speed[i];
    }
}

static int failed(const char *what, const horovod_error_t *err)
{
    fprintf(stderr, "digits: rank %d: %s: %s\n", horovod_rank(), what, err->message);
    return -1;
}

/* [horovod] Sums the gradient over all processes: submits all four tensors before it waits. */
static int sum_gradient(void)
{
    horovod_handle_t handles[N_TENSORS];
    horovod_error_t err = {0};

    for (int i = 0; i < N_TENSORS; i++) {
        void *data = (char *)&gradient + tensors[i].offset;

        if (horovod_allreduce_async(data, data,
                                    HOROVOD_TENSOR(.name = tensors[i].name,
                                                   .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                                   .shape = &tensors[i].length, .op = HOROVOD_SUM),
                                    &handles[i], &err) != HOROVOD_OK)
            return failed(tensors[i].name, &err);
    }
    for (int i = 0; i < N_TENSORS; i++)
        if (horovod_wait(handles[i], &err) != HOROVOD_OK)
            return failed(tensors[i].name, &err);
    return 0;
}

/* [horovod] Adds up the totals of the processes. */
static int sum_totals(double totals[], int64_t n)
{
    horovod_error_t err = {0};

    if (horovod_allreduce(totals, totals,
                          HOROVOD_TENSOR(.name = "totals", .dtype = HOROVOD_FLOAT64, .ndim = 1,
                                         .shape = &n, .op = HOROVOD_SUM),
                          &err) != HOROVOD_OK)
        return failed("totals", &err);
    return 0;
}

/* [horovod] Copies the data of rank 0 to every process. */
static int broadcast(const char *name, void *data, int64_t n, horovod_dtype_t dtype)
{
    horovod_error_t err = {0};

    if (horovod_broadcast(
            data, data,
            HOROVOD_TENSOR(.name = name, .dtype = dtype, .ndim = 1, .shape = &n, .root_rank = 0),
            &err) != HOROVOD_OK)
        return failed(name, &err);
    return 0;
}

/* Replaces the checkpoint atomically: a reader sees the old file or the new one. */
static int save_checkpoint(const char *dir)
{
    char path[2048];
    char draft[2080];
    FILE *file = NULL;
    int is_written;

    snprintf(path, sizeof(path), "%s/digits.checkpoint", dir);
    snprintf(draft, sizeof(draft), "%s.new", path);
    if (mkdir(dir, 0777) == 0 || errno == EEXIST)
        file = fopen(draft, "wb");
    is_written = file && fwrite(&state, sizeof(state), 1, file) == 1 && fflush(file) == 0 &&
                 fsync(fileno(file)) == 0;
    if ((!file || fclose(file) == 0) && is_written && rename(draft, path) == 0)
        return 0;
    fprintf(stderr, "digits: cannot write %s: %s\n", path, strerror(errno));
    return -1;
}

/* Reads the checkpoint if there is one; sets epochs_done to -1 if it is unusable. */
static void load_checkpoint(const char *dir)
{
    char path[2048];
    static struct state loaded;

    snprintf(path, sizeof(path), "%s/digits.checkpoint", dir);
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT)
        return;
    if (file && fread(&loaded, sizeof(loaded), 1, file) == 1 && loaded.magic == MAGIC &&
        loaded.epochs_done >= 0) {
        state = loaded;
        printf("digits: resuming after epoch %" PRId64 "\n", state.epochs_done);
    } else {
        state.epochs_done = -1;
        fprintf(stderr, "digits: %s is not a checkpoint of this program: remove it\n", path);
    }
    if (file)
        fclose(file);
}

/* Makes the initial network, the same on all processes. */
static int prepare(const char *checkpoint)
{
    uint64_t seed = SEED + (uint64_t)horovod_rank();

    fill_random(&state.model.w1[0][0], HIDDEN, PIXELS, &seed);
    fill_random(&state.model.w2[0][0], CLASSES, HIDDEN, &seed);
    if (checkpoint && horovod_rank() == 0) /* [horovod] one process reads, all receive */
        load_checkpoint(checkpoint);
    if (broadcast("epochs_done", &state.epochs_done, 1, HOROVOD_INT64) != 0 ||
        broadcast("model", &state.model, N_FLOATS, HOROVOD_FLOAT32) != 0 ||
        broadcast("momentum", &state.momentum, N_FLOATS, HOROVOD_FLOAT32) != 0)
        return -1;
    return state.epochs_done < 0 ? -1 : 0;
}

/* One pass over the training set. totals: loss, right answers and images, of all processes. */
static int train_epoch(int batch, double totals[3])
{
    static int order[MAX_IMAGES];
    float hidden[HIDDEN];
    float chance[CLASSES];
    int is_correct = 0;

    totals[0] = totals[1] = totals[2] = 0;
    shuffle(state.epochs_done, order);
    for (int start = 0; start < training.n; start += batch) {
        int n = batch < training.n - start ? batch : training.n - start;
        /* [horovod] my share of the batch; without it: from 0 to n */
        int from = n * horovod_rank() / horovod_size();
        int to = n * (horovod_rank() + 1) / horovod_size();

        memset(&gradient, 0, sizeof(gradient));
        for (int i = start + from; i < start + to; i++) {
            const struct image *image = &training.images[order[i]];

            totals[0] += (double)forward(image, hidden, chance, &is_correct);
            totals[1] += is_correct;
            totals[2] += 1;
            backward(image, hidden, chance, n);
        }
        if (sum_gradient() != 0)
            return -1;
        update();
    }
    if (state.epochs_done == 0)
        printf("digits: rank %d of %d trains on %.0f of %d images\n", horovod_rank(),
               horovod_size(), totals[2], training.n);
    state.epochs_done++;
    return sum_totals(totals, 3);
}

static void report_accuracy(void)
{
    float hidden[HIDDEN];
    float chance[CLASSES];
    int n_correct = 0;

    for (int i = 0, is_correct = 0; i < held_back.n; i++, n_correct += is_correct)
        (void)forward(&held_back.images[i], hidden, chance, &is_correct);
    printf("digits: accuracy %.4f on %d held-back images\n", (double)n_correct / held_back.n,
           held_back.n);
}

static int train(int64_t epochs, int batch, const char *checkpoint)
{
    double totals[3];

    if (prepare(checkpoint) != 0)
        return -1;
    while (state.epochs_done < epochs) {
        struct timespec start = {0}, end = {0};

        clock_gettime(CLOCK_MONOTONIC, &start);
        if (train_epoch(batch, totals) != 0)
            return -1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (horovod_rank() != 0) /* [horovod] one process prints and saves */
            continue;
        printf("digits: epoch %" PRId64 " loss %.6f accuracy %.4f in %.3f s\n", state.epochs_done,
               totals[0] / totals[2], totals[1] / totals[2],
               (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
        if (checkpoint && save_checkpoint(checkpoint) != 0)
            return -1;
    }
    if (horovod_rank() == 0)
        report_accuracy();
    return 0;
}

/* Returns a number from 1 to a million; ends the program with 2 if the text is none. */
static int parse_count(const char *flag, const char *text)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 1000000) {
        fprintf(stderr, "digits: --%s %s: not a number from 1 to 1000000\n", flag, text);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv)
{
    static const struct option flags[] = {{"epochs", required_argument, NULL, 'e'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"data", required_argument, NULL, 'd'},
                                          {"checkpoint", required_argument, NULL, 'c'},
                                          {0}};
    char path[4096];
    const char *data = images_find(path, sizeof(path));
    const char *checkpoint = NULL;
    int epochs = 30;
    int batch = 96;
    int is_usage_right = 1;
    int result;

    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (flag == 'e')
            epochs = parse_count("epochs", optarg);
        else if (flag == 'b')
            batch = parse_count("batch", optarg);
        else if (flag == 'd')
            data = optarg;
        else if (flag == 'c')
            checkpoint = optarg;
        else
            is_usage_right = 0;
    }
    if (!is_usage_right || optind != argc) {
        fputs("usage: digits [--epochs N] [--batch N] [--data FILE] [--checkpoint DIR]\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (images_load(data, &training, &held_back) != 0)
        return 1;
    if (!horovod_init(NULL, 0, NULL, NULL, 0)) /* [horovod] join the other processes */
        return 1;
    result = train(epochs, batch, checkpoint);
    horovod_shutdown(); /* [horovod] leave together */
    return result == 0 ? 0 : 1;
}
