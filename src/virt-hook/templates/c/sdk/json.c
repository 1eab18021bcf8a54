/* Finds one value in a JSON text without building a tree of it.
 *
 * The host gives JSON that it has parsed itself, so that little is checked here; what is not JSON is
 * never read beyond its end, and finds nothing. */
#include "virt_hook.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

static bool eat(cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

/* The text between the quotes, with its escapes. */
static bool string_token(cursor *c, text *raw) {
    if (!eat(c, '"')) return false;
    const char *from = c->at;
    for (; c->at < c->end && *c->at != '"'; c->at++) {
        if (*c->at == '\\' && c->at + 1 < c->end) c->at++;
    }
    if (c->at == c->end) return false;
    *raw = (text){from, (size_t)(c->at - from)};
    c->at++;
    return true;
}

/* Whatever value comes next; brackets are counted, so that depth costs nothing. */
static bool skip_value(cursor *c) {
    size_t depth = 0;
    do {
        skip_space(c);
        if (c->at == c->end) return false;
        text raw;
        switch (*c->at) {
        case '"':
            if (!string_token(c, &raw)) return false;
            break;
        case '{':
        case '[':
            depth++;
            c->at++;
            continue;
        case '}':
        case ']':
            if (depth == 0) return false;
            depth--;
            c->at++;
            break;
        case ',':
        case ':':
            if (depth == 0) return false;
            c->at++;
            continue;
        default:
            do c->at++;
            while (c->at < c->end && !strchr(",:]}[{\" \t\r\n", *c->at));
        }
    } while (depth > 0);
    return true;
}

static unsigned hex4(const char *digits) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char d = digits[i];
        unsigned digit = d >= '0' && d <= '9'   ? (unsigned)(d - '0')
                         : d >= 'a' && d <= 'f' ? (unsigned)(d - 'a' + 10)
                         : d >= 'A' && d <= 'F' ? (unsigned)(d - 'A' + 10)
                                                : 0;
        value = value * 16 + digit;
    }
    return value;
}

static text unescape(text raw) {
    /* No escape is shorter than what it stands for. */
    char *bytes = malloc(raw.length + 1), *to = bytes;
    if (!bytes) abort();
    const char *at = raw.bytes, *end = raw.bytes + raw.length;
    while (at < end) {
        if (*at != '\\' || at + 1 == end) {
            *to++ = *at++;
            continue;
        }
        char kind = at[1];
        at += 2;
        if (kind == 'u' && end - at >= 4) {
            unsigned point = hex4(at);
            at += 4;
            bool pair = point >> 10 == 0x36 && end - at >= 6 && at[0] == '\\' && at[1] == 'u';
            if (pair) {
                point = 0x10000 + ((point & 0x3ff) << 10) + (hex4(at + 2) & 0x3ff);
                at += 6;
            }
            to = text_put_utf8(to, point);
        } else {
            static const char kinds[] = "bfnrt", values[] = "\b\f\n\r\t";
            const char *known = strchr(kinds, kind);
            *to++ = known && *known ? values[known - kinds] : kind;
        }
    }
    return (text){bytes, (size_t)(to - bytes)};
}

/* Moves to the value of one member of the object that comes next. */
static bool enter(cursor *c, const char *name) {
    if (!eat(c, '{')) return false;
    do {
        text raw;
        if (!string_token(c, &raw) || !eat(c, ':')) return false;
        bool plain = !memchr(raw.bytes, '\\', raw.length);
        if (text_is(plain ? raw : unescape(raw), name)) return true;
        if (!skip_value(c)) return false;
    } while (eat(c, ','));
    return false;
}

bool json_find(text json, const char *const *path, text *value) {
    cursor c = {json.bytes, json.bytes + json.length};
    for (; *path; path++) {
        if (!enter(&c, *path)) return false;
    }
    skip_space(&c);
    const char *from = c.at;
    if (from < c.end && *from == '"') {
        text raw;
        if (!string_token(&c, &raw)) return false;
        *value = unescape(raw);
        return true;
    }
    if (!skip_value(&c)) return false;
    *value = (text){from, (size_t)(c.at - from)};
    return !text_is(*value, "null");
}

bool json_next(text list, text *item) {
    cursor c = {list.bytes, list.bytes + list.length};
    if (item->bytes) {
        c.at = item->bytes + item->length;
        if (!eat(&c, ',')) return false;
    } else if (!eat(&c, '[')) {
        return false;
    }
    skip_space(&c);
    const char *from = c.at;
    if (!skip_value(&c)) return false;
    *item = (text){from, (size_t)(c.at - from)};
    return true;
}

bool vmi_annotation(text vmi, const char *name, text *value) {
    return json_find(vmi, (const char *const[]){"metadata", "annotations", name, NULL}, value);
}

bool vmi_label(text vmi, const char *name, text *value) {
    return json_find(vmi, (const char *const[]){"metadata", "labels", name, NULL}, value);
}

size_t vmi_vcpus(text vmi) {
    static const char *const parts[] = {"sockets", "cores", "threads"};
    size_t all = 1;
    for (size_t i = 0; i < 3; i++) {
        text written;
        if (!json_find(vmi, (const char *const[]){"spec", "domain", "cpu", parts[i], NULL}, &written)) continue;
        size_t count = 0;
        for (size_t d = 0; d < written.length && count < 10000; d++) count = count * 10 + (size_t)(written.bytes[d] - '0');
        all *= count ? count : 1;
    }
    return all;
}
