/* Finds an element in XML and leaves every byte where it is.
 *
 * The host gives XML that it has parsed itself, so that little is checked here; what is not XML is
 * never read beyond its end. */
#include "virt_hook.h"

#include <stdlib.h>
#include <string.h>

static bool starts(text xml, size_t at, const char *with) {
    size_t length = strlen(with);
    return xml.length - at >= length && memcmp(xml.bytes + at, with, length) == 0;
}

/* The byte after the next `what`. */
static size_t after(text xml, size_t at, const char *what) {
    for (; at < xml.length; at++) {
        if (starts(xml, at, what)) return at + strlen(what);
    }
    return xml.length;
}

/* The byte after a tag's `>`; one within quotes is none. */
static size_t after_tag(text xml, size_t at) {
    char quote = 0;
    for (; at < xml.length; at++) {
        char c = xml.bytes[at];
        if (quote) {
            if (c == quote) quote = 0;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '>') {
            return at + 1;
        }
    }
    return xml.length;
}

/* The next start or end tag at or after `at`; comments, CDATA and the like are stepped over. */
static size_t next_tag(text xml, size_t at) {
    while (at < xml.length) {
        if (xml.bytes[at] != '<') at++;
        else if (starts(xml, at, "<!--")) at = after(xml, at + 4, "-->");
        else if (starts(xml, at, "<![CDATA[")) at = after(xml, at, "]]>");
        else if (starts(xml, at, "<?")) at = after(xml, at, "?>");
        else if (starts(xml, at, "<!")) at = after_tag(xml, at);
        else return at;
    }
    return at;
}

/* Whether a tag from `at` to `past` is of the kind `<a/>`. */
static bool is_empty(text xml, size_t at, size_t past) {
    return past - at >= 4 && xml.bytes[past - 1] == '>' && xml.bytes[past - 2] == '/';
}

/* Whether the element whose `<` is at `at` has the name at the front of `path`. */
static bool named(text xml, size_t at, const char *path, size_t length) {
    text rest = text_part(xml, at + 1, xml.length);
    if (rest.length <= length || memcmp(rest.bytes, path, length) != 0) return false;
    return strchr(" \t\r\n/>", rest.bytes[length]) != NULL;
}

/* The end tag that belongs to an element whose content starts at `at`. */
static size_t end_tag(text xml, size_t at) {
    size_t depth = 1;
    for (;;) {
        at = next_tag(xml, at);
        if (at >= xml.length) return xml.length;
        size_t past = after_tag(xml, at);
        if (starts(xml, at, "</")) depth--;
        else if (!is_empty(xml, at, past)) depth++;
        if (depth == 0) return at;
        at = past;
    }
}

bool xml_find(text xml, const char *path, xml_element *found) {
    size_t at = next_tag(xml, 0);
    for (;;) {
        /* Here a sibling starts, or the parent ends, or there is nothing more. */
        if (at >= xml.length || starts(xml, at, "</")) return false;
        size_t length = strcspn(path, "/");
        size_t content = after_tag(xml, at);
        bool empty = is_empty(xml, at, content);
        if (named(xml, at, path, length) && path[length]) {
            if (empty) return false;
            path += length + 1;
            at = next_tag(xml, content);
            continue;
        }
        size_t content_end = empty ? content : end_tag(xml, content);
        size_t end = empty ? content : after_tag(xml, content_end);
        if (named(xml, at, path, length)) {
            *found = (xml_element){at, content, content_end, end};
            return true;
        }
        at = next_tag(xml, end);
    }
}

text xml_escape(text plain) {
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    /* No entity has more than six bytes. */
    char *bytes = malloc(plain.length * 6 + 1), *to = bytes;
    if (!bytes) abort();
    for (size_t i = 0; i < plain.length; i++) {
        const char *known = plain.bytes[i] ? strchr(special, plain.bytes[i]) : NULL;
        if (!known) {
            *to++ = plain.bytes[i];
            continue;
        }
        const char *entity = entities[known - special];
        memcpy(to, entity, strlen(entity));
        to += strlen(entity);
    }
    return (text){bytes, (size_t)(to - bytes)};
}
