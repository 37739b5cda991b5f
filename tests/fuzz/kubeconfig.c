/* A kubeconfig: a configuration with a server, or an error that says what is wrong. */
#include "operator/api/json.h"
#include "operator/kube/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_kube_config config = {0};
    struct hvd_err err = {0};
    char *text = fuzz_text(data, size);

    if (hvd_kubeconfig_parse((struct hvd_strview){text, size}, "/dir", "fuzz", &config, &err) ==
        HVD_OK) {
        MUST(config.server && strncmp(config.server, "http", 4) == 0);
        MUST(!config.ca_file || !config.ca_data);
        MUST(!config.key_file || !config.key_data);
    } else {
        MUST(err.msg[0] && !config.server);
    }
    hvd_kube_config_fini(&config);
    free(text);
    return 0;
}
