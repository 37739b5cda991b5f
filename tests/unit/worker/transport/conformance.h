#ifndef HVD_TESTS_UNIT_WORKER_TRANSPORT_CONFORMANCE_H
#define HVD_TESTS_UNIT_WORKER_TRANSPORT_CONFORMANCE_H

#include "worker/transport/transport.h"

/*
 * What every transport keeps, as transport.h says it. Every rank calls it, in a thread or process
 * of its own; it uses the transport alone and leaves nothing moving. NULL when all holds, else what
 * does not, in a static text.
 */
const char *hvd_transport_conformance(struct hvd_transport *t);

#endif
