/* Edits XML by paths: parts that an edit does not name keep their bytes. */
#include "xml_internal.h"

#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* The white space from the end of a line before `at`, with the line's end; empty where `at` does not begin a line. */
static text indentation(text xml, size_t at) {
    size_t from = at;
    while (from > 0 && (xml.bytes[from - 1] == ' ' || xml.bytes[from - 1] == '\t')) from--;
    if (from == 0 || xml.bytes[from - 1] != '\n') return text_of("");
    from -= from > 1 && xml.bytes[from - 2] == '\r' ? 2 : 1;
    return text_part(xml, from, at);
}

/* One more level than the element's own indentation. */
static text deeper(text xml, const xml_element *of) {
    text own = indentation(xml, of->start);
    if (own.length == 0) return own;
    xml_element root, first;
    text level = text_of("  ");
    if (xml_sibling(xml, 0, &root) && root.start != of->start && xml_sibling(xml, root.content, &first)) {
        text line = indentation(xml, first.start);
        if (line.length > 1) level = text_part(line, line.bytes[0] == '\r' ? 2 : 1, line.length);
    }
    return text_join(own, level);
}

/* The few elements whose children have an order in libvirt's schema: the parent, then its children. */
static const char *const ORDERS[][6] = {
    {"resource", "partition", "fibrechannel", NULL},
    {"model", "acceleration", "resolution", NULL},
    {"source", "vendor", "product", "address", NULL},
    {"source", "slices", "dataStore", NULL},
    {"source", "reconnect", "clipboard", "mouse", "seclabel", NULL},
    {"launchSecurity", "cbitpos", "reducedPhysBits", NULL},
};

/* The place of a name in an order, from 1. */
static size_t rank(const char *const *order, text name) {
    for (size_t i = 1; i < 6 && order[i]; i++) {
        if (text_is(name, order[i])) return i;
    }
    return 0;
}

/* Where a child belongs: after which byte, and whether it is the line of the next one. */
static size_t place(text xml, const xml_element *parent, text name, bool *before) {
    const char *const *order = NULL;
    text own = xml_name(xml, parent);
    for (size_t i = 0; i < sizeof ORDERS / sizeof *ORDERS; i++) {
        if (text_is(own, ORDERS[i][0]) && rank(ORDERS[i], name)) order = ORDERS[i];
    }
    size_t last = parent->content, first_later = 0, last_earlier = 0;
    xml_element child;
    for (size_t at = parent->content; at < parent->content_end && xml_sibling(xml, at, &child); at = child.end) {
        size_t other = order ? rank(order, xml_name(xml, &child)) : 0;
        if (other && other <= rank(order, name)) last_earlier = child.end;
        else if (other && !first_later) first_later = child.start;
        last = child.end;
    }
    *before = !last_earlier && first_later;
    if (*before) return first_later;
    if (last_earlier) return last_earlier;
    /* After a text of its own, if there is one. */
    size_t end = parent->content_end;
    while (end > last && is_blank(xml.bytes[end - 1])) end--;
    return end > last ? end : last;
}

/* Adds a child at the position that libvirt's schema requires. */
static void insert(text *xml, const xml_element *parent, text child, text name) {
    bool before;
    size_t at = place(*xml, parent, name, &before);
    xml_element first;
    bool has_children = parent->content < parent->content_end && xml_sibling(*xml, parent->content, &first);
    text line = has_children ? indentation(*xml, first.start) : deeper(*xml, parent);
    if (before) {
        *xml = text_replace(*xml, at, at, text_join(child, line));
        return;
    }
    child = text_join(line, child);
    if (!xml_is_empty_tag(*xml, parent->start, parent->content)) {
        text end = has_children || line.length == 0 ? text_of("") : indentation(*xml, parent->start);
        bool closed = parent->content_end > at && is_blank(xml->bytes[parent->content_end - 1]);
        *xml = text_replace(*xml, at, at, closed ? child : text_join(child, end));
        return;
    }
    text end = line.length ? indentation(*xml, parent->start) : text_of("");
    child = text_join(text_of(">"), child, end, text_of("</"), xml_name(*xml, parent), text_of(">"));
    size_t slash = parent->content - 2;
    while (is_blank(xml->bytes[slash - 1])) slash--;
    *xml = text_replace(*xml, slash, parent->content, child);
}

/* The name of the one element that an XML literal is. */
static text literal_name(text *literal, const char *path) {
    while (literal->length && is_blank(literal->bytes[0])) *literal = text_part(*literal, 1, literal->length);
    while (literal->length && is_blank(literal->bytes[literal->length - 1])) literal->length--;
    xml_element root;
    bool one = xml_sibling(*literal, 0, &root) && root.start == 0 && root.end == literal->length;
    if (!one) xml_refuse(path, "what is added there must be one element");
    return xml_name(*literal, &root);
}

/* An element that a step selects. */
static text made_for(const xml_step *step, const char *path) {
    text made = text_join(text_of("<"), step->name, text_of("/>")), rest = step->predicates;
    xml_predicate one;
    if (text_is(step->name, "*")) xml_refuse(path, "nothing can be made from `*`");
    while (xml_next_predicate(&rest, &one)) {
        if (!one.has_value) xml_refuse(path, "nothing can be made without the value of each predicate");
        bool own = text_is(one.path, "text()");
        xml_set(&made, own ? path_join(step->name) : path_join(step->name, text_of("/"), one.path), one.value);
    }
    return made;
}

