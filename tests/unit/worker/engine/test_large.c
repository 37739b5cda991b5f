/*
 * A count above 2^31 through the engine. The memory is one small file mapped again and again, so it
 * costs address space alone; tests/integration/mpi/test_large.py adds up as many for real.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/worker/engine/world.h"

#define COUNT ((INT64_C(1) << 31) + 5)
#define CHUNK ((size_t)1 << 26)
#define N_CHUNKS ((size_t)(COUNT / (int64_t)CHUNK) + 1)

static const struct hvd_engine_options options = {
    .cycle_ns = 200000, .cache_capacity = 16, .fusion_bytes = 1 << 20, .idle_poll_ns = 1000000};

/* COUNT bytes of which every CHUNK is the same memory, filled with a value; NULL on failure. */
static unsigned char *repeat(unsigned char value)
{
    const int fd = memfd_create("large", MFD_CLOEXEC);
    unsigned char *all =
        mmap(NULL, N_CHUNKS * CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = fd >= 0 && all != MAP_FAILED && ftruncate(fd, (off_t)CHUNK) == 0;

    for (size_t i = 0; good && i < N_CHUNKS; i++)
        good = mmap(all + i * CHUNK, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    0) != MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (!good)
        return NULL;
    memset(all, value, CHUNK);
    return all;
}

static unsigned char *inputs[2];
static unsigned char *outputs[2];
static hvd_status_t statuses[2];

static void submit_and_wait(struct world *w, int rank)
{
    struct hvd_submission s = {.request = world_request(HVD_BROADCAST, "large", COUNT),
                               .input = inputs[rank],
                               .output = outputs[rank]};
    int64_t handle = 0;

    s.request.dtype = HVD_UINT8;
    s.request.root = 1;
    statuses[rank] = hvd_engine_submit(w->engines[rank], &s, &handle, NULL);
    if (statuses[rank] == HVD_OK)
        statuses[rank] = hvd_engine_wait(w->engines[rank], handle, NULL, NULL);
}

static void more_than_2_to_the_31_elements_are_broadcast(void **state)
{
    struct world w;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its shadow of 8 GiB takes minutes */
#endif
    for (int rank = 0; rank < 2; rank++) {
        inputs[rank] = repeat((unsigned char)(3 + rank));
        outputs[rank] = repeat(0);
        assert_non_null(inputs[rank]);
        assert_non_null(outputs[rank]);
    }
    world_open(&w, 2, 1, &options);
    world_run(&w, submit_and_wait);
    world_close(&w);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(statuses[rank], HVD_OK);
        for (size_t i = 0; i < CHUNK; i += 4093)
            assert_int_equal(outputs[rank][i], 4);
        munmap(inputs[rank], N_CHUNKS * CHUNK);
        munmap(outputs[rank], N_CHUNKS * CHUNK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_than_2_to_the_31_elements_are_broadcast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
