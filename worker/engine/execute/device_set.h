#ifndef HVD_WORKER_ENGINE_EXECUTE_DEVICE_SET_H
#define HVD_WORKER_ENGINE_EXECUTE_DEVICE_SET_H

#include "worker/device/device.h"
#include "worker/engine/execute/fused_op.h"

/*
 * A process set on the device: how its tensors move there, and its host memory. Only the progress
 * owner calls these functions, without mu.
 */

enum hvd_device_mode {
    HVD_MODE_UNKNOWN,    /* no fused operation has moved yet */
    HVD_MODE_CONNECTING, /* all devices have collectives, and this one connects to the others */
    HVD_MODE_DIRECT,     /* the devices' own collectives move what they can */
    HVD_MODE_STAGED,     /* some device has none, so everything moves through host memory */
};

struct hvd_host_block;

/* A fused operation that was launched and may not be done. */
struct hvd_flying {
    struct hvd_device_event *event; /* a user of it; NULL: there is no such operation */
    int64_t since_ns;
    uint64_t number; /* differs for each */
    char name[200];
};

struct hvd_set_device {
    struct hvd_device_port *device;
    struct hvd_host_block *free; /* host memory for later operations; owned */
    uint32_t set;
    uint32_t n_unclaimed; /* fused operations that have begun and have not claimed their memory */
    enum hvd_device_mode mode;
    struct hvd_flying last;                /* that was launched */
    struct hvd_flying first;               /* the earliest one that is known */
    char question[HVD_DEVICE_KEY_MAX + 1]; /* the key, and whether a rank lacks collectives */
    struct hvd_collective kept_move;       /* of the fused operation behind the exchange of keys */
    bool has_kept_more;                    /* likewise */
};

/* A block of host memory for one fused operation. */
struct hvd_host_block {
    struct hvd_host_block *next;
    void *memory;
    size_t bytes;
};

/* Creates the set's resources at first use. A joined rank may have no device: then the host is its
 * device. HVD_ERR_NOMEM. */
hvd_status_t hvd_device_set_open(const struct hvd_engine *e, struct hvd_set *set,
                                 struct hvd_err *err);

/* Frees the set's resources. NULL is allowed. */
void hvd_device_set_destroy(struct hvd_set_device *on);

/* Takes a block of at least so many bytes; put returns it. HVD_ERR_NOMEM, or the device's
 * failure. */
hvd_status_t hvd_device_set_take(struct hvd_set_device *on, size_t bytes,
                                 struct hvd_host_block **out, struct hvd_err *err);
void hvd_device_set_put(struct hvd_set_device *on, struct hvd_host_block *block);

/* Frees a block. NULL is allowed. */
void hvd_device_set_free_block(struct hvd_device_port *d, struct hvd_host_block *block);

/* Whether the devices of all ranks move the fused operation. */
bool hvd_device_set_moves(const struct hvd_set_device *on, const struct hvd_fused_op *f);

/* HVD_OK when the mode is known and the device is connected, HVD_INPROGRESS while it connects.
 * HVD_ERR_NOT_FOUND: the ranks must exchange keys first, by hvd_question_mover. */
hvd_status_t hvd_device_set_ready(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* Replaces f->move by the exchange of the key, from rank 0, and of whether any rank lacks
 * collectives. */
hvd_status_t hvd_device_set_ask(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err);

/* Moves that exchange, and then returns the fused operation to hvd_staging_mover. */
extern const struct hvd_mover hvd_question_mover;

/* Records that a fused operation has been launched, whose event is done when it is. */
void hvd_device_set_launched(const struct hvd_engine *e, struct hvd_set_device *on,
                             struct hvd_device_event *event, const char *name);

/* Whether an operation was launched that may not be done. NULL is allowed. */
static inline bool hvd_device_set_is_flying(const struct hvd_set_device *on)
{
    return on && (on->first.event || on->last.event);
}

/* Updates on->first. Fails as the device does. NULL is allowed. */
hvd_status_t hvd_device_set_check(struct hvd_set_device *on, struct hvd_err *err);

#endif
