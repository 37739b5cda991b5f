/*
 * Messages between ranks: whatever a peer sends, decoding ends with a result or an error; and what
 * is decoded is exactly what encoding it again gives, so there is one form of every message.
 */
#include "worker/core/message.h"
#include "tests/fuzz/fuzz.h"

static hvd_status_t copy_item(struct hvd_reader *reader, struct hvd_buf *again)
{
    struct hvd_err err = {0};
    struct hvd_request request;
    struct hvd_strview text;
    struct hvd_step step;
    bool failed;
    hvd_status_t st;

    if (reader->type == HVD_MESSAGE_REQUESTS) {
        st = hvd_reader_request(reader, &request, &err);
        return st == HVD_OK ? hvd_message_add_request(again, &request) : st;
    }
    if (reader->type == HVD_MESSAGE_LEAVE) {
        st = hvd_reader_leave(reader, &failed, &text, &err);
        MUST(st != HVD_OK || text.len <= HVD_TEXT_MAX);
        return st;
    }
    st = hvd_reader_step(reader, &step, &err);
    for (uint32_t rank = 0; st == HVD_OK && rank < step.n_rows; rank++)
        MUST(hvd_step_row(&step, rank) >= 0);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_reader reader;
    struct hvd_err err = {0};
    struct hvd_buf again;
    hvd_status_t st = hvd_reader_init(&reader, data, size, &err);

    if (st != HVD_OK)
        return 0;
    const enum hvd_message_type type = reader.type;
    hvd_buf_init(&again, HVD_MESSAGE_MAX);
    MUST(hvd_message_begin(&again, type) == HVD_OK);
    while (st == HVD_OK && reader.left > 0)
        st = copy_item(&reader, &again);
    if (st == HVD_OK && type == HVD_MESSAGE_REQUESTS) {
        MUST(again.len == size);
        MUST(memcmp(again.data, data, size) == 0);
    }
    hvd_buf_fini(&again);
    return 0;
}
