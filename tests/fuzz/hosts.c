/* -H and --hostfile: whatever they hold, a list of hosts with names and slots, or an error. */
#include "worker/launch/core/hosts.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_hosts hosts = {0};
    struct hvd_err err = {0};
    char *text = fuzz_text(data, size);
    hvd_status_t st = size % 2 == 0
                          ? hvd_hosts_parse_list(text, &hosts, &err)
                          : hvd_hosts_parse_file((struct hvd_strview){text, size}, &hosts, &err);

    MUST(st != HVD_OK || hvd_hosts_slots(&hosts) >= 0);
    MUST(st == HVD_OK || (hosts.n == 0 && err.msg[0]));
    for (size_t i = 0; i < hosts.n; i++) {
        const size_t len = strlen(hosts.items[i].name);
        MUST(len > 0 && len <= HVD_HOST_NAME_MAX);
        MUST(hosts.items[i].slots > 0);
    }
    hvd_hosts_fini(&hosts);
    free(text);
    return 0;
}
