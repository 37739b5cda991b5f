#ifndef HVD_OPERATOR_APP_PACE_H
#define HVD_OPERATOR_APP_PACE_H

#include <stdint.h>

/* Minimum time between two reads of the network: data that arrives together is read together. */
#define HVD_PACE_GAP_US 2000
/* Mean time between reads once the credit is spent. libcurl processes all requests at each read, so
 * a busy operator spends its time on reads, not on bytes. */
#define HVD_PACE_MEAN_US 10000
/* Reads beyond the mean that may follow at once; credit returns at the mean rate. */
#define HVD_PACE_CREDIT 800

/*
 * Decides when the network may be read next: a token bucket (the generic cell rate algorithm of
 * ITU-T I.371). A burst of some seconds is answered without delay; under lasting load from any
 * source the number of reads is bounded. Starts as zeros.
 */
struct hvd_pace {
    int64_t _looked_us; /* the last read */
    int64_t _spent_us;  /* until when all reads so far would last at the mean rate */
};

/* How many microseconds to wait from now_us, a time of a monotonic clock, until the next read: 0 to
 * HVD_PACE_MEAN_US. */
int64_t hvd_pace_wait_us(const struct hvd_pace *pace, int64_t now_us);

/* Records a read at now_us. */
void hvd_pace_look(struct hvd_pace *pace, int64_t now_us);

#endif
