/*
 * Opens libhorovod as a program does that was not linked to it: dlopen DLOPEN_PATH with local
 * symbols, an allreduce over all ranks, and out again. Prints "rank R of N: SUM". With the name of
 * MPI's library behind it the program initialises MPI, closes libhorovod, and finalises MPI.
 */
#include <dlfcn.h>
#include <stdio.h>

#include <horovod/horovod.h>

static void *library;

/* Puts the address of the function into *out; false when the library has none of that name. */
static bool find(const char *name, void *out)
{
    *(void **)out = dlsym(library, name);
    return *(void **)out;
}

/* Calls MPI_Init_thread of the library, for MPI_THREAD_MULTIPLE; MPI_Finalize into *out. */
static bool init_mpi(const char *name, int (**out)(void))
{
    void *mpi = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    int (*init)(int *, char ***, int, int *);
    int level = 0;

    if (!mpi)
        return false;
    *(void **)&init = dlsym(mpi, "MPI_Init_thread");
    *(void **)out = dlsym(mpi, "MPI_Finalize");
    return init && *out && init(NULL, NULL, 3, &level) == 0;
}

int main(int argc, char **argv)
{
    int (*finalize)(void) = NULL;
    int64_t sum = 0;
    horovod_error_t err = {0};
    bool (*init)(const int *, int, const int *, const int *, int);
    int (*rank)(void), (*size)(void);
    void (*leave)(void);
    horovod_status_t (*allreduce)(const void *, void *, const horovod_tensor_t *,
                                  horovod_error_t *);

    library = argc >= 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "dlopen: %s\n",
                argc >= 2 ? dlerror() : "usage: dlopen libhorovod.so [libmpi.so]");
        return 1;
    }
    if (!find("horovod_init", &init) || !find("horovod_rank", &rank) ||
        !find("horovod_size", &size) || !find("horovod_allreduce", &allreduce) ||
        !find("horovod_shutdown", &leave) || rank() != -1)
        return 2;
    if (argc > 2 && !init_mpi(argv[2], &finalize))
        return 5;
    if (!init(NULL, 0, NULL, NULL, 0))
        return 3;
    const int64_t one = rank() + 1;
    if (allreduce(&one, &sum,
                  HOROVOD_TENSOR(.name = "sum", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM),
                  &err) != HOROVOD_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 4;
    }
    printf("rank %d of %d: %lld\n", rank(), size(), (long long)sum);
    leave();
    if (!finalize)
        return 0;
    return dlclose(library) || finalize();
}
