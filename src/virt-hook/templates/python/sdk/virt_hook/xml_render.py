"""Writes elements: what was not edited is copied."""

from .xml_escape import is_blank
from .xml_names import URIS, split_name
from .xml_parse import CDATA, TEXT


class _Writer:
    """What is written, and the line that it ends in."""

    def __init__(self):
        self.parts, self.line = [], ""

    def write(self, text):
        self.parts.append(text)
        _, end, last = text.rpartition("\n")
        self.line = last if end else self.line + last


def render(element):
    """The element as XML."""
    if not element.touched:
        return element.raw
    out = _Writer()
    is_root = element.parent is None and not element.made
    _render(element, _layout(element) if is_root else None, _missing_declarations(element) if is_root else "", out)
    return "".join(out.parts)


def _render(element, layout, declarations, out):
    if not element.touched:
        out.write(element.raw)
        return
    # White space before the element, and whether its start tag begins a line.
    indent, begins = out.line, is_blank(out.line)
    written = element.tag.rstrip(" \t\r\n")
    out.write(f"<{written}{declarations}{element.tag[len(written):]}")
    if not element.nodes and not element.has_end:
        out.write("/>")
        return
    out.write(">")
    below = _children_indent(element, layout, indent, begins)
    aligned = False
    for node in element.nodes:
        aligned = _is_element(node) and node.aligned and below is not None
        if not _is_element(node):
            out.write(node[1])
            continue
        if aligned:
            out.write(layout[0] + below)
        _render(node, layout, "", out)
    if aligned and begins:
        out.write(layout[0] + indent)
    out.write(f"</{element.written_name}{element.end_space}>")


def _layout(root):
    """How a document breaks its lines: the line end, and one level of indentation. None for one on one line."""
    for node in root.nodes:
        if _is_layout(node) and "\n" in node[1]:
            before, _, unit = node[1].rpartition("\n")
            return ("\r\n" if before.endswith("\r") else "\n", unit or "  ")
    return None


def _children_indent(element, layout, own, begins):
    """The indentation of inserted children; None if they share a line."""
    if layout is None or any(not _is_element(n) and n[0] in (TEXT, CDATA) and not _is_layout(n) for n in element.nodes):
        return None
    shares = False
    for at, node in enumerate(element.nodes):
        if not _is_element(node) or node.aligned:
            continue
        if at and _is_layout(element.nodes[at - 1]) and "\n" in element.nodes[at - 1][1]:
            return element.nodes[at - 1][1].rpartition("\n")[2]
        shares = True
    return None if shares or not begins else own + layout[1]


def _missing_declarations(root):
    """Those of known prefixes that inserted elements use. They go to the root, where libvirt reads them."""
    present = root._attributes()
    quote = root.tag[present[0].end - 1] if present else "'"
    prefixes = {}

    def visit(element):
        if not element.touched:
            return
        prefix, _ = split_name(element.written_name)
        if element.made and prefix in URIS and element._bound_uri(prefix) is None:
            prefixes[prefix] = f" xmlns:{prefix}={quote}{URIS[prefix]}{quote}"
        for child in element.children:
            visit(child)

    visit(root)
    return "".join(prefixes.values())


def _is_element(node):
    return not isinstance(node, tuple)


def _is_layout(node):
    return not _is_element(node) and node[0] == TEXT and is_blank(node[1])
