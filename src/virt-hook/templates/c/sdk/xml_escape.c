/* Text in XML. */
#include "xml_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {"amp", "lt", "gt", "quot", "apos"};
static const char CHARACTERS[] = "&<>\"'";

text xml_escape(text plain) {
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    /* No entity has more than six bytes. */
    char *bytes = malloc(plain.length * 6 + 1), *to = bytes;
    if (!bytes) abort();
    for (size_t i = 0; i < plain.length; i++) {
        const char *known = plain.bytes[i] ? strchr(CHARACTERS, plain.bytes[i]) : NULL;
        if (!known) {
            *to++ = plain.bytes[i];
            continue;
        }
        const char *entity = entities[known - CHARACTERS];
        memcpy(to, entity, strlen(entity));
        to += strlen(entity);
    }
    return (text){bytes, (size_t)(to - bytes)};
}

/* The code point of `#233` or `#xe9`; 0 for what is none. */
static unsigned code_point(text digits) {
    if (digits.length < 2 || digits.bytes[0] != '#') return 0;
    bool hexadecimal = digits.bytes[1] == 'x';
    unsigned point = 0;
    for (size_t i = hexadecimal ? 2 : 1; i < digits.length; i++) {
        const char *all = "0123456789abcdefABCDEF";
        const char *digit = digits.bytes[i] ? strchr(all, digits.bytes[i]) : NULL;
        if (!digit || point > 0x10ffff) return 0;
        unsigned value = (unsigned)(digit - all);
        if (value > 15) value -= 6;
        if (!hexadecimal && value > 9) return 0;
        point = point * (hexadecimal ? 16 : 10) + value;
    }
    return point > 0x10ffff ? 0 : point;
}

/* Reads the reference that `raw` begins with, as `&lt;`, and gives its length; 0 if it is none. */
static size_t reference(text raw, char **to) {
    const char *end = memchr(raw.bytes, ';', raw.length);
    if (!end) return 0;
    text name = text_part(raw, 1, (size_t)(end - raw.bytes));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (text_is(name, NAMES[i])) {
            *(*to)++ = CHARACTERS[i];
            return name.length + 2;
        }
    }
    unsigned point = code_point(name);
    if (!point) return 0;
    *to = text_put_utf8(*to, point);
    return name.length + 2;
}

text xml_unescape(text raw) {
    if (raw.length == 0 || !memchr(raw.bytes, '&', raw.length)) return raw;
    /* No reference is shorter than what it stands for. */
    char *bytes = malloc(raw.length + 1), *to = bytes;
    if (!bytes) abort();
    for (size_t i = 0; i < raw.length;) {
        size_t length = raw.bytes[i] == '&' ? reference(text_part(raw, i, raw.length), &to) : 0;
        if (length == 0) *to++ = raw.bytes[i];
        i += length ? length : 1;
    }
    return (text){bytes, (size_t)(to - bytes)};
}
