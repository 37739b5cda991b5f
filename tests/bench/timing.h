#ifndef HVD_TESTS_BENCH_TIMING_H
#define HVD_TESTS_BENCH_TIMING_H

/* What the benchmarks' programs share: a clock, an order for medians, and an end for all ranks. */

/* Microseconds of a clock that never jumps. */
double bench_now_us(void);

/* Compares two doubles, for qsort. */
int bench_by_value(const void *a, const void *b);

/* Says why, and ends every rank of the job. */
_Noreturn void bench_fail(const char *what);

#endif
