#ifndef HVD_WORKER_CORE_MISMATCH_H
#define HVD_WORKER_CORE_MISMATCH_H

#include "worker/core/types.h"

/* Two ranks ask for the same name: what the first of them asked for and who it was. */
struct hvd_asked {
    int rank;
    const struct hvd_request *req;
};

/*
 * Compares two requests of one name. Returns 0 when they agree, else the number of the first check
 * that failed (1 data type, 2 operation, 3 shape, 4 reduction, 5 root; a lower one is reported
 * first) and writes the sentence for every rank into text.
 */
int hvd_mismatch(struct hvd_asked one, struct hvd_asked other, char *text, size_t size);

#endif
