/*
 * Controllers and kubelets. A change puts the object and its owner into a queue; whoever is in it
 * is looked at once a turn, as a whole: what should be there is compared with what is. Kubelets are
 * timers of the pods.
 *
 *   pod made --schedule_ms--> on a node --ready_ms--> Ready --run_ms--> ended (pods of Jobs)
 *        deleted --terminate_ms--> gone
 */
#include "tests/fake/apiserver/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/pods.h"
#include "tests/fake/apiserver/server.h"
#include "tests/fake/apiserver/write.h"

#define MAX_ROUNDS 100000

static const char *const keys[] = {"off",      "kubelet", "nodes",        "schedule_ms",
                                   "ready_ms", "run_ms",  "terminate_ms", "exit_codes",
                                   "message",  "reason"};

/* ---- configuration ---- */

void fake_play_init(struct fake_server *server)
{
    server->play.script = fake_must(cJSON_CreateObject());
}

void fake_play_fini(struct fake_server *server)
{
    cJSON_Delete(server->play.script);
}

bool fake_play_configure(struct fake_server *server, const cJSON *doc)
{
    const cJSON *item = NULL;
    struct fake_object *object, *next;

    cJSON_ArrayForEach(item, doc)
    {
        bool is_known = false;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            is_known = is_known || strcmp(keys[i], item->string) == 0;
        if (!is_known)
            return false;
        fake_set(server->play.script, item->string, cJSON_Duplicate(item, true));
    }
    for (size_t i = 0; doc && i < FAKE_N_KINDS; i++)
        HASH_ITER(hh, server->store.objects[i], object, next)
        {
            fake_play_queue(server, object);
        }
    return true;
}

/* ---- the queue ---- */

void fake_play_queue(struct fake_server *server, struct fake_object *object)
{
    if (object->is_queued)
        return;
    object->is_queued = true;
    DL_APPEND2(server->play.queue, object, queue_prev, queue_next);
}

static void unqueue(struct fake_server *server, struct fake_object *object)
{
    if (!object->is_queued)
        return;
    object->is_queued = false;
    DL_DELETE2(server->play.queue, object, queue_prev, queue_next);
}

static struct fake_object *first_owner(struct fake_server *server, const struct fake_object *object)
{
    const cJSON *ref =
        cJSON_GetArrayItem(hvd_json_at(object->now->doc, "metadata.ownerReferences"), 0);
    const char *kind_name = hvd_json_str(ref, "kind");
    const char *name = hvd_json_str(ref, "name");
    const char *uid = hvd_json_str(ref, "uid");
    const struct fake_kind *kind =
        kind_name ? fake_kind_named(hvd_json_str(ref, "apiVersion"), kind_name) : NULL;
    struct fake_object *owner =
        kind && name ? fake_find(&server->store, kind, fake_meta(object, "namespace"), name) : NULL;

    return owner && uid && strcmp(fake_meta(owner, "uid"), uid) == 0 ? owner : NULL;
}

/* A set that waits for a pod of that name to go, whose it is not, makes its own then; and it takes
 * one that nobody has. */
static void queue_heir(struct fake_server *server, const struct fake_object *pod)
{
    const char *dash = strrchr(pod->name, '-');
    struct fake_object *set = NULL;
    char name[300];

    if (!dash || strcmp(pod->kind->name, "Pod") != 0)
        return;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(dash - pod->name), pod->name);
    set = fake_find(&server->store, fake_kind_named("apps/v1", "StatefulSet"),
                    fake_meta(pod, "namespace"), name);
    if (set)
        fake_play_queue(server, set);
}

void fake_play_changed(struct fake_server *server, struct fake_object *object,
                       const struct fake_event *event)
{
    struct fake_object *owner = first_owner(server, object);
    struct fake_object *child = NULL;

    if (owner)
        fake_play_queue(server, owner);
    if (!owner)
        queue_heir(server, object);
    if (!event->is_deleted) {
        fake_play_queue(server, object);
        return;
    }
    unqueue(server, object);
    queue_heir(server, object);
    fake_timer_stop(&server->timers, &object->timer);
    DL_FOREACH(fake_children(&server->store, fake_meta(object, "uid")), child)
    {
        fake_play_queue(server, child);
    }
}

