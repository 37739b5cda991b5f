/*
 * The output of horovodrun. Standard output goes through a pump that polls before it writes, so
 * that a slow reader delays no signal. Standard error is written directly, unless it is the same
 * file: then its lines join one order with the others, which they would otherwise interrupt.
 */
#include "worker/launch/outlet.h"

#include <sys/stat.h>
#include <unistd.h>

#include "worker/launch/process.h"

#define ROOM_BYTES ((size_t)1 << 16) /* of waiting output; beyond it nothing more is read */
#define PART_MS 1000                 /* for last words while standard output has no reader */
#define HOLD_MS 100                  /* the longest wait for the end of a line */

static bool is_same(int a, int b)
{
    struct stat first;
    struct stat second;

    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

void hvd_outlet_init(struct hvd_outlet *outlet)
{
    *outlet = (struct hvd_outlet){.pump = {.from = -1, .to = STDOUT_FILENO},
                                  .is_joint = is_same(STDOUT_FILENO, STDERR_FILENO)};
    hvd_merge_init(&outlet->merge, 8 * ROOM_BYTES); /* more than ROOM_BYTES, for what is in the
                                                       pipes at the end */
}

void hvd_outlet_fini(struct hvd_outlet *outlet)
{
    hvd_merge_fini(&outlet->merge);
}

/* Moves waiting text into the pump, as far as it has room. */
static void pass(struct hvd_outlet *outlet)
{
    struct hvd_buf *text = &outlet->merge.text;

    if (outlet->n_passed < text->len)
        outlet->n_passed += hvd_pump_put(&outlet->pump, text->data + outlet->n_passed,
                                         text->len - outlet->n_passed);
    if (outlet->n_passed == text->len || outlet->n_passed >= ROOM_BYTES) {
        hvd_buf_consume(text, outlet->n_passed);
        outlet->n_passed = 0;
    }
}

/* Once standard output has failed, standard error is written on its own. */
bool hvd_outlet_is_joint(const struct hvd_outlet *outlet)
{
    return outlet->is_joint && !outlet->pump.failure;
}

static void write_error(const struct hvd_outlet *outlet, const char *data, size_t len)
{
    if (outlet->until_ms > 0)
        hvd_process_write_until(STDERR_FILENO, data, len, outlet->until_ms);
    else
        hvd_process_write_all(STDERR_FILENO, data, len);
}

void hvd_outlet_show(struct hvd_outlet *outlet, enum hvd_stream stream, struct hvd_strview data)
{
    if (data.len == 0)
        return;
    if (stream == HVD_STREAM_OUT || hvd_outlet_is_joint(outlet)) {
        (void)!hvd_merge_add(&outlet->merge, stream, data, hvd_process_now_ms());
        pass(outlet);
        return;
    }
    write_error(outlet, data.data, data.len);
    outlet->is_in_line = data.data[data.len - 1] != '\n';
}

void hvd_outlet_say(struct hvd_outlet *outlet, struct hvd_strview line)
{
    if (hvd_outlet_is_joint(outlet)) {
        (void)!hvd_merge_say(&outlet->merge, line);
        pass(outlet);
        return;
    }
    if (outlet->is_in_line)
        write_error(outlet, "\n", 1);
    hvd_outlet_show(outlet, HVD_STREAM_ERR, line);
}

bool hvd_outlet_has_room(const struct hvd_outlet *outlet)
{
    return hvd_merge_len(&outlet->merge) - outlet->n_passed < ROOM_BYTES;
}

bool hvd_outlet_is_waiting(const struct hvd_outlet *outlet)
{
    return outlet->pump.n > 0 || hvd_merge_len(&outlet->merge) > 0;
}

bool hvd_outlet_is_holding(const struct hvd_outlet *outlet)
{
    return hvd_merge_is_holding(&outlet->merge);
}

void hvd_outlet_poll(const struct hvd_outlet *outlet, struct pollfd *fd)
{
    hvd_pump_poll(&outlet->pump, fd);
}

void hvd_outlet_step(struct hvd_outlet *outlet, const struct pollfd *fd, enum hvd_merge_look look)
{
    if (fd)
        hvd_pump_step(&outlet->pump, fd);
    pass(outlet);
    (void)!hvd_merge_tick(&outlet->merge, hvd_process_now_ms(), look, HOLD_MS);
    /* The end of the line cannot be read while the text waiting for it leaves no room. */
    if (outlet->merge.text.len == 0 && !hvd_outlet_has_room(outlet))
        (void)!hvd_merge_release(&outlet->merge);
    pass(outlet);
}

void hvd_outlet_end(struct hvd_outlet *outlet)
{
    (void)!hvd_merge_release(&outlet->merge);
    pass(outlet);
}

void hvd_outlet_part(struct hvd_outlet *outlet)
{
    if (hvd_outlet_is_joint(outlet))
        outlet->is_in_line = hvd_merge_is_in_line(&outlet->merge);
    outlet->is_joint = false;
    outlet->until_ms = hvd_process_now_ms() + PART_MS;
}
