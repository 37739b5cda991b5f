#ifndef HVD_WORKER_ENGINE_EXECUTE_DEVICE_SET_H
#define HVD_WORKER_ENGINE_EXECUTE_DEVICE_SET_H

#include "worker/device/device.h"
#include "worker/engine/execute/across.h"
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

/* How far the first operation between devices is that is not done on this rank. */
enum hvd_device_stage {
    HVD_STAGE_AWAITED,  /* it is not launched */
    HVD_STAGE_LAUNCHED, /* and the device has not reached it: its inputs are not there */
    HVD_STAGE_REACHED,
    HVD_STAGES
};

/* An operation between devices that was handed over. */
struct hvd_flying {
    int64_t since_ns;
    enum hvd_op op;
    char name[200];
};

#define HVD_FLYING_MAX 32

struct hvd_set_device {
    struct hvd_device_port *device;
    struct hvd_host_block *free; /* host memory for later operations; owned */
    uint32_t set;
    uint32_t n_unclaimed; /* fused operations that have begun and have not claimed their memory */
    enum hvd_device_mode mode;
    struct hvd_device_event *last; /* of the last operation between devices; NULL: it is done */
    uint64_t
        n_handed; /* operations between devices; the same ones in the same order on all ranks */
    uint64_t n_launched; /* of these */
    struct hvd_flying
        flying[HVD_FLYING_MAX]; /* the last ones; the n-th one is at n % HVD_FLYING_MAX */
    char question[HVD_DEVICE_KEY_MAX + 1]; /* the key, and whether a rank lacks collectives */
    struct hvd_collective kept_move;       /* of the fused operation behind the exchange of keys */
    bool has_kept_more;                    /* likewise */
    struct hvd_across *across; /* of a device that may move in three steps; owned; NULL: none */
};

/* A block of host memory for one fused operation. */
struct hvd_host_block {
    struct hvd_host_block *next;
    struct hvd_device_port *device; /* borrowed; the owner of the memory */
    void *memory;
    size_t bytes;
};

/* Creates the set's resources at first use. A rank that has joined may have no device: the host is
 * its device then, until it has one. HVD_ERR_NOMEM. */
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
void hvd_device_set_free_block(struct hvd_host_block *block);

/* Whether the devices of all ranks move the fused operation. */
bool hvd_device_set_moves(const struct hvd_set_device *on, const struct hvd_fused_op *f);

/* Returns the elements of this rank's part of a fused operation that the devices move in three
 * steps (`part` in device.h); -1: they move it as a whole. */
int64_t hvd_device_set_part(const struct hvd_set_device *on, const struct hvd_fused_op *f);

/* HVD_OK when the mode is known and the device is connected, HVD_INPROGRESS while it connects.
 * HVD_ERR_NOT_FOUND: the ranks must exchange keys first, by hvd_question_mover. */
hvd_status_t hvd_device_set_ready(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* Replaces f->move by the exchange of the key, from rank 0, and of whether any rank lacks
 * collectives. */
hvd_status_t hvd_device_set_ask(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err);

/* Moves that exchange, and then returns the fused operation to hvd_staging_mover. */
extern const struct hvd_mover hvd_question_mover;

/* Records that a fused operation is handed over, to move between devices. Returns its number, from
 * 1 on. */
uint64_t hvd_device_set_handed(const struct hvd_engine *e, struct hvd_set_device *on,
                               const struct hvd_fused_op *f);

/* Records that the operation of that number has been launched, whose event is done when it is. */
void hvd_device_set_launched(struct hvd_set_device *on, uint64_t number,
                             struct hvd_device_event *event);

/* Whether an operation was launched that may not be done. NULL is allowed. */
static inline bool hvd_device_set_is_flying(const struct hvd_set_device *on)
{
    return on && on->last;
}

/* Looks whether the last operation is done. Fails as the device does. NULL is allowed. */
hvd_status_t hvd_device_set_check(struct hvd_set_device *on, struct hvd_err *err);

/* Whether operations move between devices, once these have connected. NULL is allowed. */
static inline bool hvd_device_set_is_direct(const struct hvd_set_device *on)
{
    return on && (on->mode == HVD_MODE_CONNECTING || on->mode == HVD_MODE_DIRECT);
}

/* Whether devices connect, for which all ranks wait. NULL is allowed. */
static inline bool hvd_device_set_connects(const struct hvd_set_device *on)
{
    return on && on->mode == HVD_MODE_CONNECTING;
}

/* Returns HVD_STAGES times the operations between devices that are done, plus the stage of the next
 * one. It grows, and means the same on all ranks. */
uint64_t hvd_device_set_progress(const struct hvd_set_device *on);

/* Returns the first operation between devices that is not done, or a later one if there are more
 * than HVD_FLYING_MAX; NULL: all are done. NULL is allowed. */
const struct hvd_flying *hvd_device_set_flying(const struct hvd_set_device *on);

#endif
