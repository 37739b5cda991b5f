#ifndef HVD_TESTS_UNIT_MEM_TESTING_H
#define HVD_TESTS_UNIT_MEM_TESTING_H

#include <stdbool.h>
#include <stddef.h>

/* Control of the allocator that tests link (mem_testing.c). Counters are shared by all threads. */

/* The nth allocation from now (1 = the next) returns NULL once; 0 disarms. */
void hvd_mem_fail_nth(unsigned long nth);

/* Whether the armed failure has happened. */
bool hvd_mem_fired(void);

/* Blocks allocated and not freed yet: 0 after every test. */
long hvd_mem_live(void);

/* Allocations since the program started, failed ones not counted. */
unsigned long hvd_mem_allocations(void);

/* How many pages are given at once, at most; 1 unless told. Only while none is out. */
void hvd_mem_pages_at_once(size_t n);

/*
 * Runs BODY again and again, its first allocation failing in the first round, its second in the
 * second, and so on until a round needs no further allocation. In BODY, hvd_mem_fired() tells
 * whether this round's failure has happened. Checks after each round that nothing leaked.
 */
#define HVD_MEM_TORTURE(BODY)                                                                      \
    do {                                                                                           \
        unsigned long nth_ = 0;                                                                    \
        bool fired_;                                                                               \
        do {                                                                                       \
            long live_before_ = hvd_mem_live();                                                    \
            hvd_mem_fail_nth(++nth_);                                                              \
            BODY;                                                                                  \
            fired_ = hvd_mem_fired();                                                              \
            hvd_mem_fail_nth(0);                                                                   \
            assert_int_equal(hvd_mem_live(), live_before_);                                        \
            assert_true(nth_ < 100000);                                                            \
        } while (fired_);                                                                          \
        assert_true(nth_ > 1);                                                                     \
    } while (0)

#endif
