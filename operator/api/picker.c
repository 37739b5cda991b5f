/*
 * A scanner that copies the wanted members of JSON texts as their bytes arrive. It knows where
 * values begin and end, and no more. A value whose shape has parts is a level on a stack as deep as
 * the shape; any other value is taken as a whole, copied or skipped, with a count of its brackets.
 *
 *              '{' '['                    string or number, or all of an object
 *   AT_VALUE ----------> AT_FIRST --+     AT_VALUE ----> IN_WHOLE, IN_SCALAR --+
 *      ^                            v                                          v
 *      +----- AT_COLON <- IN_KEY <- AT_KEY <--- ',' --- AFTER_VALUE <----------+--> AT_END
 *
 * At a limit the copy falls back to the beginning of the current member (the unit), and the rest of
 * that member is skipped: an object that is too large or too deep costs no more than a legal one.
 */
#include "operator/api/picker.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/tail.h"

#define KEEP_BYTES ((size_t)64 * 1024) /* of the buffer between two texts */
/* For the ends of values, and for the text around the members of an object. */
#define ROOM_BYTES 65536
#define TEXT(s) ((struct hvd_strview){s, sizeof(s) - 1})

enum state {
    AT_VALUE,
    AT_FIRST, /* after '{' or '[' */
    AT_KEY,
    IN_KEY,
    AT_COLON,
    AFTER_VALUE,
    IN_WHOLE,
    IN_SCALAR,
    AT_END,
    FAILED,
};

const struct hvd_shape hvd_shape_tail[] = {{NULL, NULL}};

static const char too_deep[] = "levels deep";
static const char too_long[] = "too many bytes";
static const char too_many[] = "too many values";
static const char bad_name[] = "a name is too long";

