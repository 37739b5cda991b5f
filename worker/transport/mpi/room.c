/*
 * Detects, before MPI_Init, a folder for temporary files without room. A rank reads the files that
 * its launcher's PMIx has written there: in a full folder Open MPI 4 leaves them empty. A process
 * alone starts a launcher of its own. Its PMIx allocates 8 MiB at once with Open MPI 4 and nothing
 * with Open MPI 5.
 */
#include "worker/transport/mpi/room.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/room.h"

#define SEGMENT "initial-pmix_shared-segment-0"
#define REMEDY "remove files there, or set TMPDIR to a folder with room"

/* Whether the launcher had no room for the files that ranks read in the folder. */
static bool is_empty(const char *folder)
{
    struct stat about;
    char path[4096];

    return folder && snprintf(path, sizeof(path), "%s/" SEGMENT, folder) < (int)sizeof(path) &&
           stat(path, &about) == 0 && about.st_size == 0;
}

/* The folder in which Open MPI keeps the files of a process alone. */
static const char *place_alone(void)
{
    static const char *const names[] = {"OMPI_MCA_orte_tmpdir_base",
                                        "OMPI_MCA_orte_local_tmpdir_base", "TMPDIR", "TEMP", "TMP"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return getenv(names[i]);
    return "/tmp";
}

/* Whether the room left is too small for a process alone. */
static bool is_full(const char *place)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    const int fd = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool has_room = true;
    int len = 0;

    (void)MPI_Get_library_version(version, &len);
    if (fd >= 0) {
        has_room =
            hvd_room_is_in(fd, strncmp(version, "Open MPI v4.", 12) == 0 ? HVD_ROOM_MPI_4 : 0);
        (void)close(fd);
    }
    return !has_room;
}

hvd_status_t hvd_mpi_check_room(struct hvd_err *err)
{
    const char *const served[] = {getenv("PMIX_DSTORE_ESH_BASE_PATH"),
                                  getenv("PMIX_DSTORE_21_BASE_PATH")};

    for (size_t i = 0; i < 2; i++)
        if (is_empty(served[i]))
            return HVD_FAIL(err, HVD_ERR_SYSTEM, ENOSPC,
                            "mpirun had no room for its temporary files in %.300s: " REMEDY,
                            served[i]);
    if (getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK"))
        return HVD_OK;
    if (is_full(place_alone()))
        return HVD_FAIL(err, HVD_ERR_SYSTEM, ENOSPC,
                        "no room in %.300s for MPI's temporary files (9 MiB): " REMEDY,
                        place_alone());
    return HVD_OK;
}
