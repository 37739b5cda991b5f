/*
 * Messages between ranks: whatever a peer sends, decoding ends with a result or an error; and what
 * is decoded is exactly what encoding it again gives, so there is one form of every message.
 */
#include "worker/core/message.h"
#include "tests/fuzz/fuzz.h"

/* The words of a message, the caller's to free. */
static uint64_t *words_of(const struct hvd_reader *reader)
{
    uint64_t *words = malloc(((size_t)reader->n_words + 1) * sizeof(*words));

    MUST(words);
    for (uint32_t i = 0; i < reader->n_words; i++)
        words[i] = hvd_message_word(reader, i);
    return words;
}

static hvd_status_t copy_step(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_step step;
    hvd_status_t st = hvd_message_read_step(reader, &step, &err);

    if (st != HVD_OK)
        return st;
    int64_t *rows = malloc(((size_t)step.n_rows + 1) * sizeof(*rows));
    MUST(rows);
    for (uint32_t rank = 0; rank < step.n_rows; rank++) {
        rows[rank] = hvd_message_step_row(&step, rank);
        MUST(rows[rank] >= 0);
    }
    st = hvd_message_add_step(again, &step, rows);
    free(rows);
    return st;
}

/* The spans of an item, the caller's to free. */
static struct hvd_pos_range *ranges_of(const struct hvd_pos_ranges *by, uint32_t *n_positions)
{
    struct hvd_pos_range *ranges = malloc(by->n * sizeof(*ranges));

    MUST(ranges);
    *n_positions = 0;
    for (uint32_t i = 0; i < by->n; i++) {
        ranges[i] = hvd_message_ranges_at(by, i);
        *n_positions += (uint32_t)ranges[i].n;
    }
    return ranges;
}

static hvd_status_t copy_request(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_merged_request ask;
    uint32_t n = 0;
    int64_t *rows = NULL;
    hvd_status_t st = hvd_message_read_request(reader, &ask, &err);

    if (st != HVD_OK)
        return st;
    struct hvd_pos_range *ranges = ranges_of(&ask.by, &n);
    struct hvd_by by = {
        .ranges = ranges, .n_ranges = ask.by.n, .age_ms = ask.age_ms, .refusal = ask.refusal};
    if (hvd_message_has_rows(&ask.request)) { /* read in order, written by position */
        const size_t reach = (size_t)(ranges[by.n_ranges - 1].first - ranges[0].first) +
                             (size_t)ranges[by.n_ranges - 1].n;
        uint32_t row = 0;
        if (reach > ((size_t)1 << 24)) { /* few spans may be far apart */
            free(ranges);
            return HVD_ERR_TOO_LARGE;
        }
        rows = malloc(reach * sizeof(*rows));
        MUST(rows);
        for (uint32_t i = 0; i < by.n_ranges; i++)
            for (int k = 0; k < ranges[i].n; k++)
                rows[ranges[i].first - ranges[0].first + k] = hvd_message_request_row(&ask, row++);
        MUST(row == n);
        by.rows = rows;
        by.rows_first = ranges[0].first;
    }
    st = hvd_message_add_request(again, &ask.request, &by);
    free(rows);
    free(ranges);
    return st;
}

static hvd_status_t copy_partial(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_partial partial;
    uint32_t n = 0;
    hvd_status_t st = hvd_message_read_partial(reader, &partial, &err);

    if (st != HVD_OK)
        return st;
    struct hvd_pos_range *ranges = ranges_of(&partial.by, &n);
    const struct hvd_by by = {.ranges = ranges, .n_ranges = partial.by.n, .age_ms = partial.age_ms};
    st = hvd_message_add_partial(again, partial.slot, &by);
    free(ranges);
    return st;
}

static hvd_status_t copy_item(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_strview text;
    struct hvd_pos_range who;
    char copy[HVD_TEXT_MAX + 1];
    enum hvd_leave_why why;
    hvd_status_t st;

    if (reader->type == HVD_MESSAGE_PLAN)
        return copy_step(reader, again);
    if (reader->type == HVD_MESSAGE_REQUESTS)
        return copy_request(reader, again);
    if (reader->type == HVD_MESSAGE_PARTIAL)
        return copy_partial(reader, again);
    st = hvd_message_read_leave(reader, &who, &why, &text, &err);
    if (st != HVD_OK)
        return st;
    MUST(text.len <= HVD_TEXT_MAX);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return strlen(copy) == text.len ? hvd_message_add_leave(again, who, why, copy)
                                    : HVD_ERR_INVALID;
}

static hvd_status_t copy_beat(struct hvd_reader *reader, struct hvd_buf *again)
{
    const enum hvd_message_type type = reader->type;
    struct hvd_err err = {0};
    struct hvd_beat beat;
    int silent[HVD_SILENT_MAX];
    hvd_status_t st = hvd_message_read_beat(reader, &beat, &err);

    if (st != HVD_OK)
        return st;
    MUST(beat.n_silent <= HVD_SILENT_MAX);
    for (uint32_t i = 0; i < beat.n_silent; i++) {
        silent[i] = hvd_message_beat_silent(&beat, i);
        MUST(silent[i] >= 0);
    }
    return hvd_message_beat(again, type, reader->set, &beat, silent);
}

static hvd_status_t copy_message(struct hvd_reader *reader, struct hvd_buf *again)
{
    const enum hvd_message_type type = reader->type;
    uint64_t *words = words_of(reader);
    const struct hvd_plan_head head = {.epoch = reader->epoch,
                                       .fusion = reader->fusion,
                                       .cycle_us = reader->cycle_us,
                                       .words = words,
                                       .n_words = reader->n_words};
    hvd_status_t st = HVD_OK;

    if (type >= HVD_MESSAGE_PING) {
        free(words);
        return copy_beat(reader, again);
    }
    if (type == HVD_MESSAGE_BITS) {
        st = hvd_message_bits(again, reader->set, reader->epoch, words, reader->n_words);
        free(words);
        return st;
    }
    st = type == HVD_MESSAGE_PARTIAL ? hvd_message_begin_partial(again, reader->set, reader->epoch)
                                     : hvd_message_begin(again, type, reader->set);
    while (st == HVD_OK && reader->left > 0)
        st = copy_item(reader, again);
    if (st == HVD_OK && type == HVD_MESSAGE_PLAN)
        st = hvd_message_end_plan(again, &head);
    free(words);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_reader reader;
    struct hvd_err err = {0};
    struct hvd_buf again;

    if (hvd_message_open(&reader, data, size, &err) != HVD_OK)
        return 0;
    hvd_buf_init(&again, HVD_MESSAGE_MAX);
    if (copy_message(&reader, &again) == HVD_OK) {
        MUST(again.len == size);
        MUST(memcmp(again.data, data, size) == 0);
    }
    hvd_buf_fini(&again);
    return 0;
}
