/* Functions for pieces of text. */
#include "virt_hook.h"

#include <stdlib.h>
#include <string.h>

text text_of(const char *terminated) { return (text){terminated, strlen(terminated)}; }

text text_part(text whole, size_t from, size_t to) {
    return (text){whole.bytes + from, to - from};
}

bool text_is(text one, const char *other) {
    return one.length == strlen(other) && memcmp(one.bytes, other, one.length) == 0;
}

bool text_equal(text one, text other) {
    return one.length == other.length && memcmp(one.bytes, other.bytes, one.length) == 0;
}

bool text_cut(text whole, const char *separator, text *before, text *behind) {
    size_t length = strlen(separator);
    for (size_t at = 0; at + length <= whole.length; at++) {
        if (memcmp(whole.bytes + at, separator, length) != 0) continue;
        *before = text_part(whole, 0, at);
        *behind = text_part(whole, at + length, whole.length);
        return true;
    }
    return false;
}

bool text_consists_of(text one, const char *characters) {
    for (size_t i = 0; i < one.length; i++) {
        if (!one.bytes[i] || !strchr(characters, one.bytes[i])) return false;
    }
    return one.length > 0;
}

text text_of_number(size_t number) {
    char digits[20], *at = digits + sizeof digits;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    return text_join((text){at, (size_t)(digits + sizeof digits - at)});
}

char *text_put_utf8(char *to, unsigned point) {
    if (point < 0x80) {
        *to++ = (char)point;
        return to;
    }
    int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    *to++ = (char)((0xf00 >> more) | (point >> (6 * more)));
    while (more-- > 0) *to++ = (char)(0x80 | ((point >> (6 * more)) & 0x3f));
    return to;
}

text text_join_all(const text *pieces) {
    size_t length = 0;
    for (const text *piece = pieces; piece->bytes; piece++) length += piece->length;
    char *bytes = malloc(length + 1);
    if (!bytes) abort();
    char *end = bytes;
    for (const text *piece = pieces; piece->bytes; piece++) {
        memcpy(end, piece->bytes, piece->length);
        end += piece->length;
    }
    *end = 0;
    return (text){bytes, length};
}

text text_replace(text whole, size_t from, size_t to, text by) {
    return text_join(text_part(whole, 0, from), by, text_part(whole, to, whole.length));
}
