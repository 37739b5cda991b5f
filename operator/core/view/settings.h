#ifndef HVD_OPERATOR_CORE_VIEW_SETTINGS_H
#define HVD_OPERATOR_CORE_VIEW_SETTINGS_H

#include <stdbool.h>

#include "operator/api/kind.h"

/* Who schedules the workers of a job together, or not at all. */
enum hvd_gang {
    HVD_GANG_NONE,
    HVD_GANG_VOLCANO,
    HVD_GANG_PLUGINS, /* the coscheduling plugin of scheduler-plugins */
};

/* How the operator was set up: the same for all jobs. Zeroed: without any extra. */
struct hvd_settings {
    enum hvd_gang gang;
    const char *gang_scheduler; /* schedulerName of the workers; NULL: the gang's usual one */
    bool is_gang_missing;       /* the API server does not know the gang's PodGroup */
};

#endif
