/*
 * A Lease from the API server, held by whoever, and answers to whatever was asked: never two
 * requests at once, and nobody leads without a renewal that went well.
 */
#include "operator/core/lease/lease.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#define DURATION_MS 15000
#define STEPS 12

/* An hour of a standby that sees this Lease; the API server answers as it likes. */
static void stand_by(const struct hvd_lease_record *record, size_t seed)
{
    static const hvd_status_t answers[] = {HVD_OK, HVD_ERR_CONFLICT, HVD_ERR_UNAVAILABLE,
                                           HVD_ERR_NOT_FOUND, HVD_ERR_EXISTS};
    struct hvd_lease lease;
    struct hvd_err err = {0};
    int64_t now_ms = 1000;
    bool was_granted = false;

    hvd_lease_init(&lease, "me", DURATION_MS);
    hvd_lease_observe(&lease, record, now_ms);
    for (size_t i = 0; i < STEPS; i++) {
        enum hvd_lease_request request = hvd_lease_step(&lease, now_ms);
        hvd_status_t status = answers[(seed + i) % (sizeof(answers) / sizeof(answers[0]))];
        struct hvd_lease_record mine = *record;
        char *body = NULL;

        MUST(!lease.is_leader || was_granted);
        if (request == HVD_LEASE_NOTHING) {
            now_ms += DURATION_MS / 3;
            continue;
        }
        MUST(hvd_lease_step(&lease, now_ms) == HVD_LEASE_NOTHING);
        if (request != HVD_LEASE_GET) {
            MUST(hvd_lease_encode(&lease, request, "l", 1, &body, &err) == HVD_OK);
            cJSON_Delete(cJSON_Parse(body));
            hvd_free(body);
            (void)snprintf(mine.holder, sizeof(mine.holder), "me");
        }
        was_granted = was_granted || (status == HVD_OK && request != HVD_LEASE_GET);
        hvd_lease_answered(&lease, status, status == HVD_OK ? &mine : NULL, now_ms + 1, 7);
        now_ms += 1000;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_lease_record record;
    struct hvd_err err = {0};
    char *text = fuzz_text(data, size);
    cJSON *object = cJSON_ParseWithLength(text, size);

    if (object && hvd_lease_decode(object, &record, &err) == HVD_OK) {
        MUST(memchr(record.holder, '\0', sizeof(record.holder)) != NULL);
        MUST(memchr(record.version, '\0', sizeof(record.version)) != NULL);
        stand_by(&record, size);
    } else {
        MUST(!object || err.msg[0]);
    }
    cJSON_Delete(object);
    free(text);
    return 0;
}
