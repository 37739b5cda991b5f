#ifndef HVD_OPERATOR_APP_PACE_H
#define HVD_OPERATOR_APP_PACE_H

#include <stdint.h>

/* Between two looks at the network, always: what arrives together is read together. */
#define HVD_PACE_GAP_US 2000
/* As the mean, once the credit of looks is spent: libcurl goes through all requests at each look,
 * so that looks, and not bytes, are what a busy operator spends its time on. */
#define HVD_PACE_MEAN_US 10000
/* Looks beyond the mean that may be made at once; credit comes back at the rate of the mean. */
#define HVD_PACE_CREDIT 800

/*
 * When the network may be looked at next: a token bucket (the generic cell rate algorithm of ITU-T
 * I.371). A burst is answered without delay, some seconds long; under lasting load, of whatever
 * origin, the number of looks is bounded. Starts as zeros.
 */
struct hvd_pace {
    int64_t _looked_us; /* the last look */
    int64_t _spent_us;  /* until when all looks so far would last at the rate of the mean */
};

/* How many microseconds to wait from now_us, a time of a monotonic clock, until the next look: 0 to
 * HVD_PACE_MEAN_US. */
int64_t hvd_pace_wait_us(const struct hvd_pace *pace, int64_t now_us);

/* Records a look at now_us. */
void hvd_pace_look(struct hvd_pace *pace, int64_t now_us);

#endif
