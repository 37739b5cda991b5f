/* What every adapter of the port keeps, for the host and for the fake device. */
#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/worker/device/fake.h"

/* A device under test, and how a test gets at its memory. */
struct subject {
    struct hvd_device_port *d;
    bool is_fake;
};

static struct subject subject_of(int kind, uint64_t seed)
{
    const struct fake_options options = {.seed = seed, .max_delay = 3};

    return kind == 0 ? (struct subject){.d = hvd_host_device()}
                     : (struct subject){.d = fake_create(&options), .is_fake = true};
}

static void end(const struct subject *s)
{
    if (s->is_fake)
        fake_destroy(s->d);
}

static void *put(const struct subject *s, const void *from, size_t bytes)
{
    void *memory = NULL;

    if (s->is_fake)
        return fake_put(s->d, from, bytes);
    assert_int_equal(s->d->ops->alloc(s->d, bytes, &memory, NULL), HVD_OK);
    memcpy(memory, from, bytes);
    return memory;
}

static void get(const struct subject *s, void *to, const void *from, size_t bytes)
{
    if (s->is_fake)
        fake_get(s->d, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Returns the event of work that is launched. */
static struct hvd_device_event *launch(struct hvd_device_port *d, struct hvd_device_work *work)
{
    hvd_status_t st = HVD_INPROGRESS;

    assert_int_equal(d->ops->launch(d, work, NULL), HVD_OK);
    for (int i = 0; i < 1000 && st == HVD_INPROGRESS; i++)
        st = d->ops->test(d, work, NULL);
    assert_int_equal(st, HVD_OK);
    return work->event;
}

static void run(struct hvd_device_port *d, struct hvd_device_work *work)
{
    struct hvd_device_event *event = launch(d, work);

    if (event)
        assert_int_equal(d->ops->wait(d, event, NULL), HVD_OK);
    hvd_device_event_release(event);
}

static void tensors_go_to_the_host_and_back(void **state)
{
    const float a[3] = {1, 2, 3};
    const float b[2] = {10, 20};
    const float loaded[7] = {1, 2, 3, 0, 0, 10, 20};
    const float results[7] = {4, 5, 6, 7, 8, 9, 11};
    const struct hvd_collective move = {.dtype = HVD_FLOAT32};
    float seen[3];

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct subject s = subject_of(kind, 7);
        struct hvd_device_port *d = s.d;
        void *host = NULL;
        void *ours_a = put(&s, a, sizeof(a));
        void *ours_b = put(&s, b, sizeof(b));
        const struct hvd_piece pieces[] = {
            {.input = ours_a, .output = ours_a, .count = 3},
            {.input = NULL, .output = NULL, .count = 2}, /* of a rank that has joined */
            {.input = ours_b, .output = ours_b, .count = 2}};
        struct hvd_device_work work = {
            .kind = HVD_DEVICE_LOAD, .move = &move, .pieces = pieces, .n_pieces = 3};

        assert_int_equal(d->ops->alloc_host(d, sizeof(loaded), &host, NULL), HVD_OK);
        work.host = host;
        run(d, &work);
        assert_memory_equal(host, loaded, sizeof(loaded));
        memcpy(host, results, sizeof(results));
        work.kind = HVD_DEVICE_UNLOAD;
        run(d, &work);
        get(&s, seen, ours_a, sizeof(a));
        assert_memory_equal(seen, results, sizeof(a));
        get(&s, seen, ours_b, sizeof(b));
        assert_memory_equal(seen, results + 5, sizeof(b));
        d->ops->free_host(d, host);
        d->ops->free(d, ours_a, NULL);
        d->ops->free(d, ours_b, NULL);
        end(&s);
    }
}

static void a_set_of_one_rank_scales(void **state)
{
    const float a[3] = {1, 2, 3};

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct subject s = subject_of(kind, 5);
        float seen[3];
        void *ours = put(&s, a, sizeof(a));
        const struct hvd_piece pieces[] = {{.input = ours, .output = ours, .count = 2},
                                           {.output = (float *)ours + 2, .count = 1}};
        const struct hvd_collective move = {
            .op = HVD_ALLREDUCE,
            .dtype = HVD_FLOAT32,
            .reduce = HVD_SUM,
            .scaling = {.prescale = 2, .postscale = 3, .divisor = 4},
            .pieces = pieces,
            .n_pieces = 2,
            .count = 3};
        struct hvd_device_work work = {.kind = HVD_DEVICE_MOVE, .move = &move, .is_alone = true};

        run(s.d, &work);
        get(&s, seen, ours, sizeof(a));
        assert_memory_equal(seen, ((const float[]){1.5F, 3, 0}), sizeof(a));
        s.d->ops->free(s.d, ours, NULL);
        end(&s);
    }
}

