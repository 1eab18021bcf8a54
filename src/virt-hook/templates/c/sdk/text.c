/* Pieces of text, and what is made of them. */
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
    return (text){bytes, length};
}

text text_replace(text whole, size_t from, size_t to, text by) {
    return text_join(text_part(whole, 0, from), by, text_part(whole, to, whole.length));
}
