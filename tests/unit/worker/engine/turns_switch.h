#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_TURNS_SWITCH_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_TURNS_SWITCH_H

#include <setjmp.h>
#include <stdbool.h>
#include <ucontext.h>

/*
 * Stacks that one real thread runs on, one at a time, and the way from one to another. Under a
 * sanitizer it is told of each switch; otherwise a switch is a jump, without a system call.
 */
struct turns_stack {
    jmp_buf jump;       /* where it was left, after its first turn */
    ucontext_t context; /* where it begins; under a sanitizer, where it was left */
    char *memory;       /* owned, kept until the process ends */
    void *sanitizer;    /* its own view of the stack */
    bool has_begun;
};

/* Makes a stack new; its first turn calls body, which calls turns_arrived first and never returns.
 * False when out of memory. */
bool turns_stack_begin(struct turns_stack *s, void (*body)(void));

/* After the last turn on the stack. */
void turns_stack_end(struct turns_stack *s);

/* First of all in a body, on its stack. */
void turns_arrived(const struct turns_stack *self);

/* From one stack to another; returns when somebody switches back. */
void turns_switch(struct turns_stack *from, struct turns_stack *to);

/* From the thread's own stack to another; returns with turns_switch_out. */
void turns_switch_in(struct turns_stack *to);

/* Back there, for good. is_over: from will never be left again, because its body is over. */
_Noreturn void turns_switch_out(struct turns_stack *from, bool is_over);

#endif
