#ifndef HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_EVENT_H
#define HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_EVENT_H

#include "worker/device/device.h"

/* An event of a fake device, or of the program, whose device is fake_program. */
struct fake_event {
    struct hvd_device_event base; /* first */
    atomic_bool is_done;
    atomic_bool has_failed; /* of the program, or of a collective that was aborted */
    atomic_uint delay;      /* looks after the work */
};

/* The owner of the program's events. */
extern struct hvd_device_port fake_program;

/* Returns the event behind the port. */
static inline struct fake_event *event_of(struct hvd_device_event *event)
{
    return (struct fake_event *)event;
}

/* Looks at an event whose work is done: whether that shows. */
static inline bool fake_event_shows(struct fake_event *event)
{
    unsigned left = atomic_load(&event->delay);

    while (left > 0)
        if (atomic_compare_exchange_weak(&event->delay, &left, left - 1))
            return false;
    return true;
}

#endif