static struct hvd_pick_level *top(struct hvd_picker *p)
{
    return p->_n_levels ? &p->_levels[p->_n_levels - 1] : NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Whether it is the row HVD_SHAPE_ANY. */
static bool is_any(const struct hvd_shape *row)
{
    return row->name[0] == HVD_SHAPE_ANY[0] && row->name[1] == '\0';
}

/* ---- leaving out units ---- */

/* Sets the path of the unit: its name after the name of the object's member that contains it. */
static void set_path(struct hvd_picker *p)
{
    size_t len = 0;

    p->_path[0] = '\0';
    for (size_t i = p->_object_level; i < p->_unit.level && len < sizeof(p->_path); i++)
        len += (size_t)snprintf(p->_path + len, sizeof(p->_path) - len, "%s.",
                                p->_levels[i].row ? p->_levels[i].row->name : "");
    if (len >= sizeof(p->_path))
        return;
    if (!is_any(p->_levels[p->_unit.level].row))
        (void)snprintf(p->_path + len, sizeof(p->_path) - len, "%s",
                       p->_levels[p->_unit.level].row->name);
    else if (p->_key_len <= HVD_PICK_KEY_MAX)
        (void)snprintf(p->_path + len, sizeof(p->_path) - len, "%.*s", (int)p->_key_len, p->_key);
    else if (len)
        p->_path[len - 1] = '\0'; /* the dot */
}

/*
 * Takes back the unit's bytes from the copy and skips its rest: _depth becomes the number of levels
 * that are open in it. HVD_INPROGRESS: done; HVD_ERR_TOO_LARGE: there is no unit.
 */
static hvd_status_t leave_out(struct hvd_picker *p, const char *cause)
{
    if (!p->_has_unit)
        return HVD_ERR_TOO_LARGE;
    if (!p->_cause) {
        p->_cause = cause;
        p->_deepest = p->_n_levels - p->_object_level + p->_depth;
        p->_is_measuring = true;
        set_path(p);
    }
    p->_depth += p->_n_levels - 1 - p->_unit.level;
    p->_n_levels = p->_unit.level + 1;
    top(p)->is_empty = p->_unit.was_empty;
    p->_out.len = p->_unit.at;
    p->_n_values = p->_unit.n_values;
    p->_is_copying = false;
    p->_has_unit = false;
    p->_from = NULL;
    return HVD_INPROGRESS;
}

/* Continues after a value, or a part of one, that was left out before it began. */
static void skip_on(struct hvd_picker *p)
{
    p->_parts = NULL;
    p->_state = p->_depth ? IN_WHOLE : AT_VALUE;
    p->_is_in_string = false;
}

/* Appends to the copy. Returns HVD_INPROGRESS if it left out the unit instead. */
static hvd_status_t emit(struct hvd_picker *p, struct hvd_strview text)
{
    if (p->_out.len - p->_part_at + text.len > p->_options.max_bytes)
        return leave_out(p, too_long);
    return hvd_buf_add(&p->_out, text.data, text.len);
}

/* Appends the end of a value, without limits, because ends are short. */
static hvd_status_t emit_end(struct hvd_picker *p, struct hvd_strview text)
{
    return hvd_buf_add(&p->_out, text.data, text.len);
}

static hvd_status_t count_value(struct hvd_picker *p)
{
    return ++p->_n_values > HVD_PICK_VALUES_MAX ? leave_out(p, too_many) : HVD_OK;
}

static void cut_tail(struct hvd_picker *p)
{
    const size_t at = top(p)->member_at;
    const struct hvd_strview copy = {p->_out.data + at, p->_out.len - at};
    const size_t excess = hvd_tail_excess(copy, HVD_PICK_TAIL_MAX);
    char *const text = p->_out.data + at + 1;

    if (!excess)
        return;
    p->_out.len -= excess;
    memmove(text, text + excess, copy.len - excess); /* including the zero byte */
}

/* Appends to a string of which only the end is wanted; the copy holds at most two such ends and a
 * piece. */
static hvd_status_t emit_tail(struct hvd_picker *p, struct hvd_strview text)
{
    hvd_status_t st = HVD_OK;

    while (text.len && st == HVD_OK) {
        const size_t n = text.len < HVD_PICK_TAIL_MAX ? text.len : HVD_PICK_TAIL_MAX;

        st = emit_end(p, (struct hvd_strview){text.data, n});
        text = (struct hvd_strview){text.data + n, text.len - n};
        if (st == HVD_OK && p->_out.len - top(p)->member_at > 2 * HVD_PICK_TAIL_MAX)
            cut_tail(p);
    }
    return st;
}

/* Ends a string; the limits apply to its end as to any value. */
static hvd_status_t end_tail(struct hvd_picker *p)
{
    p->_is_tail = false;
    cut_tail(p);
    return emit(p, TEXT(""));
}

/* Copies the bytes of the value that are in this piece. */
static hvd_status_t flush(struct hvd_picker *p)
{
    const struct hvd_strview text = {p->_from, p->_from ? (size_t)(p->_at - p->_from) : 0};

    p->_from = NULL;
    if (!text.len)
        return HVD_OK;
    return p->_is_tail ? emit_tail(p, text) : emit(p, text);
}

/* Adds the member that names what was left out of the object. */
static hvd_status_t emit_trouble(struct hvd_picker *p, bool is_empty)
{
    char text[512], why[160];
    int n;

    if (p->_cause == too_deep)
        (void)snprintf(why, sizeof(why), "nests %zu levels deep, at most %d are read", p->_deepest,
                       HVD_PICK_DEPTH_MAX);
    else if (p->_cause == too_long)
        (void)snprintf(why, sizeof(why),
                       "makes its part of the object larger than the %zu bytes that are read",
                       p->_options.max_bytes);
    else if (p->_cause == too_many)
        (void)snprintf(why, sizeof(why),
                       "makes its part of the object hold more than the %d values that are read",
                       HVD_PICK_VALUES_MAX);
    else if (p->_cause == bad_name)
        (void)snprintf(why, sizeof(why), "has a name of more than %d bytes", HVD_PICK_KEY_MAX);
    else
        (void)snprintf(why, sizeof(why), "%s", p->_cause);
    n = snprintf(text, sizeof(text), "%s\"" HVD_PICK_UNREADABLE "\":\"%s%s%s\"",
                 is_empty ? "" : ",", p->_path, *p->_path ? ": " : "", why);
    p->_cause = NULL;
    p->_is_measuring = false;
    return emit_end(p, (struct hvd_strview){text, (size_t)n});
}

/* ---- values ---- */

static hvd_status_t deliver(struct hvd_picker *p, size_t from, bool is_item)
{
    const struct hvd_strview copy = {p->_out.data + from, p->_out.len - from};

    return p->_options.take(p->_options.ctx, copy, is_item);
}

/* Whether the level is an array of API objects that are handed on one by one. */
static bool holds_objects(const struct hvd_picker *p, const struct hvd_pick_level *level)
{
    return level->is_array && level->shape && level->shape == p->_options.object;
}

static bool has_items(const struct hvd_picker *p, const struct hvd_pick_level *level)
{
    return p->_options.has_items && holds_objects(p, level);
}

/* Hands the copy of an item to take, null in place of a non-object. */
static hvd_status_t deliver_item(struct hvd_picker *p, size_t from)
{
    hvd_status_t st = HVD_OK;

    if (p->_out.len == from)
        st = emit_end(p, TEXT("null"));
    if (st == HVD_OK)
        st = deliver(p, from, true);
    p->_out.len = p->_part_at = from;
    if (p->_out._capacity > KEEP_BYTES && from < KEEP_BYTES / 2) {
        char head[KEEP_BYTES / 2];

        if (from)
            memcpy(head, p->_out.data, from);
        hvd_buf_fini(&p->_out);
        if (st == HVD_OK)
            st = hvd_buf_add(&p->_out, head, from);
    }
    return st;
}

static bool holds(struct hvd_strview text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

static bool holds_any(struct hvd_strview text, const char *const *parts)
{
    while (*parts && !holds(text, *parts))
        parts++;
    return *parts != NULL;
}

/* Decides, with the metadata copied, whether the rest of the object is wanted. An error in the
 * place of an object has no uid. */
static void pass_gate(struct hvd_picker *p, struct hvd_pick_level *level)
{
    const struct hvd_strview copy = {p->_out.data + level->member_at,
                                     p->_out.len - level->member_at};

    if (p->_options.gates && level->shape == p->_options.object && level->row && p->_is_copying &&
        strcmp(level->row->name, "metadata") == 0)
        level->is_shut = holds(copy, "\"uid\"") && !holds_any(copy, p->_options.gates);
}

static hvd_status_t end_value(struct hvd_picker *p)
{
    struct hvd_pick_level *level = top(p);

    p->_state = level ? AFTER_VALUE : AT_END;
    if (!level)
        return HVD_OK;
    if (has_items(p, level))
        return deliver_item(p, level->member_at);
    if (!level->is_array)
        pass_gate(p, level);
    return HVD_OK;
}

/* Ends a value that was taken as a whole, or one that was left out. */
static hvd_status_t end_whole(struct hvd_picker *p)
{
    hvd_status_t st = flush(p);

    if (st == HVD_OK && p->_is_tail)
        st = end_tail(p);
    if (st < 0)
        return st;
    if (p->_depth) {
        p->_state = IN_WHOLE;
        p->_is_in_string = false;
        return HVD_OK;
    }
    p->_is_measuring = false;
    return end_value(p);
}

static bool is_object(const struct hvd_picker *p, const struct hvd_shape *shape)
{
    return p->_options.object ? shape == p->_options.object : p->_n_levels == 0;
}

static hvd_status_t open_level(struct hvd_picker *p, char c)
{
    struct hvd_pick_level *above = top(p);
    struct hvd_pick_level level = {
        .shape = p->_parts,
        .at = p->_out.len,
        .is_array = c == '[',
        .has_units = c == '{' && (!above || above->has_units || holds_objects(p, above)),
        .is_empty = true};
    hvd_status_t st;

    if (above && holds_objects(p, above)) {
        p->_has_unit = false; /* objects have limits of their own and are never left out */
        p->_part_at = level.at;
    }
    st = emit(p, (struct hvd_strview){&c, 1});
    if (st != HVD_OK) {
        skip_on(p);
        return st < 0 ? st : HVD_OK;
    }
    if (c == '{' && is_object(p, p->_parts)) {
        p->_object_level = p->_n_levels;
        p->_part_at = level.at;
        p->_n_values = 0;
        p->_cause = p->_options.trouble;
        p->_path[0] = '\0';
    }
    p->_levels[p->_n_levels++] = level;
    p->_at++;
    p->_state = AT_FIRST;
    return HVD_OK;
}

static bool may_begin_value(char c)
{
    return c == '"' || c == '{' || c == '[' || c == '-' || (c >= '0' && c <= '9') || c == 't' ||
           c == 'f' || c == 'n';
}

static hvd_status_t begin_value(struct hvd_picker *p, char c)
{
    const struct hvd_pick_level *level = top(p);
    const bool is_open = c == '{' || c == '[', is_tail = level && p->_parts == hvd_shape_tail;

    if (!may_begin_value(c))
        return HVD_ERR_INVALID;
    if (is_tail)
        p->_parts = NULL;
    if (p->_is_copying && p->_parts && is_open && p->_n_levels < HVD_PICK_LEVELS_MAX &&
        !(c == '[' && level && level->is_array))
        return open_level(p, c);
    if (level && has_items(p, level))
        p->_is_copying = false;
    p->_is_tail = is_tail && p->_is_copying && c == '"';
    p->_from = p->_is_copying ? p->_at : NULL;
    p->_depth = 0;
    p->_is_in_string = c == '"';
    p->_is_odd = false;
    p->_state = c == '"' || is_open ? IN_WHOLE : IN_SCALAR;
    p->_at += c == '"' ? 1 : 0;
    return HVD_OK;
}

/* Moves behind the closing quote, the first after an even number of backslashes. False when it is
 * not in this piece. */
static bool end_string(struct hvd_picker *p)
{
    const char *first = p->_at, *quote = first, *back;

    while ((quote = memchr(quote, '"', (size_t)(p->_end - quote))) != NULL) {
        back = quote;
        while (back > first && back[-1] == '\\')
            back--;
        if (((quote - back) % 2 != 0) == (back == first && p->_is_odd)) {
            p->_at = quote + 1;
            p->_is_odd = false;
            return true;
        }
        quote++;
    }
    back = p->_end;
    while (back > first && back[-1] == '\\')
        back--;
    p->_is_odd = ((p->_end - back) % 2 != 0) != (back == first && p->_is_odd);
    p->_at = p->_end;
    return false;
}

static hvd_status_t open_whole(struct hvd_picker *p)
{
    size_t depth = p->_n_levels - p->_object_level + ++p->_depth;

    if (!p->_is_copying) {
        if (p->_is_measuring && depth > p->_deepest)
            p->_deepest = depth;
        return HVD_OK;
    }
    return depth > HVD_PICK_DEPTH_MAX ? leave_out(p, too_deep) : count_value(p);
}

/* Processes one significant byte within a value that is taken as a whole. */
static hvd_status_t take_mark(struct hvd_picker *p, char c)
{
    p->_at++;
    switch (c) {
    case '"':
        p->_is_in_string = true;
        p->_is_odd = false;
        return HVD_OK;
    case ',':
        return p->_is_copying ? count_value(p) : HVD_OK;
    case '{':
    case '[':
        return open_whole(p);
    default:
        p->_depth--;
        return HVD_OK;
    }
}

/* Moves to the next significant byte outside of strings. */
static void skip_to_mark(struct hvd_picker *p)
{
    static const bool is_mark[256] = {
        ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true, [','] = true};
    const char *at = p->_at, *const end = p->_end;

    while (at < end && !is_mark[(unsigned char)*at])
        at++;
    p->_at = at;
}

static hvd_status_t take_whole(struct hvd_picker *p)
{
    while (p->_at < p->_end) {
        hvd_status_t st;

        if (p->_is_in_string) {
            if (!end_string(p))
                return HVD_OK;
            p->_is_in_string = false;
        } else {
            skip_to_mark(p);
            st = p->_at < p->_end ? take_mark(p, *p->_at) : HVD_OK;
            if (st < 0)
                return st;
        }
        if (!p->_depth && !p->_is_in_string)
            return end_whole(p);
    }
    return HVD_OK;
}

static hvd_status_t take_scalar(struct hvd_picker *p)
{
    const char *at = p->_at, *const end = p->_end;

    while (at < end && !is_space(*at) && *at != ',' && *at != ']' && *at != '}')
        at++;
    p->_at = at;
    return at < end ? end_whole(p) : HVD_OK;
}

/* ---- wanted members ---- */

static bool is_name(const char *wanted, const struct hvd_picker *p)
{
    size_t i = 0;

    while (i < p->_key_len && wanted[i] && wanted[i] == p->_key[i])
        i++;
    return i == p->_key_len && !wanted[i];
}

/* The row for the member whose name was just read; NULL when the member is not wanted. */
static const struct hvd_shape *find(const struct hvd_picker *p, const struct hvd_shape *row)
{
    const bool has_name = p->_key_len <= HVD_PICK_KEY_MAX;

    for (; row->name; row++)
        if (is_any(row) || (has_name && is_name(row->name, p)))
            return row;
    return NULL;
}

static hvd_status_t emit_name(struct hvd_picker *p, bool is_first)
{
    char text[HVD_PICK_KEY_MAX + 4] = ",\"";
    const size_t skipped = is_first ? 1 : 0;

    memcpy(text + 2, p->_key, p->_key_len);
    memcpy(text + 2 + p->_key_len, "\":", 2);
    return emit(p, (struct hvd_strview){text + skipped, p->_key_len + 4 - skipped});
}

/* Prepares for the value of the member whose name was just read. */
static hvd_status_t begin_member(struct hvd_picker *p)
{
    struct hvd_pick_level *level = top(p);
    const bool was_empty = level->is_empty;
    hvd_status_t st;

    p->_state = AT_VALUE;
    level->row = level->is_shut ? NULL : find(p, level->shape);
    p->_is_copying = level->row != NULL;
    p->_parts = level->row ? level->row->parts : NULL;
    if (!level->row)
        return HVD_OK;
    p->_depth = 0;
    if (level->has_units) {
        p->_has_unit = true;
        p->_unit.level = p->_n_levels - 1;
        p->_unit.at = p->_out.len;
        p->_unit.n_values = p->_n_values;
        p->_unit.was_empty = was_empty;
    }
    if (p->_n_levels - 1 == p->_object_level) {
        p->_part_at = p->_out.len;
        p->_n_values = 0;
    }
    st = p->_key_len > HVD_PICK_KEY_MAX ? leave_out(p, bad_name) : count_value(p);
    if (st == HVD_OK) {
        level->is_empty = false;
        st = emit_name(p, was_empty);
    }
    if (st == HVD_OK)
        level->member_at = p->_out.len;
    else
        skip_on(p);
    return st < 0 ? st : HVD_OK;
}

/* Begins an element of an array; elements that are handed on need no comma. */
static hvd_status_t begin_element(struct hvd_picker *p)
{
    struct hvd_pick_level *level = top(p);
    const bool was_empty = level->is_empty;
    hvd_status_t st = HVD_OK;

    p->_state = AT_VALUE;
    p->_is_copying = true;
    p->_parts = level->shape;
    p->_depth = 0;
    level->is_empty = false;
    level->member_at = p->_out.len;
    if (has_items(p, level))
        return HVD_OK;
    if (holds_objects(p, level)) { /* no limit applies to such elements as a whole */
        p->_has_unit = false;
        p->_part_at = p->_out.len;
        return was_empty ? HVD_OK : emit_end(p, TEXT(","));
    }
    st = count_value(p);
    if (st == HVD_OK && !was_empty)
        st = emit(p, TEXT(","));
    if (st != HVD_OK)
        skip_on(p);
    return st < 0 ? st : HVD_OK;
}

static hvd_status_t close_level(struct hvd_picker *p, char c)
{
    const struct hvd_pick_level *level = top(p);
    hvd_status_t st = HVD_OK;

    if ((c == ']') != level->is_array)
        return HVD_ERR_INVALID;
    p->_at++;
    if (p->_cause && !level->is_array && p->_n_levels - 1 == p->_object_level)
        st = emit_trouble(p, level->is_empty);
    if (st == HVD_OK)
        st = emit_end(p, (struct hvd_strview){&c, 1});
    p->_n_levels--;
    p->_is_copying = true;
    return st == HVD_OK ? end_value(p) : st;
}

/* ---- tokens ---- */

static hvd_status_t take_first(struct hvd_picker *p, char c)
{
    if (c == ']' || c == '}')
        return close_level(p, c);
    if (top(p)->is_array)
        return begin_element(p);
    p->_state = AT_KEY;
    return HVD_OK;
}

static hvd_status_t take_next(struct hvd_picker *p, char c)
{
    if (c != ',')
        return c == ']' || c == '}' ? close_level(p, c) : HVD_ERR_INVALID;
    p->_at++;
    if (top(p)->is_array)
        return begin_element(p);
    p->_state = AT_KEY;
    return HVD_OK;
}

static hvd_status_t begin_key(struct hvd_picker *p, char c)
{
    if (c != '"')
        return HVD_ERR_INVALID;
    p->_at++;
    p->_key_len = 0;
    p->_is_odd = false;
    p->_state = IN_KEY;
    return HVD_OK;
}

/* Copies a part of a name; of a name that is too long only that fact is kept. */
static void take_key(struct hvd_picker *p)
{
    const char *quote = memchr(p->_at, '"', (size_t)(p->_end - p->_at));
    const size_t len = quote ? (size_t)(quote - p->_at) : HVD_PICK_KEY_MAX + 1;

    if (!p->_key_len && !p->_is_odd && len <= HVD_PICK_KEY_MAX && (!len || quote[-1] != '\\')) {
        memcpy(p->_key, p->_at, len); /* the whole name, in nearly every case */
        p->_key_len = len;
        p->_at = quote + 1;
        p->_state = AT_COLON;
        return;
    }
    while (p->_at < p->_end) {
        const char c = *p->_at++;

        if (c == '"' && !p->_is_odd) {
            p->_state = AT_COLON;
            return;
        }
        p->_is_odd = c == '\\' && !p->_is_odd;
        if (p->_key_len < HVD_PICK_KEY_MAX)
            p->_key[p->_key_len] = c;
        if (p->_key_len <= HVD_PICK_KEY_MAX)
            p->_key_len++;
    }
}

static hvd_status_t take_token(struct hvd_picker *p, char c)
{
    switch (p->_state) {
    case AT_VALUE:
        return begin_value(p, c);
    case AT_FIRST:
        return take_first(p, c);
    case AT_KEY:
        return begin_key(p, c);
    case AT_COLON:
        p->_at++;
        return c == ':' ? begin_member(p) : HVD_ERR_INVALID;
    case AFTER_VALUE:
        return take_next(p, c);
    default:
        return HVD_ERR_INVALID;
    }
}

static hvd_status_t step(struct hvd_picker *p)
{
    switch (p->_state) {
    case IN_WHOLE:
        return take_whole(p);
    case IN_SCALAR:
        return take_scalar(p);
    case IN_KEY:
        take_key(p);
        return HVD_OK;
    default:
        break;
    }
    if (!is_space(*p->_at))
        return take_token(p, *p->_at);
    p->_at++;
    return HVD_OK;
}

hvd_status_t hvd_picker_feed(struct hvd_picker *picker, struct hvd_strview piece)
{
    hvd_status_t st = HVD_OK;

    picker->_at = piece.data;
    picker->_end = piece.data + piece.len;
    picker->_from =
        (picker->_state == IN_WHOLE || picker->_state == IN_SCALAR) && picker->_is_copying
            ? piece.data
            : NULL;
    while (st >= 0 && picker->_at < picker->_end)
        st = step(picker);
    if (st >= 0) {
        st = flush(picker);
        if (st == HVD_INPROGRESS && picker->_depth && picker->_state == IN_SCALAR)
            picker->_state = IN_WHOLE;
    }
    picker->_at = picker->_end = picker->_from = NULL;
    if (st >= 0)
        return HVD_OK;
    picker->_state = FAILED;
    return st;
}

hvd_status_t hvd_picker_end(struct hvd_picker *picker)
{
    hvd_status_t st = HVD_OK;

    if (picker->_state == IN_SCALAR && !picker->_n_levels)
        st = end_whole(picker);
    if (st == HVD_OK && picker->_state == AT_END)
        st = deliver(picker, 0, false);
    else if (st == HVD_OK && (picker->_state != AT_VALUE || picker->_n_levels))
        st = HVD_ERR_INVALID;
    hvd_picker_reset(picker);
    return st;
}

/* ---- life ---- */

void hvd_picker_init(struct hvd_picker *picker, const struct hvd_pick_options *options)
{
    *picker = (struct hvd_picker){._options = *options};
    /* Four members: metadata, spec, status, and the text around them. */
    hvd_buf_init(&picker->_out,
                 options->max_total ? options->max_total : 4 * options->max_bytes + ROOM_BYTES);
    hvd_picker_reset(picker);
}

void hvd_picker_fini(struct hvd_picker *picker)
{
    hvd_buf_fini(&picker->_out);
}

void hvd_picker_reset(struct hvd_picker *picker)
{
    if (picker->_out._capacity > KEEP_BYTES)
        hvd_buf_fini(&picker->_out);
    hvd_buf_reset(&picker->_out);
    picker->_state = AT_VALUE;
    picker->_n_levels = 0;
    picker->_parts = picker->_options.shape;
    picker->_is_copying = true;
    picker->_depth = 0;
    picker->_object_level = picker->_part_at = picker->_n_values = 0;
    picker->_has_unit = false;
    picker->_cause = NULL;
    picker->_is_measuring = false;
}
