/*
 * Causes for which pods of a job do not run: an image, the scheduler, a quota, a missing Secret.
 * Each becomes a part of a condition, and one event about the HorovodJob. The kubelet and the
 * registry word the same cause differently each time (ports, addresses, times, ErrImagePull and
 * ImagePullBackOff in turn), and every worker has it. So the subject identifies a cause, without
 * the pod and without the wording. Its event comes with the first status that shows it. Pure.
 */
#include "operator/core/pass/trouble.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/core/view/text.h"

#define CUT_MIN 200 /* longer texts may have been cut */

/* A phrase that identifies a cause in texts of pods (observe_pod.c) and refusals (refusal.c). */
struct cause {
    const char *phrase;
    const char *reason;  /* of the event */
    bool is_worded_anew; /* worded differently on each try, though the cause is the same */
};

/* The cause that text names first, the longest of two, and the end of its phrase; NULL without
 * any. */
static const struct cause *find_cause(const char *text, const char **end)
{
    static const struct cause causes[] = {
        {" cannot be pulled", "ImagePullFailed", true},
        {" cannot be scheduled", "Unschedulable", false},
        {" cannot be made", "PodsNotCreated", false},
        {" cannot be made, will be tried again", "Denied", false}, /* the child itself */
        {" cannot be read, will be tried again", "Denied", true},
        {" cannot start", "ContainerNotStarted", true},
        {" keeps ending", "ContainerKeepsEnding", false},
        {" is not ready", "ContainerNotReady", true},
        {" has not ended after", "InitContainerNotEnded", false},
        {" has not started", "ContainerNotStarted", false},
        {" has not been placed", "Unschedulable", false},
        {" is held by its spec.schedulingGates", "Unschedulable", false},
        {" has not been made", "PodsNotCreated", false},
        {" have not been made", "PodsNotCreated", false},
        {" when it was made", "FieldAltered", false},
        {" is in phase Unknown", "PodUnknown", false},
        {" still runs", "ContainerRunsOn", false},
    };
    const struct cause *cause = NULL;
    const char *first = NULL;

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        const char *found = strstr(text, causes[i].phrase);

        if (!found || (first && found > first))
            continue;
        first = found;
        cause = &causes[i];
        *end = found + strlen(causes[i].phrase);
    }
    return cause;
}

/* Writes the cause alone, up to end: "image I cannot be pulled" of "pod P image I cannot be
 * pulled". */
static void name_cause(const char *text, const char *end, char out[HVD_TROUBLE_SIZE])
{
    static const char pod[] = "pod ";
    const char *after =
        strncmp(text, pod, sizeof(pod) - 1) == 0 ? strchr(text + sizeof(pod) - 1, ' ') : NULL;

    if (after && after < end)
        text = after + 1;
    hvd_text_format(out, HVD_TROUBLE_SIZE, "%.*s", (int)(end - text), text);
}

static size_t word_length(const char *text, bool *has_digit)
{
    size_t n = 0;

    *has_digit = false;
    for (; isalnum((unsigned char)text[n]) || text[n] == '-'; n++)
        *has_digit = *has_digit || isdigit((unsigned char)text[n]);
    return n;
}

/* Skips words with digits, and characters that belong to no word. */
static const char *next_word(const char *text, size_t *len)
{
    for (;;) {
        bool has_digit;

        *len = word_length(text, &has_digit);
        if (*len > 0 && !has_digit)
            return text;
        if (*text == '\0')
            return text;
        text += *len > 0 ? *len : 1;
    }
}

/* Whether two texts agree in all words except those with digits (ports, addresses, times,
 * requests). A second text without words agrees. Long texts may be cut, and agree as far as they
 * reach. */
static bool is_same(const char *known, const char *now)
{
    const bool is_cut = strlen(known) > CUT_MIN && strlen(now) > CUT_MIN;
    const bool is_silent = *now == '\0';
    size_t len_a, len_b;

    for (;;) {
        known = next_word(known, &len_a);
        now = next_word(now, &len_b);
        if (len_a == 0 || len_b == 0)
            return is_silent || is_cut || len_a == len_b;
        if (len_a != len_b || strncmp(known, now, len_a) != 0)
            return false;
        known += len_a;
        now += len_b;
    }
}

/* Keeps the wording of the persisted condition if it has the same meaning. */
static void keep_words(const char *known, char *text, const char *end, size_t size)
{
    char prefix[HVD_TROUBLE_SIZE];
    const char *was;

    hvd_text_format(prefix, sizeof(prefix), "%.*s", (int)(end - text), text);
    was = strstr(known, prefix);
    was = was ? was + strlen(prefix) : "";
    if (*was == '\0' || !is_same(was, end))
        return;
    hvd_text_format(text, size, "%s%s", prefix, was);
}