/* The element at a path, which is made where it is missing. A step with `@` ends the path. */
static xml_element ensure(text *xml, const char *path) {
    xml_step step;
    const char *rest = xml_next_step(xml_skip_root(path), &step);
    xml_element found;
    size_t at = 0, position = 0;
    xml_check_root(*xml, path);
    if (!xml_child(*xml, &at, &step, &position, &found)) xml_refuse(path, "the document's root is not what the path asks for");
    while (rest && *rest != '@') {
        rest = xml_next_step(rest, &step);
        xml_element parent = found;
        at = parent.content, position = 0;
        if (parent.content < parent.content_end && xml_child(*xml, &at, &step, &position, &found)) continue;
        insert(xml, &parent, made_for(&step, path), step.name);
        /* The parent begins where it began; the new child is the only one that the step selects. */
        xml_sibling(*xml, parent.start, &parent);
        at = parent.content, position = 0;
        if (!xml_child(*xml, &at, &step, &position, &found)) xml_refuse(path, "nothing can be made from it");
    }
    return found;
}

static bool is_layout(text xml, const xml_piece *one) {
    if (one->kind != XML_TEXT) return false;
    for (size_t at = one->from; at < one->to; at++) {
        if (!is_blank(xml.bytes[at])) return false;
    }
    return true;
}

/* The content of an element with another text, at the place of the old one. Children and comments stay, and the white
 * space between children. */
static text content_with(text xml, const xml_element *of, text escaped) {
    bool has_children = false;
    size_t place = 0;
    for (xml_piece one = {.to = of->content}; xml_next_piece(xml, of, &one);) has_children |= one.kind == XML_CHILD;
    text before = text_of(""), behind = text_of("");
    for (xml_piece one = {.to = of->content}; xml_next_piece(xml, of, &one);) {
        bool is_text = one.kind == XML_TEXT || one.kind == XML_CDATA;
        text part = text_part(xml, one.from, one.to);
        if (is_text && !(has_children && is_layout(xml, &one))) {
            if (!place) place = one.from, before = behind, behind = text_of("");
        } else {
            behind = text_join(behind, part);
        }
    }
    return text_join(before, escaped, behind);
}

static void set_text(text *xml, const xml_element *at, text value) {
    if (text_equal(xml_own_text(*xml, at), value)) return;
    text escaped = xml_escape(value);
    if (!xml_is_empty_tag(*xml, at->start, at->content)) {
        *xml = text_replace(*xml, at->content, at->content_end, content_with(*xml, at, escaped));
        return;
    }
    text tag = text_part(*xml, at->start, at->content - 2);
    while (is_blank(tag.bytes[tag.length - 1])) tag.length--;
    text whole = text_join(tag, text_of(">"), escaped, text_of("</"), xml_name(*xml, at), text_of(">"));
    *xml = text_replace(*xml, at->start, at->end, whole);
}

void xml_set(text *xml, const char *path, text value) {
    xml_element at = ensure(xml, path);
    const char *attribute = xml_attribute_of(xml_skip_root(path));
    text escaped = xml_escape(value);
    xml_span span;
    if (!attribute) {
        set_text(xml, &at, value);
    } else if (xml_attribute(*xml, &at, text_of(attribute), &span)) {
        bool is_same = text_equal(xml_unescape(text_part(*xml, span.from, span.to)), value);
        if (!is_same) *xml = text_replace(*xml, span.from, span.to, escaped);
    } else {
        size_t end = at.content - (xml_is_empty_tag(*xml, at.start, at.content) ? 2 : 1);
        while (is_blank(xml->bytes[end - 1])) end--;
        *xml = text_replace(*xml, end, end, text_join(text_of(" "), text_of(attribute), text_of("='"), escaped, text_of("'")));
    }
}

bool xml_set_if_absent(text *xml, const char *path, text value) {
    text old;
    if (xml_value(*xml, path, &old)) return false;
    xml_set(xml, path, value);
    return true;
}

void xml_insert(text *xml, const char *parent, text element) {
    text name = literal_name(&element, parent);
    xml_element at = ensure(xml, parent);
    insert(xml, &at, element, name);
}

bool xml_insert_if_absent(text *xml, const char *path, text element) {
    xml_element found;
    if (xml_find(*xml, path, &found)) return false;
    const char *last = xml_skip_root(path);
    xml_step step;
    for (const char *rest = last; (rest = xml_next_step(rest, &step));) last = rest;
    if (last == xml_skip_root(path)) xml_refuse(path, "an element is added below another one");
    xml_insert(xml, path_join((text){path, (size_t)(last - path) - 1}), element);
    if (!xml_find(*xml, path, &found)) xml_refuse(path, "it does not select the element that was added for it");
    return true;
}

void xml_replace(text *xml, xml_element *at, text by) {
    *xml = text_replace(*xml, at->start, at->end, by);
    xml_sibling(*xml, at->start, at);
}

size_t xml_remove(text *xml, const char *path) {
    const char *attribute = xml_attribute_of(xml_skip_root(path));
    size_t removed = 0;
    xml_element at = {0};
    while (xml_next(*xml, path, &at)) {
        size_t from = at.start, to = at.end;
        xml_span span;
        if (attribute && xml_attribute(*xml, &at, text_of(attribute), &span)) {
            from = span.name, to = span.to + 1;
            while (is_blank(xml->bytes[from - 1])) from--;
            at.end = at.start + 1;
        } else {
            from -= indentation(*xml, from).length;
            at.end = from;
        }
        *xml = text_replace(*xml, from, to, text_of(""));
        removed++;
    }
    return removed;
}
