/*
 * Switching stacks; see turns_switch.h. ucontext alone would do, but it saves and sets the mask of
 * signals each time, which are two system calls. So it serves for the first turn on a stack only,
 * and jumps for all others. Sanitizers follow ucontext, and know nothing of such jumps.
 */
#include "tests/unit/worker/engine/turns_switch.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JUMPS 0
#else
#define JUMPS 1
#endif

#define STACK_BYTES (128 * 1024)

static struct turns_stack outside;

static void leave(void **mine, const struct turns_stack *to)
{
#if defined(__SANITIZE_ADDRESS__)
    static const size_t whole = 8 * 1024 * 1024; /* of the real thread's stack, at most */
    __sanitizer_start_switch_fiber(mine, to->memory, to->memory ? STACK_BYTES : whole);
#elif defined(__SANITIZE_THREAD__)
    (void)mine;
    __tsan_switch_to_fiber(to->sanitizer, 0);
#else
    (void)mine;
    (void)to;
#endif
}

void turns_arrived(const struct turns_stack *self)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->sanitizer, NULL, NULL);
#else
    (void)self;
#endif
}

/* Ends this turn on a stack. */
static void go(struct turns_stack *from, struct turns_stack *to)
{
    if (!JUMPS) {
        swapcontext(&from->context, &to->context);
        return;
    }
    if (_setjmp(from->jump) != 0)
        return;
    if (to->has_begun)
        _longjmp(to->jump, 1);
    to->has_begun = true;
    setcontext(&to->context);
}

bool turns_stack_begin(struct turns_stack *s, void (*body)(void))
{
    if (!s->memory)
        s->memory = malloc(STACK_BYTES);
    if (!s->memory)
        return false;
    getcontext(&s->context);
    s->context.uc_stack.ss_sp = s->memory;
    s->context.uc_stack.ss_size = STACK_BYTES;
    s->context.uc_link = NULL;
    makecontext(&s->context, body, 0);
    s->has_begun = false;
    s->sanitizer = NULL;
#if defined(__SANITIZE_THREAD__)
    s->sanitizer = __tsan_create_fiber(0);
#endif
    return true;
}

void turns_stack_end(struct turns_stack *s)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(s->sanitizer);
#endif
    s->sanitizer = NULL;
}

void turns_switch(struct turns_stack *from, struct turns_stack *to)
{
    leave(&from->sanitizer, to);
    go(from, to);
    turns_arrived(from);
}

void turns_switch_in(struct turns_stack *to)
{
#if defined(__SANITIZE_THREAD__)
    outside.sanitizer = __tsan_get_current_fiber();
#endif
    outside.has_begun = true;
    turns_switch(&outside, to);
}

void turns_switch_out(struct turns_stack *from, bool is_over)
{
    leave(is_over ? NULL : &from->sanitizer, &outside);
    go(from, &outside);
    abort(); /* nobody comes back */
}
