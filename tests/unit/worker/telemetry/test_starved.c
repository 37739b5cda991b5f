/*
 * The writer of the timeline where ranks leave it no processor time. Everything here happens on one
 * processor, and what is compared is what the threads got of it: how busy the machine is otherwise
 * does not matter.
 */
#include "tests/unit/support.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "worker/telemetry/telemetry.h"

#define BUSY_NS INT64_C(1500000000) /* at least */
#define BUSY_MAX_NS (20 * BUSY_NS)  /* a sanitizer slows the writer down as well */
#define SLICE_NS INT64_C(250000000)

/* A number of the writer's thread: the first one of its file, or -1. */
static int64_t writer_number(const char *file)
{
    char path[300];
    char text[64] = "";
    int64_t number = -1;
    DIR *tasks = opendir("/proc/self/task");

    assert_non_null(tasks);
    for (const struct dirent *entry; number < 0 && (entry = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *comm = fopen(path, "r");
        const bool is_writer =
            comm && fgets(text, sizeof(text), comm) && strcmp(text, "hvd-watch\n") == 0;
        if (comm)
            fclose(comm);
        snprintf(path, sizeof(path), "/proc/self/task/%s/%s", entry->d_name, file);
        FILE *numbers = is_writer ? fopen(path, "r") : NULL;
        if (numbers && fgets(text, sizeof(text), numbers))
            number = strtoll(text, NULL, 10);
        if (numbers)
            fclose(numbers);
    }
    closedir(tasks);
    return number;
}

static int64_t own_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* Runs on, on this processor alone, with a tensor now and then, and never sleeps. */
static void be_busy(struct hvd_telemetry *w)
{
    const struct hvd_request req = {
        .op = HVD_ALLREDUCE, .dtype = HVD_FLOAT32, .reduce = HVD_SUM, .name = hvd_strview_of("t")};
    const int64_t until = own_ns() + SLICE_NS;

    for (uint64_t id = 1; own_ns() < until; id++) {
        hvd_telemetry_submitted(w, id, &req, false);
        hvd_telemetry_agreed(w, id, &req, false);
        hvd_telemetry_started(w, id, &req, "MPI", false);
        hvd_telemetry_done(w, id, &req, 40, HVD_OK);
    }
}

static void a_starved_writer_still_writes_and_takes_little(void **state)
{
    char path[] = "/tmp/hvd-starved-XXXXXX";
    char aside[sizeof(path) + 2];
    const struct hvd_telemetry_options options = {
        .rank = 0, .size = 1, .timeline = path, .timeline_bytes = 1 << 20};
    struct hvd_telemetry *w = NULL;
    struct hvd_counts counts;
    int64_t busy_ns = 0;
    cpu_set_t all;
    cpu_set_t one;

    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(aside, sizeof(aside), "%s.1", path);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(hvd_telemetry_create(&options, &w, NULL), HVD_OK);
    for (int i = 0; i < 10000 && writer_number("schedstat") < 0; i++)
        usleep(1000);
    const int64_t before = writer_number("schedstat");
    assert_true(before >= 0);
    do {
        be_busy(w);
        busy_ns += SLICE_NS;
        hvd_telemetry_counts(w, &counts);
    } while (busy_ns < BUSY_NS || (counts.timeline_events == 0 && busy_ns < BUSY_MAX_NS));
    const int64_t ns = writer_number("schedstat") - before;
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    hvd_telemetry_destroy(w);
    unlink(path);
    unlink(aside);
    print_message("a writer with %.1f %% of a rank's time wrote %llu events\n",
                  100.0 * (double)ns / (double)busy_ns, (unsigned long long)counts.timeline_events);
    assert_in_range(ns, busy_ns / 60, INT64_MAX);
    if (getpriority(PRIO_PROCESS, 0) == 0) /* else there is less room below */
        assert_in_range(ns, 0, busy_ns / 10);
    assert_true(counts.timeline_events > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_starved_writer_still_writes_and_takes_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
