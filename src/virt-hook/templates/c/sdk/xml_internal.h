/* Declarations that the files about XML share. */
#ifndef XML_INTERNAL_H
#define XML_INTERNAL_H

#include "virt_hook.h"

/* An attribute: its name, and its value without the quotes. */
typedef struct {
    size_t name, name_end, from, to;
} xml_span;

/* A level of a path: a name or `*`, and predicates, as `[@type='usb'][2]`. */
typedef struct {
    text name, predicates;
} xml_step;

/* A predicate: a position, or a path below the element, with a value if there is one. */
typedef struct {
    size_t position;
    text path, value;
    bool has_value;
} xml_predicate;

/* A part of an element's content. */
typedef enum { XML_TEXT, XML_CDATA, XML_OTHER, XML_CHILD } xml_kind;
typedef struct {
    xml_kind kind;
    size_t from, to;
} xml_piece;

/* The next part of an element's content: `for (xml_piece one = {.to = of->content}; xml_next_piece(xml, of, &one);)`. */
bool xml_next_piece(text xml, const xml_element *of, xml_piece *one);
/* An element's own text, without its children's. */
text xml_own_text(text xml, const xml_element *of);

/* The byte after a tag's `>`; a `>` within quotes does not count. */
size_t xml_after_tag(text xml, size_t at);
/* The next start or end tag at or after `at`; comments, CDATA and the like are stepped over. */
size_t xml_next_tag(text xml, size_t at);
/* Whether a tag from `at` to `past` is of the kind `<a/>`. */
bool xml_is_empty_tag(text xml, size_t at, size_t past);
/* The first element from `at` on; false where the parent ends first. */
bool xml_sibling(text xml, size_t at, xml_element *found);
text xml_name(text xml, const xml_element *of);
/* The next attribute: `for (xml_span one = {0}; xml_next_attribute(xml, of, &one);)`. */
bool xml_next_attribute(text xml, const xml_element *of, xml_span *one);
bool xml_attribute(text xml, const xml_element *of, text name, xml_span *found);

/* Reads a step; what comes after it, or NULL. */
const char *xml_next_step(const char *path, xml_step *step);
const char *xml_skip_root(const char *path);
/* Refuses a path that begins with another element than the document: it would find nothing, in every document. */
void xml_check_root(text xml, const char *path);
bool xml_next_predicate(text *rest, xml_predicate *one);
/* The next sibling from `*at` on that a step selects. `*position` counts those of the step's name. */
bool xml_child(text xml, size_t *at, const xml_step *step, size_t *position, xml_element *found);
/* The name of the attribute that a path ends in, or NULL. */
const char *xml_attribute_of(const char *path);
/* Logs what is wrong with a path, and ends the call as a failure of the hook. */
_Noreturn void xml_refuse(const char *path, const char *why);

text xml_unescape(text raw);

#endif
