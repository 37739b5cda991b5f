/*
 * Sums whose bits depend on the order of adding up, of tensors of all sizes that are ready in
 * another order and at other times in every run. Every rank checks that it has the bits of rank 0,
 * which prints a number for them: "bits 0123456789abcdef of N bytes". Two runs can be compared
 * by it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_TENSORS 40
#define N_ROUNDS 3
#define COUNT_MAX 20000

static float data[N_TENSORS][COUNT_MAX];
static horovod_handle_t handles[N_TENSORS];

static int64_t count_of(int tensor)
{
    return 1 + (int64_t)tensor * tensor * tensor * 313 % COUNT_MAX;
}

static void fill(int tensor)
{
    const int rank = horovod_rank();

    for (int64_t i = 0; i < count_of(tensor); i++)
        data[tensor][i] =
            ldexpf((float)((rank * 7919 + tensor * 31 + i * 104729) % 1000003) / 1000003.0f,
                   rank * 5 % 17);
}

static void submit(int tensor)
{
    char name[32];
    horovod_error_t err = {0};

    snprintf(name, sizeof(name), "tensor %d", tensor);
    fill(tensor);
    check(horovod_allreduce_async(data[tensor], data[tensor],
                                  HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32,
                                                 .op = HOROVOD_AVERAGE, .ndim = 1,
                                                 .shape = (const int64_t[]){count_of(tensor)}),
                                  &handles[tensor], &err) == HOROVOD_OK,
          name, err.message);
}

static uint64_t hash_all(uint64_t hash)
{
    for (int tensor = 0; tensor < N_TENSORS; tensor++)
        for (int64_t i = 0; i < count_of(tensor); i++) {
            uint32_t bits = 0;
            memcpy(&bits, &data[tensor][i], sizeof(bits));
            hash = (hash ^ bits) * UINT64_C(1099511628211);
        }
    return hash;
}

/* Once, in an order of chance, with pauses of chance. */
static void run_round(unsigned *seed)
{
    int order[N_TENSORS] = {0};
    horovod_error_t err = {0};

    for (int i = 0; i < N_TENSORS; i++) {
        const int at = rand_r(seed) % (i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < N_TENSORS; i++) {
        submit(order[i]);
        if (rand_r(seed) % 8 == 0)
            usleep((unsigned)rand_r(seed) % 2000);
    }
    for (int i = 0; i < N_TENSORS; i++)
        check(horovod_wait(handles[i], &err) == HOROVOD_OK, "wait", err.message);
}

void mode_bits(void)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    horovod_error_t err = {0};

    must_init();
    unsigned seed = (unsigned)time(NULL) + (unsigned)getpid();
    for (int round = 0; round < N_ROUNDS; round++) {
        run_round(&seed);
        hash = hash_all(hash);
    }
    uint64_t first = hash;
    check(horovod_broadcast(&first, &first, HOROVOD_TENSOR(.name = "hash", .dtype = HOROVOD_UINT64),
                            &err) == HOROVOD_OK,
          "hash", err.message);
    check(first == hash, "hash", "ranks differ in bits");
    int64_t bytes = 0;
    for (int tensor = 0; tensor < N_TENSORS; tensor++)
        bytes += N_ROUNDS * count_of(tensor) * (int64_t)sizeof(float);
    if (horovod_rank() == 0)
        printf("bits %016" PRIx64 " of %" PRId64 " bytes\n", hash, bytes);
    horovod_shutdown();
}
