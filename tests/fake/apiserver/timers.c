/*
 * Timers in a binary heap by the time they are due; each knows its place, so that it can be
 * stopped.
 */
#include "tests/fake/apiserver/timers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "tests/fake/apiserver/must.h"

int64_t fake_now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t clock_offset_ms;

time_t fake_unix_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (time_t)(((int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + clock_offset_ms) / 1000);
}

void fake_set_clock_offset(int64_t offset_ms)
{
    clock_offset_ms = offset_ms;
}

static void put(struct fake_timers *t, size_t place, struct fake_timer *timer)
{
    t->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct fake_timers *t, size_t place)
{
    struct fake_timer *timer = t->heap[place];

    while (place > 1 && t->heap[place / 2]->due_us > timer->due_us) {
        put(t, place, t->heap[place / 2]);
        place /= 2;
    }
    put(t, place, timer);
}

static void sift_down(struct fake_timers *t, size_t place)
{
    struct fake_timer *timer = t->heap[place];

    while (place * 2 <= t->n) {
        size_t child = place * 2;

        if (child < t->n && t->heap[child + 1]->due_us < t->heap[child]->due_us)
            child++;
        if (t->heap[child]->due_us >= timer->due_us)
            break;
        put(t, place, t->heap[child]);
        place = child;
    }
    put(t, place, timer);
}

void fake_timer_stop(struct fake_timers *timers, struct fake_timer *timer)
{
    size_t place = timer->place;
    struct fake_timer *last;

    if (!place)
        return;
    timer->place = 0;
    last = timers->heap[timers->n--];
    if (last == timer)
        return;
    put(timers, place, last);
    sift_up(timers, place);
    sift_down(timers, last->place);
}

void fake_timer_start(struct fake_timers *timers, struct fake_timer *timer, int64_t delay_us)
{
    fake_timer_stop(timers, timer);
    if (timers->n + 2 > timers->capacity) {
        timers->capacity = timers->capacity ? timers->capacity * 2 : 64;
        timers->heap =
            fake_must(realloc(timers->heap, timers->capacity * sizeof(struct fake_timer *)));
    }
    timer->due_us = fake_now_us() + delay_us;
    put(timers, ++timers->n, timer);
    sift_up(timers, timers->n);
}

void fake_timers_run(struct fake_timers *timers)
{
    int64_t now_us = fake_now_us();

    while (timers->n && timers->heap[1]->due_us <= now_us) {
        struct fake_timer *timer = timers->heap[1];

        fake_timer_stop(timers, timer);
        timer->fire(timer->ctx);
    }
}

int64_t fake_timers_wait_us(const struct fake_timers *timers)
{
    int64_t left_us;

    if (!timers->n)
        return -1;
    left_us = timers->heap[1]->due_us - fake_now_us();
    return left_us > 0 ? left_us : 0;
}

void fake_timers_fini(struct fake_timers *timers)
{
    free(timers->heap);
    *timers = (struct fake_timers){0};
}
