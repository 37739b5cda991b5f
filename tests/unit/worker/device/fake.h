#ifndef HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_H
#define HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_H

#include "worker/device/device.h"
#include "worker/transport/transport.h"

/*
 * A device for tests. Its memory cannot be read or written but by its own operations (whoever tries
 * dies of SIGSEGV). Work is launched some looks after it was handed over, runs some looks later,
 * and its event shows some looks after that, all drawn from a seed; streams overtake each other.
 * Wrong use (memory of the wrong side, a buffer freed while it is in use by a stream, an event that
 * is not released) ends the test process with a sentence.
 */
struct fake_options {
    uint64_t seed;
    unsigned max_delay;          /* looks that an item or event takes at most; 0: none */
    struct hvd_transport *mover; /* its collectives go over it; borrowed; NULL: it has none */
    bool in_steps; /* allreduces on several equal hosts take three steps: see `part` in device.h */
    /* The n-th call fails, counted from 1, and for events all later ones; 0: none does. */
    int fail_launch; /* launch: itself, or when the work is launched */
    int fail_event;  /* query, wait */
    int fail_alloc;  /* alloc, alloc_host */
};

/* A device; ends the test when there is no memory for it. */
struct hvd_device_port *fake_create(const struct fake_options *options);

/* Ends the test when memory or events of the device are still in use. */
void fake_destroy(struct hvd_device_port *d);

/* Memory of the device with a copy of `bytes` bytes, to be freed by d->ops->free. */
void *fake_put(struct hvd_device_port *d, const void *from, size_t bytes);

/* Copies out of the device's memory. */
void fake_get(struct hvd_device_port *d, void *to, const void *from, size_t bytes);

/* An event of the program, not done yet; to be ended by fake_ready_free. */
struct hvd_device_event *fake_ready_create(void);

/* An event that is done when work has looked at it so many times; ended likewise. */
struct hvd_device_event *fake_ready_after(unsigned looks);

/* The event is done, or failed. Any thread. */
void fake_ready_fire(struct hvd_device_event *ready, bool failed);

/* Ends the program's use of the event. NULL is allowed. */
void fake_ready_free(struct hvd_device_event *ready);

/* Lets time pass on all devices, as every question does. */
void fake_look(void);

/* What a device does wrong until an abort. */
enum fake_trouble {
    FAKE_WELL,
    FAKE_HANGS,   /* no work is launched and no set connects: a driver that hangs */
    FAKE_STOPPED, /* collectives are not done here, though other ranks may end theirs */
};

/* Makes the device do that from now on. */
void fake_break(struct hvd_device_port *d, enum fake_trouble trouble);

/* Runs everything that was handed over, to its end. */
void fake_drain(struct hvd_device_port *d);

/* Blocks of alloc_host that are in use. */
int fake_host_blocks(struct hvd_device_port *d);

/* Collectives so far. */
unsigned fake_collectives(struct hvd_device_port *d);

#endif
