/* The part of the host's rules on wishes that native tests check: a change of the XML needs a wish that covers it. A path
 * of an attribute covers its value, one of an element the element with its text and attributes, one that ends in ** all of
 * these and what is inside. An element without attributes and text is covered by what is in it. The host besides checks
 * the conditions of paths and that a new parent is nothing but a container, and refuses wildcards for what is dangerous,
 * predicates that fit several siblings, and another order of children: the cases find that. */
#include "native.h"

#include "../xml_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 130 };

/* Something that an element has: its names from the root on, the part ("" for the element itself, @ and the name of an
 * attribute, or "text"), and the value. */
typedef struct {
    text path, part, value;
    bool covered;
} content;

typedef struct {
    content *items;
    size_t count, capacity;
    text xml;
    /* The elements from the root to the one that is read. */
    xml_element way[DEEPEST];
} contents;

/* The next wish of a kind; `list` begins as {0}. Of a path with conditions it is the path. */
static bool next_wish(const char *kind, text *list, text *wish) {
    text all;
    if (!json_find(text_of(hook_describe()), (const char *const[]){"wishes", kind, NULL}, &all)) return false;
    if (!json_next(all, list)) return false;
    if (list->bytes[0] == '{') {
        if (json_find(*list, (const char *const[]){"path", NULL}, wish)) return true;
        fprintf(stderr, "hook_describe(): a wish has no \"path\": %.*s\n", (int)list->length, list->bytes);
        exit(1);
    }
    *wish = text_part(*list, 1, list->length - 1);
    return true;
}

/* Whether a pattern, with * for any characters, describes a name. */
static bool fits(text pattern, text name) {
    if (pattern.length == 0) return name.length == 0;
    if (pattern.bytes[0] == '*') {
        text rest = text_part(pattern, 1, pattern.length);
        for (size_t at = 0; at <= name.length; at++) {
            if (fits(rest, text_part(name, at, name.length))) return true;
        }
        return false;
    }
    return name.length && name.bytes[0] == pattern.bytes[0] &&
           fits(text_part(pattern, 1, pattern.length), text_part(name, 1, name.length));
}

bool native_is_declared(const char *kind, text name) {
    text wish;
    for (text at = {0}; next_wish(kind, &at, &wish);) {
        if (strcmp(kind, "pod") == 0 ? fits(wish, name) : text_equal(wish, name)) return true;
    }
    return false;
}

/* Whether a step selects an element among its siblings. */
static bool selects(const contents *all, const xml_step *step, size_t depth) {
    size_t at = depth ? all->way[depth - 1].content : 0, position = 0;
    xml_element found;
    while (xml_child(all->xml, &at, step, &position, &found)) {
        if (found.start == all->way[depth].start) return true;
    }
    return false;
}

/* Whether a path covers a part of the element at the end of the way. */
static bool covers(const contents *all, const char *path, size_t depth, size_t last, text part) {
    bool attribute = part.length && part.bytes[0] == '@';
    if (*path == '@') return depth > last && attribute && fits(text_of(path), part);
    if (strcmp(path, "**") == 0) return true;
    if (strncmp(path, "**/", 3) == 0) {
        for (size_t below = depth; below <= last + 1; below++) {
            if (covers(all, path + 3, below, last, part)) return true;
        }
        return false;
    }
    xml_step step;
    const char *rest = xml_next_step(path, &step);
    if (depth > last || !selects(all, &step, depth)) return false;
    /* A path that ends in a ** after its element covers the element, too. */
    if (rest) return covers(all, rest, depth + 1, last, part);
    /* One that ends in * covers elements alone. */
    return depth == last && (!attribute || path[strlen(path) - 1] != '*');
}

static void add(contents *all, size_t depth, text path, text part, text value) {
    if (all->count == all->capacity) {
        all->capacity = all->capacity ? all->capacity * 2 : 64;
        all->items = realloc(all->items, all->capacity * sizeof *all->items);
        if (!all->items) abort();
    }
    bool covered = false;
    text wish;
    for (text at = {0}; !covered && next_wish("paths", &at, &wish);) {
        covered = covers(all, xml_skip_root(text_join(wish).bytes), 0, depth, part);
    }
    all->items[all->count++] = (content){path, part, value, covered};
}

static text trimmed(text own) {
    while (own.length && strchr(" \t\r\n", own.bytes[0])) own = text_part(own, 1, own.length);
    while (own.length && strchr(" \t\r\n", own.bytes[own.length - 1])) own = text_part(own, 0, own.length - 1);
    return own;
}

