#ifndef HVD_WORKER_API_INSIDE_H
#define HVD_WORKER_API_INSIDE_H

/* Who uses what can be replaced; see inside.c. */

/* This thread reads the pointers to what is to stay until it leaves. May be nested. */
void hvd_inside_enter(void);

/* It uses them no more. */
void hvd_inside_exit(void);

/* Returns once everybody who was inside at the call, and may have read pointers that have been
 * replaced before, has left. The caller is not inside. */
void hvd_inside_drain(void);

#endif
