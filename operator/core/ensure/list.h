#ifndef HVD_OPERATOR_CORE_ENSURE_LIST_H
#define HVD_OPERATOR_CORE_ENSURE_LIST_H

#include <cjson/cJSON.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* The data of the host list: of the Ready workers, and the one that a job begins with. Borrowed;
 * NULL after a failure, the first also while nodes have to be read for it. */
const cJSON *hvd_list_ready(struct hvd_pass *p);
const cJSON *hvd_list_all(struct hvd_pass *p);

#endif
