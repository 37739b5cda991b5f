/* Slurm's lists of nodes and tasks, a line each: every host has a name and slots. */
#include "worker/launch/core/slurm.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_hosts hosts = {0};
    struct hvd_err err = {0};
    char *text = fuzz_text(data, size);
    char *tasks = strchr(text, '\n');

    if (tasks) {
        *tasks++ = '\0';
        if (hvd_slurm_hosts(text, tasks, &hosts, &err) == HVD_OK) {
            MUST(hosts.n > 0 && hosts.n <= HVD_SLURM_NODES_MAX);
            for (size_t i = 0; i < hosts.n; i++)
                MUST(hosts.items[i].slots > 0 && hosts.items[i].name[0] != '-');
        } else {
            MUST(hosts.n == 0 && err.msg[0]);
        }
    }
    hvd_hosts_fini(&hosts);
    free(text);
    return 0;
}
