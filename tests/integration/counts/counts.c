/*
 * What a steady training loop costs in things that can be counted: heap allocations of the whole
 * process while it runs, and context switches of the library's threads, messages and sleeps while
 * nothing is outstanding. Rank 0 prints them as JSON; test_counts.py judges.
 *
 *     counts STEPS [idle]
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <horovod/horovod.h>

#include "tests/bench/allocations.h"

enum { MANY = 64, ELEMENTS = 64, WARM_UP = 300, WINDOWS = 5 };

static float values[MANY][ELEMENTS];
static char names[MANY][16];

static void fail(const char *what, const horovod_error_t *err)
{
    fprintf(stderr, "counts: %s: %s\n", what, err->message);
    exit(1);
}

/* A step of many tensors, and one that is waited for at once. */
static void step(void)
{
    static const int64_t shape[] = {ELEMENTS};
    horovod_handle_t handles[MANY];
    horovod_error_t err = {0};

    for (int i = 0; i < MANY; i++)
        if (horovod_allreduce_async(values[i], values[i],
                                    HOROVOD_TENSOR(.name = names[i], .dtype = HOROVOD_FLOAT32,
                                                   .ndim = 1, .shape = shape, .op = HOROVOD_MAX),
                                    &handles[i], &err) != HOROVOD_OK)
            fail("submit", &err);
    for (int i = 0; i < MANY; i++)
        if (horovod_wait(handles[i], &err) != HOROVOD_OK)
            fail("wait", &err);
    if (horovod_allreduce(values[0], values[0],
                          HOROVOD_TENSOR(.name = "one", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                         .shape = shape, .op = HOROVOD_MAX),
                          &err) != HOROVOD_OK)
        fail("allreduce", &err);
}

/* Adds what a thread has slept to *sum, if it is the library's. */
static void add_switches(const char *thread, unsigned long *sum)
{
    char path[300], line[256];
    unsigned long n;
    int is_ours = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Name:\thorovod", 13) == 0)
            is_ours = 1;
        if (is_ours && sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
            *sum += n;
    }
    if (file)
        fclose(file);
}

/* How often the library's threads have slept so far: each sleep ends with a wake-up. */
static unsigned long switches(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned long sum = 0;

    for (const struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            add_switches(entry->d_name, &sum);
    if (tasks)
        closedir(tasks);
    return sum;
}

static horovod_counters_t counters(void)
{
    horovod_counters_t c = {.size = sizeof(c)};
    horovod_error_t err = {0};

    if (horovod_counters(&c, &err) != HOROVOD_OK)
        fail("counters", &err);
    return c;
}

/* Messages, sleeps and wake-ups of the library's threads in a third of a second without work. */
static unsigned long long look(char *text, size_t size)
{
    const horovod_counters_t before = counters();
    const unsigned long woken_before = switches();

    usleep(333333);
    const horovod_counters_t after = counters();
    const unsigned long long n_messages = after.messages_sent + after.messages_received -
                                          before.messages_sent - before.messages_received;
    const unsigned long long n_sleeps = after.sleeps - before.sleeps;
    const unsigned long n_woken = switches() - woken_before;
    snprintf(text, size, "\"idle_messages\": %llu, \"idle_sleeps\": %llu, \"idle_wakeups\": %lu",
             n_messages, n_sleeps, n_woken);
    return n_messages + n_sleeps + n_woken;
}

/* The quietest of some windows: the last step still echoes in the first, and who is done earlier
 * asks for the barrier in the last. What is done again and again while idle is in all of them. */
static void idle(void)
{
    char text[200], least_text[200] = "";
    unsigned long long least = ~0ull;

    for (int i = 0; i < 5; i++) {
        const unsigned long long n = look(text, sizeof(text));
        if (n >= least)
            continue;
        least = n;
        memcpy(least_text, text, sizeof(text));
    }
    printf("{\"rank\": %d, %s}\n", horovod_rank(), least_text);
    fflush(stdout);
}

/* The first time that tensors happen to be agreed on in another combination costs memory for its
 * plan; that wears off, where an allocation in each step would be in every window. */
static void steady(int n_steps)
{
    const horovod_counters_t before = counters();

    allocations_count(true);
    for (int i = 0; i < n_steps; i++)
        step();
    allocations_count(false);
    const horovod_counters_t after = counters();
    printf("{\"rank\": %d, \"allocations\": %lu, \"tensors\": %llu}\n", horovod_rank(),
           allocations_counted(), (unsigned long long)(after.completed - before.completed));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int n_steps = argc > 1 ? atoi(argv[1]) : 100;
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    for (int i = 0; i < MANY; i++)
        snprintf(names[i], sizeof(names[i]), "tensor.%d", i);
    for (int i = 0; i < WARM_UP; i++)
        step();
    for (int window = 0; window < WINDOWS; window++)
        steady(n_steps / WINDOWS);
    if (argc > 2)
        idle();
    if (horovod_barrier(&err) != HOROVOD_OK)
        fail("barrier", &err);
    horovod_shutdown();
    return 0;
}