/* Whether the persisted message names the cause, and if the cause has words, with some. */
static bool is_known(const char *known, const char *cause, bool has_words)
{
    const char *found = known ? strstr(known, cause) : NULL;

    return found && (!has_words || found[strlen(cause)] == ':');
}

void hvd_trouble_note(struct hvd_pass *p, enum hvd_condition_type type, char *text, size_t size)
{
    const char *known = p->job->status.conditions[type].message;
    struct hvd_trouble *trouble = p->troubles + p->n_troubles;
    const char *end = NULL;
    const struct cause *cause = find_cause(text, &end);

    if (!cause || p->n_troubles == HVD_TROUBLES_MAX)
        return;
    if (known && cause->is_worded_anew)
        keep_words(known, text, end, size);
    trouble->reason = cause->reason;
    name_cause(text, end, trouble->cause);
    if (is_known(known, trouble->cause, cause->is_worded_anew))
        return;
    /* Older kubelets give the reason with every other try; the event waits for it. */
    if (cause->is_worded_anew && *end == '\0')
        return;
    trouble->type = type;
    hvd_text_format(trouble->text, sizeof(trouble->text), "%s", text);
    p->n_troubles++;
}

/* Counts the parts after the first one of the text that report something to repair. Parts with only
 * counts do not count, because they change with each worker. */
static int count_parts(const char *text)
{
    static const char *const of_counts[] = {"; PodGroup ", "; spec.", "; this attempt "};
    int n = 0;

    for (const char *part = strstr(text, "; "); part; part = strstr(part + 1, "; ")) {
        bool is_count = false;

        for (size_t i = 0; i < sizeof(of_counts) / sizeof(of_counts[0]); i++)
            is_count = is_count || hvd_str_has_prefix(part, of_counts[i]);
        n += !is_count;
    }
    return n;
}

bool hvd_trouble_has_changed(const struct hvd_condition *was,
                             const struct hvd_condition_update *update)
{
    const char *before = was->message ? was->message : "";
    const char *now = update->message ? update->message : "";
    const char *end;
    const struct cause *old_cause = find_cause(before, &end);
    const struct cause *new_cause = find_cause(now, &end);
    int n_before, n_now;

    if (was->truth == HVD_ABSENT)
        return new_cause || count_parts(now) > 0;
    if (!hvd_str_equal(was->reason, update->reason) || old_cause != new_cause ||
        (*before == '\0') != (*now == '\0'))
        return true;
    /* Foreign text of a cause may contain such parts. */
    if (old_cause)
        return false;
    n_before = count_parts(before);
    n_now = count_parts(now);
    return n_now < n_before || (n_before == 0 && n_now > 0);
}

void hvd_trouble_events(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->n_troubles && !p->st; i++) {
        const struct hvd_trouble *trouble = &p->troubles[i];
        char key[HVD_TROUBLE_SIZE + 32];
        const struct hvd_event event = {
            .reason = trouble->reason, .message = trouble->text, .is_warning = true, .key = key};

        (void)snprintf(key, sizeof(key), "%d %s", (int)trouble->type, trouble->cause);
        p->st = hvd_plan_event(p->plan, p->job, &event, p->now_s);
    }
}

/* A new obstacle also gets an event; one that is retried soon gets one per attempt. An obstacle is
 * no reason to end a running master: the condition stays true, and its message has the obstacle. */
void hvd_trouble_report_once(struct hvd_pass *p, const char *reason, const char *message,
                             const char *part)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_RUNNING];
    const struct hvd_condition_update update = {HVD_COND_RUNNING, HVD_FALSE, reason, message};

    if (p->is_blocked)
        return;
    p->is_blocked = true;
    hvd_text_format(p->obstacle, sizeof(p->obstacle), "%s", message);
    if (strcmp(reason, "Denied") == 0)
        hvd_trouble_note(p, HVD_COND_RUNNING, p->obstacle, sizeof(p->obstacle));
    else if (!(was->message && strstr(was->message, part ? part : p->obstacle)))
        hvd_pass_event(p, reason, message, true);
    if (!hvd_pass_is_running(p))
        hvd_pass_condition(p, &update);
}

void hvd_trouble_report(struct hvd_pass *p, const char *reason, const char *message)
{
    hvd_trouble_report_once(p, reason, message, NULL);
}
