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

/* Waits for everything on the stream. */
static void drain(struct hvd_device_port *d, struct hvd_device_stream *stream)
{
    struct hvd_device_event *event = NULL;

    assert_int_equal(d->ops->record(d, stream, &event, NULL), HVD_OK);
    if (!event)
        return;
    hvd_status_t st = HVD_INPROGRESS;
    for (int i = 0; i < 1000 && st == HVD_INPROGRESS; i++)
        st = d->ops->query(d, event, NULL);
    assert_int_equal(st, HVD_OK);
    d->ops->release(d, event);
}

static void pieces_go_into_a_buffer_and_out_of_it_scaled(void **state)
{
    const float a[3] = {1, 2, 3};
    const float b[2] = {10, 20};
    const struct hvd_scaling scaling = {.prescale = 2, .postscale = 3, .divisor = 4};
    const float packed[7] = {2, 4, 6, 0, 0, 20, 40};
    float seen[7];

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct subject s = subject_of(kind, 7);
        struct hvd_device_port *d = s.d;
        struct hvd_device_stream *stream = NULL;
        void *host = NULL;
        void *ours_a = put(&s, a, sizeof(a));
        void *ours_b = put(&s, b, sizeof(b));
        const struct hvd_piece pieces[] = {
            {.input = ours_a, .output = ours_a, .count = 3},
            {.input = NULL, .output = NULL, .count = 2}, /* of a rank that has joined */
            {.input = ours_b, .output = ours_b, .count = 2}};
        struct hvd_device_copy copy = {.pieces = pieces,
                                       .n_pieces = 3,
                                       .is_host = true,
                                       .dtype = HVD_FLOAT32,
                                       .scaling = &scaling};

        assert_int_equal(d->ops->create_stream(d, &stream, NULL), HVD_OK);
        assert_int_equal(d->ops->alloc_host(d, sizeof(seen), &host, NULL), HVD_OK);
        copy.buffer = host;
        assert_int_equal(d->ops->pack(d, stream, &copy, NULL), HVD_OK);
        drain(d, stream);
        assert_memory_equal(host, packed, sizeof(packed));
        assert_int_equal(d->ops->unpack(d, stream, &copy, NULL), HVD_OK);
        drain(d, stream);
        get(&s, seen, ours_a, sizeof(a));
        assert_memory_equal(seen, ((const float[]){1.5F, 3, 4.5F}), sizeof(a));
        get(&s, seen, ours_b, sizeof(b));
        assert_memory_equal(seen, ((const float[]){15, 30}), sizeof(b));
        d->ops->destroy_stream(d, stream);
        d->ops->free_host(d, host);
        d->ops->free(d, ours_a);
        d->ops->free(d, ours_b);
        end(&s);
    }
}

static void a_stream_runs_in_order_and_streams_overtake_each_other(void **state)
{
    bool first_won = false;
    bool second_won = false;

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        const struct subject s = subject_of(1, seed);
        struct hvd_device_port *d = s.d;
        struct hvd_device_stream *streams[2];
        struct hvd_device_event *events[2];
        hvd_status_t seen[2] = {HVD_INPROGRESS, HVD_INPROGRESS};

        for (int i = 0; i < 2; i++) {
            assert_int_equal(d->ops->create_stream(d, &streams[i], NULL), HVD_OK);
            assert_int_equal(d->ops->record(d, streams[i], &events[i], NULL), HVD_OK);
        }
        while (seen[0] != HVD_OK || seen[1] != HVD_OK) {
            for (int i = 0; i < 2; i++)
                if (seen[i] != HVD_OK)
                    seen[i] = d->ops->query(d, events[i], NULL);
            first_won = first_won || (seen[0] == HVD_OK && seen[1] != HVD_OK);
            second_won = second_won || (seen[1] == HVD_OK && seen[0] != HVD_OK);
        }
        for (int i = 0; i < 2; i++) {
            d->ops->release(d, events[i]);
            d->ops->destroy_stream(d, streams[i]);
        }
        end(&s);
    }
    assert_true(first_won && second_won);
}

static void what_is_on_a_stream_is_done_when_the_stream_is_gone(void **state)
{
    const int64_t value = 41;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct subject s = subject_of(kind, 3);
        struct hvd_device_port *d = s.d;
        struct hvd_device_stream *stream = NULL;
        struct hvd_device_event *event = NULL;
        void *host = NULL;
        void *ours = put(&s, &value, sizeof(value));
        const struct hvd_piece piece = {.input = ours, .output = ours, .count = 1};

        assert_int_equal(d->ops->create_stream(d, &stream, NULL), HVD_OK);
        assert_int_equal(d->ops->alloc_host(d, sizeof(value), &host, NULL), HVD_OK);
        const struct hvd_device_copy copy = {
            .pieces = &piece, .n_pieces = 1, .buffer = host, .is_host = true, .dtype = HVD_INT64};
        assert_int_equal(d->ops->pack(d, stream, &copy, NULL), HVD_OK);
        assert_int_equal(d->ops->record(d, stream, &event, NULL), HVD_OK);
        d->ops->abort(d);
        d->ops->destroy_stream(d, stream);
        assert_memory_equal(host, &value, sizeof(value));
        if (event)
            d->ops->release(d, event);
        d->ops->free_host(d, host);
        d->ops->free(d, ours);
        end(&s);
    }
}

static void an_input_is_there_when_the_programs_event_says_so(void **state)
{
    const struct subject s = subject_of(1, 1);
    void *good = fake_ready_create();
    void *bad = fake_ready_create();
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(s.d->ops->query_ready(s.d, good, NULL), HVD_INPROGRESS);
    fake_ready_fire(good, false);
    assert_int_equal(s.d->ops->query_ready(s.d, good, NULL), HVD_OK);
    fake_ready_fire(bad, true);
    assert_int_equal(s.d->ops->query_ready(s.d, bad, &err), HVD_ERR_SYSTEM);
    assert_non_null(strstr(err.msg, "fake 0"));
    fake_ready_free(good);
    fake_ready_free(bad);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_go_into_a_buffer_and_out_of_it_scaled),
        cmocka_unit_test(a_stream_runs_in_order_and_streams_overtake_each_other),
        cmocka_unit_test(what_is_on_a_stream_is_done_when_the_stream_is_gone),
        cmocka_unit_test(an_input_is_there_when_the_programs_event_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
