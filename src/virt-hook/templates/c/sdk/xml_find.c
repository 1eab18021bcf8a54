/* Finds elements in XML by paths, and leaves every byte where it is.
 *
 * The host gives XML that it has parsed itself, so that little is checked here; what is not XML is
 * never read beyond its end. */
#include "xml_internal.h"

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

size_t xml_after_tag(text xml, size_t at) {
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

/* The byte after the comment, CDATA or the like at `at`; `at` itself where a tag is. */
static size_t after_other(text xml, size_t at) {
    if (starts(xml, at, "<!--")) return after(xml, at + 4, "-->");
    if (starts(xml, at, "<![CDATA[")) return after(xml, at, "]]>");
    if (starts(xml, at, "<?")) return after(xml, at, "?>");
    return starts(xml, at, "<!") ? xml_after_tag(xml, at) : at;
}

size_t xml_next_tag(text xml, size_t at) {
    while (at < xml.length) {
        size_t past = xml.bytes[at] == '<' ? after_other(xml, at) : at + 1;
        if (past == at) return at;
        at = past;
    }
    return at;
}

bool xml_is_empty_tag(text xml, size_t at, size_t past) {
    return past - at >= 4 && xml.bytes[past - 1] == '>' && xml.bytes[past - 2] == '/';
}

/* The end tag that belongs to an element whose content starts at `at`. */
static size_t end_tag(text xml, size_t at) {
    size_t depth = 1;
    for (;;) {
        at = xml_next_tag(xml, at);
        if (at >= xml.length) return xml.length;
        size_t past = xml_after_tag(xml, at);
        if (starts(xml, at, "</")) depth--;
        else if (!xml_is_empty_tag(xml, at, past)) depth++;
        if (depth == 0) return at;
        at = past;
    }
}

bool xml_sibling(text xml, size_t at, xml_element *found) {
    at = xml_next_tag(xml, at);
    if (at >= xml.length || starts(xml, at, "</")) return false;
    size_t content = xml_after_tag(xml, at);
    bool empty = xml_is_empty_tag(xml, at, content);
    size_t content_end = empty ? content : end_tag(xml, content);
    *found = (xml_element){at, content, content_end, empty ? content : xml_after_tag(xml, content_end)};
    return true;
}

text xml_name(text xml, const xml_element *of) {
    size_t end = of->start + 1;
    while (end < of->content && !(xml.bytes[end] && strchr(" \t\r\n/>", xml.bytes[end]))) end++;
    return text_part(xml, of->start + 1, end);
}

bool xml_next_attribute(text xml, const xml_element *of, xml_span *one) {
    size_t at = one->to ? one->to + 1 : of->start + 1 + xml_name(xml, of).length;
    while (at < of->content && xml.bytes[at] && strchr(" \t\r\n", xml.bytes[at])) at++;
    size_t name = at;
    while (at < of->content && !(xml.bytes[at] && strchr(" \t\r\n=/>", xml.bytes[at]))) at++;
    size_t name_end = at;
    while (at < of->content && xml.bytes[at] != '"' && xml.bytes[at] != '\'' && xml.bytes[at] != '>') at++;
    if (name == name_end || at >= of->content || xml.bytes[at] == '>') return false;
    char quote = xml.bytes[at++];
    size_t from = at;
    while (at < of->content && xml.bytes[at] != quote) at++;
    *one = (xml_span){name, name_end, from, at};
    return true;
}

bool xml_attribute(text xml, const xml_element *of, text name, xml_span *value) {
    for (xml_span one = {0}; xml_next_attribute(xml, of, &one);) {
        *value = one;
        if (text_equal(text_part(xml, one.name, one.name_end), name)) return true;
    }
    return false;
}

bool xml_next_piece(text xml, const xml_element *of, xml_piece *one) {
    size_t at = one->from = one->to;
    if (at >= of->content_end) return false;
    xml_element child;
    if (xml.bytes[at] != '<') {
        one->kind = XML_TEXT;
        while (at < of->content_end && xml.bytes[at] != '<') at++;
    } else if ((at = after_other(xml, one->from)) != one->from) {
        one->kind = starts(xml, one->from, "<![CDATA[") ? XML_CDATA : XML_OTHER;
    } else {
        one->kind = XML_CHILD;
        at = xml_sibling(xml, at, &child) ? child.end : of->content_end;
    }
    one->to = at;
    return true;
}

text xml_own_text(text xml, const xml_element *of) {
    text all = text_of("");
    for (xml_piece one = {.to = of->content}; xml_next_piece(xml, of, &one);) {
        if (one.kind == XML_TEXT) all = text_join(all, xml_unescape(text_part(xml, one.from, one.to)));
        if (one.kind == XML_CDATA) all = text_join(all, text_part(xml, one.from + 9, one.to - 3));
    }
    return all;
}

/* ---- paths ------------------------------------------------------------------------------------- */

void xml_refuse(const char *path, const char *why) {
    hook_log(VIRT_HOOK_HOOKS_HOST_LEVEL_ERROR,
             text_join(text_of("path `"), text_of(path), text_of("`: "), text_of(why)));
    abort();
}

/* The end of a step: the next `/` outside of brackets. */
static const char *step_end(const char *path) {
    char quote = 0;
    size_t depth = 0;
    const char *at = path;
    for (; *at; at++) {
        if (quote) {
            if (*at == quote) quote = 0;
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == '[') {
            depth++;
        } else if (*at == ']') {
            if (depth == 0) xml_refuse(path, "expected no `]` without `[`");
            depth--;
        } else if (*at == '/' && depth == 0) {
            break;
        }
    }
    if (quote || depth) xml_refuse(path, "expected `]`, or a closing quote");
    return at;
}

const char *xml_next_step(const char *path, xml_step *step) {
    const char *end = step_end(path), *name_end = path;
    while (name_end < end && *name_end != '[') name_end++;
    step->name = (text){path, (size_t)(name_end - path)};
    step->predicates = (text){name_end, (size_t)(end - name_end)};
    if (step->name.length == 0) xml_refuse(path, "expected the name of an element");
    return *end ? end + 1 : NULL;
}

const char *xml_skip_root(const char *path) { return *path == '/' ? path + 1 : path; }

bool xml_next_predicate(text *rest, xml_predicate *one) {
    if (rest->length == 0) return false;
    const char *at = rest->bytes + 1, *end = rest->bytes + rest->length;
    *one = (xml_predicate){0};
    for (; at < end && *at >= '0' && *at <= '9'; at++) one->position = one->position * 10 + (size_t)(*at - '0');
    const char *path = at;
    while (at < end && *at != '=' && *at != ']') at++;
    one->path = (text){path, (size_t)(at - path)};
    if (at < end && *at == '=') {
        char quote = ++at < end ? *at : 0;
        if (quote != '\'' && quote != '"') xml_refuse(rest->bytes, "expected a value in quotes");
        const char *value = ++at;
        while (at < end && *at != quote) at++;
        one->value = (text){value, (size_t)(at - value)};
        one->has_value = true;
        at++;
    }
    if (at >= end || *at != ']' || (!one->position && one->path.length == 0)) {
        xml_refuse(rest->bytes, "expected a predicate: [2], [a/@b] or [a/@b='c']");
    }
    at++;
    *rest = (text){at, (size_t)(end - at)};
    return true;
}

/* Whether something at a path below the element exists, and has the value. */
static bool has_value(text xml, const xml_element *of, text path, const xml_predicate *wanted) {
    if (path.length && path.bytes[0] == '@') {
        xml_span span;
        if (!xml_attribute(xml, of, text_part(path, 1, path.length), &span)) return false;
        text value = xml_unescape(text_part(xml, span.from, span.to));
        return !wanted->has_value || text_equal(value, wanted->value);
    }
    if (path.length == 0 || text_is(path, "text()")) {
        return !wanted->has_value || text_equal(xml_own_text(xml, of), wanted->value);
    }
    const char *slash = memchr(path.bytes, '/', path.length);
    size_t length = slash ? (size_t)(slash - path.bytes) : path.length;
    text name = text_part(path, 0, length);
    text rest = text_part(path, slash ? length + 1 : length, path.length);
    xml_element child;
    for (size_t at = of->content; at < of->content_end && xml_sibling(xml, at, &child); at = child.end) {
        if (text_equal(xml_name(xml, &child), name) && has_value(xml, &child, rest, wanted)) return true;
    }
    return false;
}

static bool holds(text xml, const xml_element *of, const xml_step *step, size_t position) {
    text rest = step->predicates;
    xml_predicate one;
    while (xml_next_predicate(&rest, &one)) {
        if (one.position ? one.position != position : !has_value(xml, of, one.path, &one)) return false;
    }
    return true;
}

bool xml_child(text xml, size_t *at, const xml_step *step, size_t *position, xml_element *found) {
    while (xml_sibling(xml, *at, found)) {
        *at = found->end;
        bool named = text_is(step->name, "*") || text_equal(xml_name(xml, found), step->name);
        if (named && holds(xml, found, step, ++*position)) return true;
    }
    return false;
}

/* The first element at a path below the siblings from `at` on that begins at `from` or later. */
static bool locate(text xml, size_t at, const char *path, size_t from, xml_element *found) {
    xml_step step;
    const char *rest = xml_next_step(path, &step);
    xml_element child;
    size_t position = 0;
    while (xml_child(xml, &at, &step, &position, &child)) {
        xml_span span;
        bool attribute = rest && *rest == '@';
        bool selected = !rest || (attribute && xml_attribute(xml, &child, text_of(rest + 1), &span));
        if (selected && child.start >= from) {
            *found = child;
            return true;
        }
        bool empty = child.content == child.content_end;
        if (rest && !attribute && !empty && locate(xml, child.content, rest, from, found)) return true;
    }
    return false;
}

void xml_check_root(text xml, const char *path) {
    xml_step step;
    xml_element root;
    xml_next_step(xml_skip_root(path), &step);
    if (text_is(step.name, "*") || !xml_sibling(xml, 0, &root) || text_equal(xml_name(xml, &root), step.name)) return;
    text name = xml_name(xml, &root);
    xml_refuse(path, path_join(text_of("the document is <"), name, text_of(">, not what the path begins with")));
}

bool xml_next(text xml, const char *path, xml_element *found) {
    xml_check_root(xml, path);
    return locate(xml, 0, xml_skip_root(path), found->end, found);
}

bool xml_find(text xml, const char *path, xml_element *found) {
    *found = (xml_element){0};
    return xml_next(xml, path, found);
}

const char *xml_attribute_of(const char *path) {
    for (const char *at = path;; at++) {
        const char *end = step_end(at);
        if (*at == '@') return at + 1;
        if (!*end) return NULL;
        at = end;
    }
}

bool xml_value(text xml, const char *path, text *value) {
    xml_element found;
    if (!xml_find(xml, path, &found)) return false;
    const char *attribute = xml_attribute_of(xml_skip_root(path));
    xml_span span;
    if (!attribute) *value = xml_own_text(xml, &found);
    else if (xml_attribute(xml, &found, text_of(attribute), &span)) *value = xml_unescape(text_part(xml, span.from, span.to));
    return true;
}