/* ---- the garbage collector ---- */

static bool has_lost_owners(struct fake_server *server, const struct fake_object *object)
{
    const cJSON *refs = hvd_json_at(object->now->doc, "metadata.ownerReferences");
    const cJSON *ref = NULL;

    cJSON_ArrayForEach(ref, refs)
    {
        if (fake_exists(&server->store, hvd_json_str(ref, "apiVersion"), hvd_json_str(ref, "kind"),
                        fake_meta(object, "namespace"), hvd_json_str(ref, "name"),
                        hvd_json_str(ref, "uid")))
            return false;
    }
    return cJSON_GetArraySize(refs) > 0;
}

static void drop_finalizer(struct fake_server *server, struct fake_object *object, const char *name)
{
    cJSON *doc = fake_must(cJSON_Duplicate(object->now->doc, true));
    cJSON *list = fake_array_at(fake_object_at(doc, "metadata"), "finalizers");

    for (int i = cJSON_GetArraySize(list) - 1; i >= 0; i--)
        if (strcmp(cJSON_GetStringValue(cJSON_GetArrayItem(list, i)), name) == 0)
            cJSON_DeleteItemFromArray(list, i);
    (void)fake_update(&server->store, object, doc, FAKE_PART_BOTH);
}

static bool has_finalizer(const struct fake_object *object, const char *name)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object->now->doc, "metadata.finalizers"))
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

static void disown(struct fake_server *server, struct fake_object *child)
{
    cJSON *doc = fake_must(cJSON_Duplicate(child->now->doc, true));

    cJSON_DeleteItemFromObjectCaseSensitive(fake_object_at(doc, "metadata"), "ownerReferences");
    (void)fake_update(&server->store, child, doc, FAKE_PART_BOTH);
}

/* Foreground and orphan deletion. */
static void finish_deletion(struct fake_server *server, struct fake_object *object)
{
    bool orphans = has_finalizer(object, "orphan");
    struct fake_object *child, *next;
    char *uid;

    if (!orphans && !has_finalizer(object, "foregroundDeletion"))
        return;
    uid = fake_copy(fake_meta(object, "uid"));
    DL_FOREACH_SAFE(fake_children(&server->store, uid), child, next)
    {
        if (orphans)
            disown(server, child);
        else if (!*fake_meta(child, "deletionTimestamp"))
            fake_delete(server, child, "Foreground");
    }
    if (orphans || !fake_children(&server->store, uid))
        drop_finalizer(server, object, orphans ? "orphan" : "foregroundDeletion");
    free(uid);
}

/* ---- the loop ---- */

static void work(struct fake_server *server, struct fake_object *object)
{
    const char *kind = object->kind->name;

    if (has_lost_owners(server, object) && !*fake_meta(object, "deletionTimestamp")) {
        fake_delete(server, object, "Background");
        return;
    }
    if (strcmp(kind, "Pod") == 0) {
        fake_pod_work(server, object);
        return;
    }
    if (*fake_meta(object, "deletionTimestamp"))
        finish_deletion(server, object);
    else if (strcmp(kind, "StatefulSet") == 0)
        fake_set_work(server, object);
    else if (strcmp(kind, "Job") == 0)
        fake_job_work(server, object);
}

void fake_play_step(struct fake_server *server)
{
    if (hvd_json_true(server->play.script, "off"))
        return;
    for (int i = 0; server->play.queue && i < MAX_ROUNDS; i++) {
        struct fake_object *object = server->play.queue;

        unqueue(server, object);
        work(server, object);
    }
}

bool fake_play_is_busy(const struct fake_server *server)
{
    const struct fake_kind *pods = fake_kind_named("v1", "Pod");
    struct fake_object *object, *next;

    HASH_ITER(hh, server->store.objects[fake_kind_index(pods)], object, next)
    {
        if (object->timer.place)
            return true;
    }
    return server->play.queue && !hvd_json_true(server->play.script, "off");
}
