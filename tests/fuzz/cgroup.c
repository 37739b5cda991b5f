/* /proc/self/cgroup and mountinfo, and the counters of a cgroup, as any kernel may write them. */
#include "worker/launch/core/cgroup.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    const char *second = text + strlen(text) + (strlen(text) < size ? 1 : 0);
    struct hvd_cgroup cgroup;
    int64_t value = 0;
    char shown[32];

    if (hvd_cgroup_locate(text, second, &cgroup) == HVD_OK)
        MUST(cgroup.dir[0] == '/' && (cgroup.version == 1 || cgroup.version == 2));
    if (hvd_cgroup_oom_kills(text, &value) == HVD_OK)
        MUST(value >= 0);
    if (hvd_cgroup_limit(text, &value) == HVD_OK) {
        MUST(value >= 0);
        hvd_cgroup_format_size(value, shown, sizeof(shown));
        MUST(shown[0]);
    }
    free(text);
    return 0;
}
