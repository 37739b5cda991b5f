#ifndef HVD_OPERATOR_APP_LISTENER_H
#define HVD_OPERATOR_APP_LISTENER_H

#include <sys/socket.h>

#include "base/status.h"
#include "operator/app/options.h"

/* A client that was accepted. */
struct hvd_client_socket {
    int fd;
    struct sockaddr_storage address;
    socklen_t address_len;
};

/*
 * Listens at the address; without a host on all interfaces, IPv4 and, if available, IPv6. *fd is
 * the caller's and does not block. HVD_ERR_SYSTEM names the address and the cause.
 */
hvd_status_t hvd_listener_open(const struct hvd_listen *listen, int *fd, struct hvd_err *err);

/*
 * Accepts the next client; its descriptor is the caller's and does not block. HVD_ERR_NOT_FOUND: no
 * client waits; HVD_ERR_UNAVAILABLE: this process or machine is out of descriptors or memory.
 */
hvd_status_t hvd_listener_accept(int fd, struct hvd_client_socket *out);

#endif
