/*
 * Opens the library as a plain C program without its header would: mpi_exports LIBRARY NAME...
 * Fails when a name is missing, or when an internal one can be seen.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static const char *const hidden[] = {"hvd_engine_create", "hvd_malloc", "hvd_mpi_create"};
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int n_problems = 0;

    if (!library) {
        fprintf(stderr, "dlopen: %s\n", argc > 1 ? dlerror() : "no library given");
        return 1;
    }
    for (int i = 2; i < argc; i++) {
        if (!dlsym(library, argv[i])) {
            fprintf(stderr, "%s is missing\n", argv[i]);
            n_problems++;
        }
    }
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        if (dlsym(library, hidden[i])) {
            fprintf(stderr, "%s is visible\n", hidden[i]);
            n_problems++;
        }
    }
    int (*is_initialized)(void);
    *(void **)&is_initialized = dlsym(library, "horovod_is_initialized");
    if (is_initialized && is_initialized() != 0)
        n_problems++;
    return n_problems ? 1 : 0;
}