/* Loads a number into host memory from a device with late launches and late results. */
static void work_is_launched_before_it_is_done(void **state)
{
    const int64_t value = 41;
    const struct hvd_collective move = {.dtype = HVD_INT64};
    bool was_early = false;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct subject s = subject_of(1, seed);
        struct hvd_device_port *d = s.d;
        void *host = NULL;
        void *ours = put(&s, &value, sizeof(value));
        const struct hvd_piece piece = {.input = ours, .count = 1};
        struct hvd_device_work work = {
            .kind = HVD_DEVICE_LOAD, .move = &move, .pieces = &piece, .n_pieces = 1};

        assert_int_equal(d->ops->alloc_host(d, sizeof(value), &host, NULL), HVD_OK);
        work.host = host;
        struct hvd_device_event *event = launch(d, &work);
        was_early = was_early || d->ops->query(d, event, NULL) == HVD_INPROGRESS;
        d->ops->free(d, ours, event); /* behind the copy */
        assert_int_equal(d->ops->wait(d, event, NULL), HVD_OK);
        assert_int_equal(d->ops->query(d, event, NULL), HVD_OK);
        assert_memory_equal(host, &value, sizeof(value));
        hvd_device_event_release(event);
        d->ops->free_host(d, host);
        end(&s);
    }
    assert_true(was_early);
}

static void an_input_is_read_when_its_event_is_done(void **state)
{
    const int64_t value = 41;
    const struct hvd_collective move = {.dtype = HVD_INT64};
    const struct subject s = subject_of(1, 1);
    struct hvd_device_port *d = s.d;
    struct hvd_device_event *ready = fake_ready_create();
    struct hvd_device_event *bad = fake_ready_create();
    struct hvd_err err = {0};
    void *host = NULL;
    void *ours = put(&s, &value, sizeof(value));
    const struct hvd_piece piece = {.input = ours, .count = 1};
    struct hvd_device_work work = {.kind = HVD_DEVICE_LOAD,
                                   .move = &move,
                                   .pieces = &piece,
                                   .n_pieces = 1,
                                   .ready = &ready,
                                   .n_ready = 1};

    (void)state;
    assert_int_equal(d->ops->alloc_host(d, sizeof(value), &host, NULL), HVD_OK);
    work.host = host;
    struct hvd_device_event *event = launch(d, &work);
    for (int i = 0; i < 100; i++)
        assert_int_equal(d->ops->query(d, event, NULL), HVD_INPROGRESS);
    fake_ready_fire(ready, false);
    assert_int_equal(d->ops->wait(d, event, NULL), HVD_OK);
    assert_memory_equal(host, &value, sizeof(value));
    hvd_device_event_release(event);
    work.ready = &bad;
    event = launch(d, &work);
    fake_ready_fire(bad, true);
    assert_int_equal(d->ops->wait(d, event, &err), HVD_ERR_SYSTEM);
    assert_non_null(strstr(err.msg, "fake 0"));
    hvd_device_event_release(event);
    d->ops->free_host(d, host);
    d->ops->free(d, ours, NULL);
    end(&s);
    fake_ready_free(ready);
    fake_ready_free(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_go_to_the_host_and_back),
        cmocka_unit_test(a_set_of_one_rank_scales),
        cmocka_unit_test(work_is_launched_before_it_is_done),
        cmocka_unit_test(an_input_is_read_when_its_event_is_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
