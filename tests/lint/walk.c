/*
 * One allreduce that is looked at: `walk cached` one of a name that was used before, `walk new` the
 * first of its name. The script beside it has callgrind note the functions that its thread passes.
 */
#include <stdio.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include <horovod/horovod.h>

static int reduce(const char *name)
{
    horovod_error_t err = {0};
    float value = 1;

    if (horovod_allreduce(&value, &value,
                          HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .op = HOROVOD_SUM),
                          &err) == HOROVOD_OK)
        return 0;
    fprintf(stderr, "walk: %s\n", err.message);
    return 1;
}

int main(int argc, char **argv)
{
    const int is_new = argc > 1 && strcmp(argv[1], "new") == 0;
    int failed = !horovod_init(NULL, 0, NULL, NULL, 0);

    for (int i = 0; i < 50 && !failed; i++)
        failed = reduce("known");
    if (!failed) {
        CALLGRIND_TOGGLE_COLLECT;
        failed = reduce(is_new ? "new" : "known");
        CALLGRIND_TOGGLE_COLLECT;
    }
    horovod_shutdown();
    return failed;
}
