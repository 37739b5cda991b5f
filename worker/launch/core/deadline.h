#ifndef HVD_WORKER_LAUNCH_CORE_DEADLINE_H
#define HVD_WORKER_LAUNCH_CORE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Beyond the grace of programs: so long mpirun has to end once a rank has failed, and then to obey
 * SIGTERM. */
#define HVD_DEADLINE_END_MS 10000
#define HVD_DEADLINE_STOP_MS 5000
/* A longer time between two looks counts as this: nobody looked. */
#define HVD_DEADLINE_LOOK_MS 1000

enum hvd_deadline_step {
    HVD_DEADLINE_WAIT,
    HVD_DEADLINE_STOP, /* mpirun is to be sent SIGTERM; once */
    HVD_DEADLINE_KILL, /* mpirun is to be killed; once */
};

/* The time that mpirun has to end after a rank has failed. All zero but grace_ms at the start. */
struct hvd_deadline {
    int64_t grace_ms; /* of programs */
    int64_t last_ms;  /* when it was looked; 0: the time does not run yet */
    int64_t waited_ms;
    enum hvd_deadline_step last; /* what was due last */
};

/*
 * What is due at now_ms (> 0, any clock that goes forward). is_ending: mpirun is to end, because a
 * rank has failed; is_held: something else than mpirun keeps it from that, and the time does not
 * count: nobody reads what it writes.
 */
enum hvd_deadline_step hvd_deadline_look(struct hvd_deadline *deadline, int64_t now_ms,
                                         bool is_ending, bool is_held);

#endif
