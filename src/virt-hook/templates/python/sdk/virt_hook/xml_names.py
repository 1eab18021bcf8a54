"""Names and text of XML. Look-ups use canonical names: the prefix of libvirt's documentation, whatever prefix the
document declares for that namespace. KubeVirt's metadata has a default namespace, so that its canonical prefix is empty."""

import re

_START = "a-zA-Z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\ufffc\U00010000-\U0010ffff"
NAME = f"[{_START}][{_START}0-9.\u00b7-]*"
_NAME = re.compile(NAME)

NAMESPACES = {
    "http://libvirt.org/schemas/domain/qemu/1.0": "qemu",
    "http://libvirt.org/schemas/domain/lxc/1.0": "lxc",
    "http://libvirt.org/schemas/domain/bhyve/1.0": "bhyve",
    "http://libvirt.org/schemas/domain/xen/1.0": "xen",
    "http://libosinfo.org/xmlns/libvirt/domain/1.0": "libosinfo",
    "http://kubevirt.io": "",
}
URIS = {prefix: uri for uri, prefix in NAMESPACES.items() if prefix}

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_REFERENCE = re.compile("&([^;&]*);")
_LINE_END = re.compile("\r\n?")
_BLANK_IN_ATTRIBUTE = re.compile("\r\n|[\r\n\t]")


def is_name(name):
    return _NAME.fullmatch(name) is not None


def split_name(name):
    prefix, colon, local = name.partition(":")
    return (prefix, local) if colon else ("", name)


def join_name(prefix, local):
    return f"{prefix}:{local}" if prefix else local


def declared_prefix(attribute):
    """q for xmlns:q, "" for xmlns, None for anything else."""
    if attribute == "xmlns":
        return ""
    return attribute[6:] if attribute.startswith("xmlns:") else None


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
