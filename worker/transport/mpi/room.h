#ifndef HVD_WORKER_TRANSPORT_MPI_ROOM_H
#define HVD_WORKER_TRANSPORT_MPI_ROOM_H

#include "base/status.h"

/*
 * Checks, before MPI is initialised, that the folder for temporary files has room for MPI's files.
 * Otherwise Open MPI would end the process with errors of its own, or hang. HVD_ERR_SYSTEM names
 * the folder and the remedy. Where the room cannot be determined, returns HVD_OK.
 */
hvd_status_t hvd_mpi_check_room(struct hvd_err *err);

#endif
