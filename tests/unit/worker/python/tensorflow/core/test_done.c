/* Functions of C++ that a kernel keeps beyond the call that passed them: a program made as the
 * compiler of C++ would, with the functor on the heap. */
#include "tests/unit/support.h"

#include <string.h>

#include "base/mem.h"
#include "worker/python/tensorflow/core/done.h"

static int n_destroyed;
static int n_invoked;

static int manage(void *to, const void *from, int operation)
{
    void **functor = to;

    (void)from;
    assert_int_equal(operation, 3);
    hvd_free(*functor);
    n_destroyed++;
    return 0;
}

static void invoke(const void *functor)
{
    assert_non_null(*(void *const *)functor);
    n_invoked++;
}

static struct hvd_tf_done make(void)
{
    return (struct hvd_tf_done){
        .functor = {hvd_malloc(1, 16), NULL}, .manager = manage, .invoker = invoke};
}

/* As the destructor of std::function does. */
static void leave_scope(struct hvd_tf_done *done)
{
    if (done->manager)
        done->manager(done->functor, done->functor, 3);
}

static void a_function_that_was_taken_is_destroyed_once(void **state)
{
    struct hvd_tf_done original = make();
    struct hvd_tf_done taken;

    (void)state;
    n_destroyed = n_invoked = 0;
    hvd_tf_done_take(&taken, &original);
    leave_scope(&original);
    assert_int_equal(n_destroyed, 0);
    taken.invoker(taken.functor);
    hvd_tf_done_destroy(&taken);
    assert_int_equal(n_destroyed, 1);
    hvd_tf_done_destroy(&taken);
    assert_int_equal(n_destroyed, 1);
    assert_int_equal(n_invoked, 1);
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_function_that_was_not_taken_is_left_to_its_owner(void **state)
{
    struct hvd_tf_done original = make();
    struct hvd_tf_done none = {.manager = NULL};

    (void)state;
    n_destroyed = 0;
    hvd_tf_done_destroy(&none);
    leave_scope(&original);
    assert_int_equal(n_destroyed, 1);
    assert_int_equal(hvd_mem_live(), 0);
}

static bool is_ours(const void *address)
{
    void (*const invoker)(const void *) = invoke;
    int (*const manager)(void *, const void *, int) = manage;

    return memcmp(&address, &invoker, sizeof(address)) == 0 ||
           memcmp(&address, &manager, sizeof(address)) == 0;
}

static bool is_nobodys(const void *address)
{
    (void)address;
    return false;
}

static void only_two_addresses_of_code_are_a_function(void **state)
{
    struct hvd_tf_done done = {.manager = manage, .invoker = invoke};
    int data = 0;
    const void *address = &data;

    (void)state;
    assert_true(hvd_tf_done_fits(&done, is_ours));
    assert_false(hvd_tf_done_fits(&done, is_nobodys));
    memcpy(&done.invoker, &address, sizeof(address));
    assert_false(hvd_tf_done_fits(&done, is_ours));
    done = (struct hvd_tf_done){.manager = NULL, .invoker = invoke};
    assert_false(hvd_tf_done_fits(&done, is_ours));
    done = (struct hvd_tf_done){.manager = manage, .invoker = NULL};
    assert_false(hvd_tf_done_fits(&done, is_ours));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_was_taken_is_destroyed_once),
        cmocka_unit_test(a_function_that_was_not_taken_is_left_to_its_owner),
        cmocka_unit_test(only_two_addresses_of_code_are_a_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
