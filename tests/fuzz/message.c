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
        words[i] = hvd_reader_word(reader, i);
    return words;
}

static hvd_status_t copy_step(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_step step;
    hvd_status_t st = hvd_reader_step(reader, &step, &err);

    if (st != HVD_OK)
        return st;
    int64_t *rows = malloc(((size_t)step.n_rows + 1) * sizeof(*rows));
    MUST(rows);
    for (uint32_t rank = 0; rank < step.n_rows; rank++) {
        rows[rank] = hvd_step_row(&step, rank);
        MUST(rows[rank] >= 0);
    }
    st = hvd_message_add_step(again, &step, rows);
    free(rows);
    return st;
}

static hvd_status_t copy_item(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_request request;
    struct hvd_strview text;
    char copy[HVD_TEXT_MAX + 1];
    bool failed;
    hvd_status_t st;

    if (reader->type == HVD_MESSAGE_PLAN)
        return copy_step(reader, again);
    if (reader->type == HVD_MESSAGE_REQUESTS) {
        st = hvd_reader_request(reader, &request, &err);
        return st == HVD_OK ? hvd_message_add_request(again, &request) : st;
    }
    st = hvd_reader_leave(reader, &failed, &text, &err);
    if (st != HVD_OK)
        return st;
    MUST(text.len <= HVD_TEXT_MAX);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return strlen(copy) == text.len ? hvd_message_add_leave(again, failed, copy) : HVD_ERR_INVALID;
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

    if (type == HVD_MESSAGE_BITS) {
        st = hvd_message_bits(again, reader->set, reader->epoch, words, reader->n_words);
        free(words);
        return st;
    }
    st = hvd_message_begin(again, type, reader->set);
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

    if (hvd_reader_init(&reader, data, size, &err) != HVD_OK)
        return 0;
    hvd_buf_init(&again, HVD_MESSAGE_MAX);
    if (copy_message(&reader, &again) == HVD_OK) {
        MUST(again.len == size);
        MUST(memcmp(again.data, data, size) == 0);
    }
    hvd_buf_fini(&again);
    return 0;
}
