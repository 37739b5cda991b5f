#ifndef HVD_OPERATOR_CORE_VIEW_SETTINGS_H
#define HVD_OPERATOR_CORE_VIEW_SETTINGS_H

#include <stdbool.h>

#include "operator/api/kind.h"

/* The gang scheduler, which places all workers of a job together or none. */
enum hvd_gang {
    HVD_GANG_NONE,
    HVD_GANG_VOLCANO,
    HVD_GANG_PLUGINS, /* the coscheduling plugin of scheduler-plugins */
};

/* The operator's options, which are the same for all jobs. Zeroed: none. */
struct hvd_settings {
    enum hvd_gang gang;
    const char *gang_scheduler; /* schedulerName of the workers; NULL: the gang's usual one */
    bool is_gang_missing;       /* the API server does not serve the gang's PodGroup */
};

#endif
