/*
 * Fields that the operator leaves to their defaults and another writer has set, if they matter to
 * the job: the type of the Service, the numbers of the workers, and when the master's Job ends or
 * is removed. Other writers may set further fields (docs/operator.md has the list). Pure.
 */
#include "operator/core/ensure/fields.h"

#include "operator/api/json.h"
#include "operator/core/children/patch.h"
#include "operator/core/writes/write.h"

/* The required value of a member of spec: a text, 0, or absent. */
struct setting {
    const char *field;
    const char *text; /* NULL: none */
    bool is_zero;
};

/* Sets members of the object's spec by a merge patch. */
static void set_members(struct hvd_pass *p, const struct hvd_object *object, enum hvd_repair repair,
                        const struct setting *settings, size_t n)
{
    struct hvd_patch patch = {.repair = repair};
    struct hvd_jb jb = {0};
    cJSON *root, *spec;

    if (p->st)
        return;
    root = hvd_jb_root(&jb);
    hvd_patch_expect(&jb, hvd_jb_object(&jb, root, "metadata"), &object->meta);
    spec = hvd_jb_object(&jb, root, "spec");
    for (size_t i = 0; i < n; i++) {
        if (settings[i].is_zero)
            hvd_jb_int(&jb, spec, settings[i].field, 0);
        else /* no text: null removes the member */
            hvd_jb_str(&jb, spec, settings[i].field, settings[i].text);
    }
    patch.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    hvd_write_patch(p, object, &patch);
}

/*
 * Pods have names only under a Service without an address. An ExternalName has no address, and can
 * become headless again. Any other Service keeps its address for life.
 */
bool hvd_fields_repair_service(struct hvd_pass *p, const struct hvd_object *service)
{
    static const struct setting headless[] = {
        {"type", "ClusterIP", false}, {"clusterIP", "None", false}, {"externalName", NULL, false}};

    if (service->u.service.is_headless)
        return false;
    if (service->u.service.has_address) {
        hvd_write_delete_for(p, service, HVD_REPAIR_ADDRESS);
        return true;
    }
    set_members(p, service, HVD_REPAIR_TYPE, headless, sizeof(headless) / sizeof(headless[0]));
    return false;
}

void hvd_fields_repair_set(struct hvd_pass *p, const struct hvd_object *set)
{
    static const struct setting from_zero = {"ordinals", NULL, false};

    if (set->u.statefulset.is_shifted)
        set_members(p, set, HVD_REPAIR_ORDINALS, &from_zero, 1);
}

void hvd_fields_repair_job(struct hvd_pass *p, const struct hvd_object *job)
{
    static const struct {
        int32_t field;
        enum hvd_repair repair;
        struct setting setting;
    } repairs[] = {
        {HVD_JOB_TTL, HVD_REPAIR_TTL, {"ttlSecondsAfterFinished", NULL, false}},
        {HVD_JOB_DEADLINE, HVD_REPAIR_DEADLINE, {"activeDeadlineSeconds", NULL, false}},
        {HVD_JOB_BACKOFF, HVD_REPAIR_BACKOFF, {"backoffLimit", NULL, true}},
    };

    for (size_t i = 0; i < sizeof(repairs) / sizeof(repairs[0]); i++) {
        if (job->u.job.set_by_others & repairs[i].field)
            set_members(p, job, repairs[i].repair, &repairs[i].setting, 1);
    }
}
