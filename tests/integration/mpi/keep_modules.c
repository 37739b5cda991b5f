/*
 * Linked into the test programs of address sanitizer builds: a dlclose that closes nothing. Open
 * MPI unloads its plug-ins in MPI_Finalize, and the leak checker, which runs at the very end, could
 * not name the module any more that a leaked block was allocated in.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
