"""Escapes text for XML, and resolves references."""

import re

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_REFERENCE = re.compile("&([^;&]*);")
_LINE_END = re.compile("\r\n?")
_BLANK_IN_ATTRIBUTE = re.compile("\r\n|[\r\n\t]")


def escape(plain, quote=None):
    """Plain text as character data, or as an attribute's value between quotes. What XML forbids becomes U+FFFD."""
    text = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
    if quote:
        text = text.replace("\t", "&#9;").replace("\n", "&#10;")
        text = text.replace(quote, "&apos;" if quote == "'" else "&quot;")
    return _FORBIDDEN.sub("\ufffd", text)


def unescape(raw, attribute=False):
    """Character data as plain text, as XML requires: line ends become \\n, in attributes white space a space."""
    raw = _BLANK_IN_ATTRIBUTE.sub(" ", raw) if attribute else _LINE_END.sub("\n", raw)
    return _REFERENCE.sub(lambda found: resolve(found[1]) or found[0], raw) if "&" in raw else raw


def resolve(reference):
    """The character of &reference;, or None. Without a DTD there are no others."""
    if reference in _ENTITIES:
        return _ENTITIES[reference]
    digits, base = (reference[2:], 16) if reference.startswith("#x") else (reference[1:], 10)
    if not reference.startswith("#") or not digits.isalnum() or not digits.isascii():
        return None
    try:
        character = chr(int(digits, base))
    except (ValueError, OverflowError):
        return None
    return None if _FORBIDDEN.match(character) else character


def is_blank(text):
    return not text.strip(" \t\r\n")
