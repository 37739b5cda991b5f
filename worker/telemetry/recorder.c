/*
 * The flight recorder's memory. A slot is a sequence of atomic words. The first one holds the
 * number of the event, plus one, and is written last. A reader that sees the same number before and
 * after has read a whole event. No thread ever waits.
 */
#include "worker/telemetry/recorder.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

#define EVENT_WORDS (sizeof(struct hvd_event) / sizeof(uint64_t))
#define NAME_WORDS (HVD_RECORDER_NAME / sizeof(uint64_t))
#define WORDS (EVENT_WORDS + NAME_WORDS)

_Static_assert(sizeof(struct hvd_event) % sizeof(uint64_t) == 0, "an event is whole words");

struct cell {
    atomic_uint_fast64_t number; /* plus one; 0 while it is written */
    atomic_uint_fast64_t words[WORDS];
};

struct hvd_recorder {
    atomic_uint_fast64_t n_recorded;
    struct cell cells[HVD_RECORDER_EVENTS];
};

hvd_status_t hvd_recorder_create(struct hvd_recorder **out)
{
    struct hvd_recorder *recorder = hvd_calloc(1, sizeof(*recorder));

    if (!recorder)
        return HVD_ERR_NOMEM;
    *out = recorder;
    return HVD_OK;
}

void hvd_recorder_destroy(struct hvd_recorder *recorder)
{
    hvd_free(recorder);
}

/* Copies a name and cuts its middle if it is too long: the names of frameworks often differ at the
 * end. */
static uint16_t shorten(const char *name, uint16_t len, char *out)
{
    static const char gap[] = "...";
    const size_t half = (HVD_RECORDER_NAME - sizeof(gap)) / 2;

    if (len < HVD_RECORDER_NAME) {
        if (len > 0)
            memcpy(out, name, len);
        return len;
    }
    memcpy(out, name, half);
    memcpy(out + half, gap, sizeof(gap) - 1);
    memcpy(out + half + sizeof(gap) - 1, name + len - half, half);
    return (uint16_t)(2 * half + sizeof(gap) - 1);
}

void hvd_recorder_put(struct hvd_recorder *recorder, const struct hvd_event *event,
                      const char *name)
{
    const uint64_t number =
        atomic_fetch_add_explicit(&recorder->n_recorded, 1, memory_order_relaxed);
    struct cell *cell = &recorder->cells[number % HVD_RECORDER_EVENTS];
    uint64_t words[WORDS];
    struct hvd_event kept = *event;

    kept.name_len = shorten(name, event->name_len, (char *)(words + EVENT_WORDS));
    kept.ndim = 0;
    memcpy(words, &kept, sizeof(kept));
    const size_t n = EVENT_WORDS + (kept.name_len + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    atomic_store_explicit(&cell->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&cell->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&cell->number, number + 1, memory_order_release);
}

uint64_t hvd_recorder_count(const struct hvd_recorder *recorder)
{
    return atomic_load_explicit(&recorder->n_recorded, memory_order_relaxed);
}

bool hvd_recorder_get(const struct hvd_recorder *recorder, uint64_t number, struct hvd_note *note)
{
    const struct cell *cell = &recorder->cells[number % HVD_RECORDER_EVENTS];
    uint64_t words[WORDS];

    if (atomic_load_explicit(&cell->number, memory_order_acquire) != number + 1)
        return false;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&cell->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&cell->number, memory_order_relaxed) != number + 1)
        return false;
    memcpy(&note->event, words, sizeof(note->event));
    memcpy(note->name, words + EVENT_WORDS, note->event.name_len);
    note->name[note->event.name_len] = '\0';
    return true;
}
