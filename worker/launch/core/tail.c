/*
 * Keeps the last lines of a program's output in memory of fixed size, and cleans them for a
 * terminal, a report or a status. Programs write colours, progress bars, binary data and lines of
 * any length.
 */
#include "worker/launch/core/tail.h"

#include <string.h>

#include "base/cause.h"

#define ESCAPE '\033'
#define FRAMES_MAX 4                  /* of a stack */
#define LINE_MAX_BYTES ((size_t)1000) /* the rest of a line becomes "..." */

/* Drops the oldest bytes, so that the last HVD_TAIL_MAX stay. */
static void drop_old(struct hvd_tail *tail)
{
    size_t n = tail->_len - HVD_TAIL_MAX;

    memmove(tail->_data, tail->_data + n, HVD_TAIL_MAX);
    tail->_len = HVD_TAIL_MAX;
    tail->_line -= n; /* stays positive: no line is that long */
}

static void add_byte(struct hvd_tail *tail, char c)
{
    if (tail->_len == sizeof(tail->_data))
        drop_old(tail);
    tail->_data[tail->_len++] = c;
}

/* Notes the order of the current line, whose newline may be missing. */
static void note_order(struct hvd_tail *tail)
{
    const struct hvd_strview line = {tail->_data + tail->_line, tail->_len - tail->_line};

    if (tail->newest < tail->order && hvd_cause_is_own(line))
        tail->newest = tail->order;
}

/* Ends a line at its newline. */
static void end_line(struct hvd_tail *tail)
{
    const struct hvd_strview line = {tail->_data + tail->_line, tail->_len - tail->_line - 1};

    tail->_n_frames = hvd_cause_is_frame(line) ? tail->_n_frames + 1 : 0;
    if (tail->_n_frames > FRAMES_MAX)
        tail->_len = tail->_line;
    tail->_line = tail->_len;
}

void hvd_tail_add(struct hvd_tail *tail, struct hvd_strview data)
{
    bool has_text = false; /* of the current line */

    for (size_t i = 0; i < data.len; i++) {
        char c = data.data[i];

        if (c == '\r' || c == '\b') {
            tail->_is_overwritten = true;
            continue;
        }
        if (tail->_is_overwritten && c != '\n')
            tail->_len = tail->_line;
        tail->_is_overwritten = false;
        if (c == '\n' || tail->_len - tail->_line < LINE_MAX_BYTES)
            add_byte(tail, c);
        else if (tail->_len - tail->_line < LINE_MAX_BYTES + 3)
            add_byte(tail, '.');
        if (c != '\n') {
            has_text = has_text || (c != ' ' && c != '\t');
            continue;
        }
        if (has_text)
            note_order(tail);
        has_text = false;
        end_line(tail);
    }
    if (has_text)
        note_order(tail);
}

/* The number of bytes of the UTF-8 character at text; 0 when it is none. */
static size_t utf8_length(const unsigned char *text, size_t n)
{
    size_t len = text[0] < 0x80   ? 1
                 : text[0] < 0xC2 ? 0
                 : text[0] < 0xE0 ? 2
                 : text[0] < 0xF0 ? 3
                 : text[0] < 0xF5 ? 4
                                  : 0;

    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F) ||
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))
        return 0;
    return len;
}

/* The number of bytes of the escape sequence at text: "ESC [ 31 m", or ESC and one more. */
static size_t escape_length(const char *text, size_t n)
{
    size_t i = 2;

    if (n < 2 || text[1] != '[')
        return n < 2 ? n : 2;
    while (i < n && text[i] >= 0x20 && text[i] < 0x40)
        i++;
    return i < n ? i + 1 : i;
}

/* Writes clean bytes to out, which has room for n bytes; returns their number. */
static size_t clean(const char *text, size_t n, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t width = utf8_length((const unsigned char *)text + i, n - i);

        if (c == ESCAPE) {
            i += escape_length(text + i, n - i);
        } else if (width > 1 || (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t') {
            memcpy(out + len, text + i, width);
            len += width;
            i += width;
        } else {
            out[len++] = '?';
            i++;
        }
    }
    return len;
}

/* The end of text that fits into max bytes: whole lines, or else the end of the last line. */
static struct hvd_strview last_lines(struct hvd_strview text, bool is_whole, size_t max)
{
    const char *end = text.data + text.len;
    const char *start;

    if (text.len <= max && is_whole)
        return text;
    if (text.len > max)
        text = (struct hvd_strview){end - max, max};
    start = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (start && start + 1 < end)
        return (struct hvd_strview){start + 1, (size_t)(end - start - 1)};
    while (text.len > 0 && ((unsigned char)text.data[0] & 0xC0) == 0x80) {
        text.data++;
        text.len--;
    }
    return text;
}

size_t hvd_tail_clean(const struct hvd_tail *tail, char *out, size_t size)
{
    bool is_whole = tail->_len <= HVD_TAIL_MAX;
    size_t from = is_whole ? 0 : tail->_len - HVD_TAIL_MAX;
    char buffer[HVD_TAIL_MAX];
    struct hvd_strview text = {buffer, clean(tail->_data + from, tail->_len - from, buffer)};

    while (text.len > 0 && strchr("\n\t ", text.data[text.len - 1]))
        text.len--;
    text = last_lines(text, is_whole, size - 1);
    while (text.len > 0 && text.data[0] == '\n') {
        text.data++;
        text.len--;
    }
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return text.len;
}
