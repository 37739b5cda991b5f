#ifndef HVD_WORKER_API_INSIDE_H
#define HVD_WORKER_API_INSIDE_H

/* Tracks the threads that use objects which another thread may replace; see inside.c. */

/* Call it before reading pointers to such objects: they stay valid until hvd_inside_exit. May be
 * nested. */
void hvd_inside_enter(void);

/* Ends the use of them. */
void hvd_inside_exit(void);

/* Waits until the threads that were inside at the call have left, since they may hold pointers that
 * were replaced before it. The caller must not be inside. */
void hvd_inside_drain(void);

#endif
