"""Reads XML without a DTD, and keeps every byte."""

import re

from .xml_escape import resolve
from .xml_names import NAME

# The limits of a document, which are the host's.
_MAX_BYTES = 8 << 20
_MAX_DEPTH = 128

_SPACE = "[ \t\r\n]"
_TAG = re.compile(
    f"<({NAME})((?:{_SPACE}+{NAME}{_SPACE}*={_SPACE}*(?:\"[^\"<]*\"|'[^'<]*'))*{_SPACE}*)(/?)>", re.DOTALL
)
_ATTRIBUTE = re.compile(f"({NAME}){_SPACE}*={_SPACE}*(\"[^\"]*\"|'[^']*')", re.DOTALL)
_END = re.compile(f"</({NAME})({_SPACE}*)>")
_OTHER = re.compile("<!--.*?-->|<\\?.*?\\?>", re.DOTALL)
_CDATA = re.compile("<!\\[CDATA\\[.*?\\]\\]>", re.DOTALL)
_TEXT = re.compile("[^<]+")
_MISC = re.compile(f"(?:{_SPACE}|<!--.*?-->|<\\?.*?\\?>)*", re.DOTALL)
_REFERENCE = re.compile("&([^;&]*);|&")

TEXT, CDATA, OTHER = "text", "cdata", "other"


class XmlError(ValueError):
    """What is not XML, and where."""


class Attribute:
    """An attribute's place in a start tag."""

    __slots__ = ("name", "begin", "end", "raw_begin")

    def __init__(self, found):
        self.name, self.begin, self.end, self.raw_begin = found[1], found.start(), found.end(), found.start(2) + 1

    def raw(self, tag):
        return tag[self.raw_begin : self.end - 1]


def attributes(tag, begin):
    """The attributes of a start tag, from behind the element's name on."""
    return [Attribute(found) for found in _ATTRIBUTE.finditer(tag, begin)]


def parse(text, make):
    """The root, which `make(parent, name, tag)` has made, and what stands before and behind it. Content is appended to
    `nodes`: elements, and (kind, text) of anything else."""
    if len(text.encode()) > _MAX_BYTES:
        raise XmlError(f"the XML has more than {_MAX_BYTES} bytes")
    begin = _MISC.match(text, 1 if text.startswith("\ufeff") else 0).end()
    root, at = _start(text, begin, None, make)
    open_element = None if root.raw is not None else root
    depth = 1
    while open_element is not None:
        end = _END.match(text, at)
        if end:
            if end[1] != open_element.written_name:
                raise _expected(text, at, f"`</{open_element.written_name}>`")
            open_element.end_space, at = end[2], end.end()
            open_element.raw = text[open_element.begins_at : at]
            open_element, depth = open_element.parent, depth - 1
            continue
        for kind, pattern in ((TEXT, _TEXT), (OTHER, _OTHER), (CDATA, _CDATA)):
            found = pattern.match(text, at)
            if found:
                if kind == TEXT:
                    _references(text, at, found.end())
                open_element.nodes.append((kind, found[0]))
                at = found.end()
                break
        else:
            if at >= len(text):
                raise _expected(text, at, f"`</{open_element.written_name}>`")
            child, at = _start(text, at, open_element, make)
            open_element.nodes.append(child)
            if child.raw is None:
                open_element, depth = child, depth + 1
                if depth > _MAX_DEPTH:
                    raise _expected(text, at, f"at most {_MAX_DEPTH} levels")
    behind = _MISC.match(text, at).end()
    if behind < len(text):
        raise _expected(text, behind, "the end of the document")
    return root, text[:begin], text[at:]


def _start(text, at, parent, make):
    found = _TAG.match(text, at)
    if not found:
        raise _expected(text, at, "an element with quoted attributes, or the end of the one around it")
    element = make(parent, found[1], found[1] + found[2])
    names = [attribute.name for attribute in attributes(element.tag, len(found[1]))]
    if len(set(names)) < len(names):
        raise _expected(text, at, "attributes of different names")
    _references(text, at, found.end())
    element.begins_at = at
    element.has_end = not found[3]
    element.raw = found[0] if found[3] else None
    return element, found.end()


def _references(text, begin, end):
    if text.find("&", begin, end) < 0:
        return
    for found in _REFERENCE.finditer(text, begin, end):
        if found[1] is None or resolve(found[1]) is None:
            raise _expected(text, found.start(), "a reference that XML knows, as &amp;")


def _expected(text, at, what):
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return XmlError(f"line {line}, column {column}: expected {what}")
