#ifndef HVD_WORKER_TRANSPORT_MPI_ROOM_H
#define HVD_WORKER_TRANSPORT_MPI_ROOM_H

#include "base/status.h"

/*
 * To be called before MPI is initialised: whether the folder for temporary files has room for what
 * MPI keeps there. Without it Open MPI ends the process with errors of its own, or hangs.
 * HVD_ERR_SYSTEM names the folder and what to do. What cannot be found out counts as room.
 */
hvd_status_t hvd_mpi_check_room(struct hvd_err *err);

#endif
