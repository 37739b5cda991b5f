#ifndef HVD_OPERATOR_CORE_CHILDREN_QUANTITY_H
#define HVD_OPERATOR_CORE_CHILDREN_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/*
 * Amounts of resources in Kubernetes' notation: "500m", "1Gi", "1.5", "2e3". Exact to a billionth,
 * and rounded up beyond. Larger values saturate at the largest amount. Never negative.
 */
struct hvd_quantity {
    int64_t whole;
    int32_t nano; /* 0 to 999999999 */
};

#define HVD_QUANTITY_SIZE 32

/* Reads a text or a number. Returns false, with *out untouched, for anything else. */
bool hvd_quantity_read(const cJSON *item, struct hvd_quantity *out);

/* a + b. */
struct hvd_quantity hvd_quantity_sum(struct hvd_quantity a, struct hvd_quantity b);

/* The larger one. */
struct hvd_quantity hvd_quantity_max(struct hvd_quantity a, struct hvd_quantity b);

/* n times a, for n >= 0. */
struct hvd_quantity hvd_quantity_times(struct hvd_quantity a, int64_t n);

/* Writes a whole number, or thousandths ("1500m"), rounded up. */
void hvd_quantity_format(struct hvd_quantity a, char out[HVD_QUANTITY_SIZE]);

#endif