static void read(contents *all, size_t depth, text around) {
    const xml_element *of = &all->way[depth];
    text path = text_join(around, text_of("/"), xml_name(all->xml, of)), own = trimmed(xml_own_text(all->xml, of));
    xml_element child;
    bool has_child = of->content < of->content_end && xml_sibling(all->xml, of->content, &child) && child.start < of->content_end;
    add(all, depth, path, text_of(""), text_of(""));
    /* An element that is there for its children alone. */
    if (has_child && !own.length && !xml_next_attribute(all->xml, of, &(xml_span){0})) all->items[all->count - 1].covered = true;
    for (xml_span one = {0}; xml_next_attribute(all->xml, of, &one);) {
        text name = text_part(all->xml, one.name, one.name_end);
        if (name.length >= 5 && memcmp(name.bytes, "xmlns", 5) == 0) continue;
        add(all, depth, path, text_join(text_of("@"), name), xml_unescape(text_part(all->xml, one.from, one.to)));
    }
    if (own.length) add(all, depth, path, text_of("text"), own);
    if (depth + 1 == DEEPEST) abort();
    for (size_t at = of->content; at < of->content_end && xml_sibling(all->xml, at, &all->way[depth + 1]);) {
        at = all->way[depth + 1].end;
        read(all, depth + 1, path);
    }
}

static contents contents_of(text xml) {
    contents all = {.xml = xml};
    if (!xml_sibling(xml, 0, &all.way[0])) abort();
    read(&all, 0, text_of(""));
    return all;
}

static bool same(const content *one, const content *other) {
    return text_equal(one->path, other->path) && text_equal(one->part, other->part) && text_equal(one->value, other->value);
}

/* How often something is there, and how often a wish covers it. */
static size_t count_of(const contents *all, const content *wanted, size_t *covered) {
    size_t count = 0;
    *covered = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (same(&all->items[i], wanted)) count++, *covered += all->items[i].covered;
    }
    return count;
}

static bool is_inside(text path, text around) {
    return path.length > around.length && memcmp(path.bytes, around.bytes, around.length) == 0 && path.bytes[around.length] == '/';
}

/* The wish that covers a change: all of the outermost element that comes or goes with it. */
static text missing_wish(const contents *own, const contents *other, const content *changed) {
    bool attribute = changed->part.length && changed->part.bytes[0] == '@';
    for (size_t end = 1; end <= changed->path.length; end++) {
        if (end < changed->path.length && changed->path.bytes[end] != '/') continue;
        content top = {text_part(changed->path, 0, end), text_of(""), text_of(""), false};
        size_t covered;
        if (count_of(own, &top, &covered) <= count_of(other, &top, &covered)) continue;
        for (size_t i = 0; i < own->count; i++) {
            const content *one = &own->items[i];
            bool of_top = text_equal(one->path, top.path) && one->part.length && one->part.bytes[0] == '@';
            if (of_top || is_inside(one->path, top.path)) return text_join(top.path, text_of("/**"));
        }
        return top.path;
    }
    return attribute ? text_join(changed->path, text_of("/"), changed->part) : changed->path;
}

/* What one document has and the other has not. Equal parts are not told apart, so that as many of them must be covered as
 * there are more. */
static const content *uncovered(const contents *own, const contents *other) {
    for (size_t i = 0; i < own->count; i++) {
        size_t covered, unused, count = count_of(own, &own->items[i], &covered);
        if (count > count_of(other, &own->items[i], &unused) + covered) return &own->items[i];
    }
    return NULL;
}

static text as_domain(text xml) {
    xml_element root;
    if (!xml_sibling(xml, 0, &root) || text_is(xml_name(xml, &root), "domain")) return xml;
    text device = text_part(xml, root.start, root.end);
    return text_join(text_of("<domain><devices>"), device, text_of("</devices></domain>"));
}

static void fail(const char *what, text more) {
    fprintf(stderr, "%s%.*s\n", what, (int)more.length, more.bytes);
    exit(1);
}

bool native_edit(bool (*hook)(text vmi, text *xml), text vmi, text *xml) {
    text before = *xml;
    if (!hook(vmi, xml)) return false;
    text again = *xml;
    if (!hook(vmi, &again)) return false;
    if (!text_equal(again, *xml)) fail("a second run changes what the first one made: ", again);
    contents old = contents_of(as_domain(before)), new = contents_of(as_domain(*xml));
    const content *changed = uncovered(&new, &old);
    bool added = changed != NULL;
    if (!added) changed = uncovered(&old, &new);
    if (!changed) return true;
    text wish = added ? missing_wish(&new, &old, changed) : missing_wish(&old, &new, changed);
    fail("the host would deny a change that no wish of hook_describe() covers; missing in \"paths\": ", wish);
    return false;
}
