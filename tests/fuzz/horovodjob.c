/*
 * A HorovodJob from the API server, whatever somebody stored there: decoded or refused, and its
 * status is the same after being written and read again.
 */
#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_err err = {0};
    struct hvd_job_status copy = {0};
    struct hvd_job job;
    char *text = fuzz_text(data, size);
    cJSON *object = NULL;

    if (hvd_json_parse(text, &object) == HVD_OK && hvd_job_decode(object, &job, &err) == HVD_OK) {
        MUST(job.name && job.namespace && job.uid);
        MUST(job.invalid || (job.spec.replicas >= 1 && job.spec.n_groups >= 1));
        for (size_t i = 0; i < job.spec.n_groups && !job.invalid; i++)
            MUST(job.spec.groups[i].replicas >= 1 && job.spec.groups[i].slots >= 1);
        MUST(job.invalid || (job.spec.launch_port > 0 && job.spec.launch_port <= 65535));
        MUST(hvd_job_status_copy(&job.status, &copy) == HVD_OK);
        MUST(hvd_job_status_equal(&job.status, &copy));
        hvd_job_status_fini(&copy);
        hvd_job_fini(&job);
    }
    cJSON_Delete(object);
    free(text);
    return 0;
}
