/* Events of the program, which a test fires; see fake.h. */
#include "tests/unit/support.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/worker/device/fake.h"
#include "tests/unit/worker/device/fake_event.h"

static void recycle_program(struct hvd_device_port *d, struct hvd_device_event *event)
{
    (void)d;
    free(event);
}

static hvd_status_t query_program(struct hvd_device_port *d, struct hvd_device_event *event,
                                  struct hvd_err *err)
{
    struct fake_event *ready = event_of(event);

    if (ready->has_failed)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: an event failed", d->name);
    return ready->is_done && fake_event_shows(ready) ? HVD_OK : HVD_INPROGRESS;
}

static hvd_status_t wait_for_program(struct hvd_device_port *d, struct hvd_device_event *event,
                                     struct hvd_err *err)
{
    hvd_status_t st;

    while ((st = query_program(d, event, err)) == HVD_INPROGRESS)
        sched_yield();
    return st;
}

struct hvd_device_port fake_program = {
    .ops = &(const struct hvd_device_ops){.recycle = recycle_program,
                                          .query = query_program,
                                          .wait = wait_for_program},
    .name = "the program"};

static struct fake_event *create(void)
{
    struct fake_event *event = calloc(1, sizeof(*event));

    if (!event) {
        fprintf(stderr, "fake device: out of memory\n");
        abort();
    }
    event->base.device = &fake_program;
    atomic_init(&event->base.n_users, 1);
    return event;
}

struct hvd_device_event *fake_ready_create(void)
{
    return &create()->base;
}

struct hvd_device_event *fake_ready_after(unsigned looks)
{
    struct fake_event *ready = create();

    ready->is_done = true;
    ready->delay = looks;
    return &ready->base;
}

void fake_ready_fire(struct hvd_device_event *ready, bool failed)
{
    if (failed)
        event_of(ready)->has_failed = true;
    else
        event_of(ready)->is_done = true;
}

void fake_ready_free(struct hvd_device_event *ready)
{
    hvd_device_event_release(ready);
}
