#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "worker/telemetry/ring.h"

#define N_THREADS 3
#define N_EVENTS 20000

static bool put(struct hvd_ring *ring, uint64_t id, int ndim, size_t name_len, bool *wants)
{
    struct hvd_event event = {.kind = HVD_EVENT_SUBMITTED,
                              .id = id,
                              .ndim = (uint8_t)ndim,
                              .name_len = (uint16_t)name_len};
    int64_t shape[HVD_NDIM_MAX];
    char name[HVD_NAME_MAX];

    for (int i = 0; i < ndim; i++)
        shape[i] = (int64_t)id * 100 + i;
    memset(name, 'a' + (int)(id % 26), sizeof(name));
    return hvd_ring_put(ring, &event, shape, name, wants);
}

/* Whether the note is what put() makes of its id. */
static bool is_whole(const struct hvd_note *note)
{
    const char letter = (char)('a' + note->event.id % 26);

    for (int i = 0; i < note->event.ndim; i++)
        if (note->shape[i] != (int64_t)note->event.id * 100 + i)
            return false;
    for (int i = 0; i < note->event.name_len; i++)
        if (note->name[i] != letter)
            return false;
    return note->name[note->event.name_len] == '\0';
}

static void events_of_every_size_come_out_whole_and_in_order(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 8, 23, 24, 25, 63, 64, 65, 500, HVD_NAME_MAX};
    struct hvd_ring *ring = NULL;
    struct hvd_note note;
    bool wants = false;
    uint64_t id = 0;

    (void)state;
    assert_int_equal(hvd_ring_create(64, &ring), HVD_OK);
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            id++;
            assert_true(put(ring, id, (int)(id % (HVD_NDIM_MAX + 1)), lengths[i], &wants));
            assert_true(hvd_ring_take(ring, &note));
            assert_int_equal(note.event.id, id);
            assert_int_equal(note.event.name_len, lengths[i]);
            assert_true(is_whole(&note));
        }
    }
    assert_false(hvd_ring_take(ring, &note));
    assert_int_equal(hvd_ring_dropped(ring), 0);
    hvd_ring_destroy(ring);
}

static void a_full_ring_drops_and_counts_and_goes_on_when_read(void **state)
{
    struct hvd_ring *ring = NULL;
    struct hvd_note note;
    bool wants = false;

    (void)state;
    assert_int_equal(hvd_ring_create(16, &ring), HVD_OK);
    for (uint64_t id = 1; id <= 16; id++) {
        assert_int_equal(wants, id > 4);
        assert_true(put(ring, id, 1, 8, &wants));
    }
    assert_false(put(ring, 17, 1, 8, &wants));
    assert_false(put(ring, 18, 1, 8, &wants));
    assert_int_equal(hvd_ring_dropped(ring), 2);
    for (uint64_t id = 1; id <= 16; id++) {
        assert_true(hvd_ring_take(ring, &note));
        assert_int_equal(note.event.id, id);
    }
    assert_false(hvd_ring_take(ring, &note));
    assert_true(put(ring, 19, 1, 8, &wants));
    assert_true(hvd_ring_take(ring, &note));
    assert_int_equal(note.event.id, 19);
    hvd_ring_destroy(ring);
}

struct producer {
    struct hvd_ring *ring;
    uint64_t first;
    atomic_int *n_running;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    bool wants = false;

    for (uint64_t i = 0; i < N_EVENTS; i++)
        while (!put(p->ring, p->first + i * N_THREADS, (int)(i % 4), (size_t)(i % 90), &wants))
            sched_yield();
    atomic_fetch_sub(p->n_running, 1);
    return NULL;
}

static void several_threads_put_at_once_and_none_loses_its_order(void **state)
{
    struct hvd_ring *ring = NULL;
    atomic_int n_running = N_THREADS;
    pthread_t threads[N_THREADS];
    struct producer producers[N_THREADS];
    uint64_t last[N_THREADS] = {0};
    struct hvd_note note;
    int n_taken = 0;

    (void)state;
    assert_int_equal(hvd_ring_create(256, &ring), HVD_OK);
    for (int i = 0; i < N_THREADS; i++) {
        producers[i] = (struct producer){ring, (uint64_t)i + N_THREADS, &n_running};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    while (n_taken < N_THREADS * N_EVENTS) {
        if (!hvd_ring_take(ring, &note)) {
            sched_yield();
            continue;
        }
        n_taken++;
        assert_true(is_whole(&note));
        assert_true(note.event.id > last[note.event.id % N_THREADS]);
        last[note.event.id % N_THREADS] = note.event.id;
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(hvd_ring_take(ring, &note));
    hvd_ring_destroy(ring);
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_ring *ring = NULL;
        hvd_status_t st = hvd_ring_create(16, &ring);
        assert_true(st == HVD_OK || (hvd_mem_fired() && st == HVD_ERR_NOMEM && !ring));
        hvd_ring_destroy(ring);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_every_size_come_out_whole_and_in_order),
        cmocka_unit_test(a_full_ring_drops_and_counts_and_goes_on_when_read),
        cmocka_unit_test(several_threads_put_at_once_and_none_loses_its_order),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
