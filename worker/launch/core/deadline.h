#ifndef HVD_WORKER_LAUNCH_CORE_DEADLINE_H
#define HVD_WORKER_LAUNCH_CORE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Limits beyond the programs' grace: the time of mpirun to end once a rank has failed, then its
 * time to obey SIGTERM. */
#define HVD_DEADLINE_END_MS 10000
#define HVD_DEADLINE_STOP_MS 5000
/* A longer time between two looks counts as this: the launcher did not run. */
#define HVD_DEADLINE_LOOK_MS 1000

enum hvd_deadline_step {
    HVD_DEADLINE_WAIT,
    HVD_DEADLINE_STOP, /* send SIGTERM to mpirun; returned once */
    HVD_DEADLINE_KILL, /* kill mpirun; returned once */
};

/* The time of mpirun since a rank has failed. All zero but grace_ms at the start. */
struct hvd_deadline {
    int64_t grace_ms; /* of programs */
    int64_t last_ms;  /* the last look; 0: the time does not run yet */
    int64_t waited_ms;
    enum hvd_deadline_step last; /* the last step returned */
};

/*
 * Returns the step that is due at now_ms (> 0, any clock that goes forward). is_ending: mpirun has
 * to end, because a rank has failed. is_held: something other than mpirun prevents that, such as a
 * reader that does not read its output; the time does not count.
 */
enum hvd_deadline_step hvd_deadline_look(struct hvd_deadline *deadline, int64_t now_ms,
                                         bool is_ending, bool is_held);

#endif
