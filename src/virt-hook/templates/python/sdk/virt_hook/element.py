"""Elements of the domain, on the host's rules: what an edit does not name keeps its bytes."""

from . import path as paths
from . import xml_render
from .insert import order_of, parent_path
from .xml_escape import escape, is_blank, unescape
from .xml_names import (
    NAMESPACES,
    URIS,
    declared_prefix,
    is_name,
    join_name,
    split_name,
)
from .xml_parse import CDATA, TEXT, XmlError, attributes, parse

__all__ = ["Element", "XmlError"]


class Element:
    """An element with its attributes and children.

    Parts that an edit does not name keep their bytes: quotes, white space, comments and the order of everything.
    Inserted elements are indented like their neighbours. Names are those of libvirt's documentation:
    "qemu:commandline" finds the element whatever prefix the document has for that namespace.
    """

    def __init__(self, name, attributes=None, text=None):
        if not is_name(name):
            raise ValueError(f"`{name}` is not a name of an element")
        self.parent = None
        self.written_name = self.tag = name
        self.nodes = []
        self.raw, self.end_space, self.has_end = None, "", False
        # Whether something in it was edited, whether an edit made it, and whether it gets a line of its own.
        self.touched, self.made, self.aligned = True, True, False
        self.prolog = self.epilog = ""
        for attribute, value in (attributes or {}).items():
            self.set_attr(attribute, value)
        if text is not None:
            self.text = text

    @classmethod
    def parse(cls, xml):
        """The element that an XML text is. Of an `Element` the layout of the text and comments are dropped, so that it
        is laid out like its new siblings when it is inserted; a `Domain` or `Device` keeps every byte."""
        if not isinstance(xml, str):
            raise TypeError(f"XML is a text, and not {_kind(xml)}")
        root, prolog, epilog = parse(xml, lambda parent, name, tag: _read(Element if parent is not None else cls, parent, name, tag))
        root.prolog, root.epilog = prolog, epilog
        return root._copied() if cls is Element else root

    def __str__(self):
        return self.prolog + xml_render.render(self) + self.epilog

    def __repr__(self):
        return f"<{self.tag}>"

    # ---- reading ---------------------------------------------------------------------------------

    @property
    def name(self):
        """The name, with the prefix that libvirt documents for its namespace."""
        prefix, local = split_name(self.written_name)
        canonical = NAMESPACES.get(self._bound_uri(prefix))
        return self.written_name if canonical is None else join_name(canonical, local)

    def attr(self, name):
        """An attribute's value, or None."""
        found = self._attribute(name)
        return None if found is None else unescape(found.raw(self.tag), True)

    @property
    def attributes(self):
        """All attributes, as a dict."""
        return {one.name: unescape(one.raw(self.tag), True) for one in self._attributes()}

    @property
    def text(self):
        """The element's own character data, not its children's. Assigning to it leaves children and comments."""
        return "".join(_plain(node) for node in self.nodes if _is_text(node))

    @property
    def children(self):
        """The child elements, in document order."""
        return [node for node in self.nodes if isinstance(node, Element)]

    def child(self, name):
        """The first child of a name, or None."""
        return next((child for child in self.children if child.name == name), None)

    def find(self, path):
        """The first element that a path selects, or None. One that ends in an attribute selects elements that have it."""
        return next(paths.select(path, self), None)

    def find_all(self, path):
        """All elements that a path selects, in document order."""
        return list(paths.select(path, self))

    def value(self, path):
        """The first value that a path selects, an attribute's or an element's text, or None."""
        return paths.value(path, self)

    # ---- editing ---------------------------------------------------------------------------------

    @text.setter
    def text(self, text):
        text = _as_text(text, "text")
        if self.text == text:
            return
        keeps_layout = bool(self.children)
        own = [at for at, node in enumerate(self.nodes) if _is_text(node) and not (keeps_layout and _is_layout(node))]
        at = own[0] if own else 0
        self.nodes = [node for index, node in enumerate(self.nodes) if index not in own]
        if text:
            self.nodes.insert(at, (TEXT, escape(text)))
        self._touch()

    def set_attr(self, name, value):
        """Sets an attribute, in place if there is one of this name. Returns the element."""
        if not is_name(name):
            raise ValueError(f"`{name}` is not a name of an attribute")
        value, found = _as_text(value, name), self._attribute(name)
        if found is not None:
            if unescape(found.raw(self.tag), True) != value:
                raw = escape(value, self.tag[found.end - 1])
                self.tag = self.tag[: found.raw_begin] + raw + self.tag[found.end - 1 :]
                self._touch()
            return self
        at, quote, present = len(self.written_name), "'", self._attributes()
        if present:
            at = present[-1].end
            quote = self.tag[at - 1]
        self.tag = f"{self.tag[:at]} {name}={quote}{escape(value, quote)}{quote}{self.tag[at:]}"
        self._touch()
        return self

    def remove_attr(self, name):
        """Removes an attribute, and returns whether it was there."""
        found = self._attribute(name)
        if found is None:
            return False
        self.tag = self.tag[: found.begin].rstrip(" \t\r\n") + self.tag[found.end :]
        self._touch()
        return True

    def append(self, child):
        """Adds a child (an `Element`, or XML) after the last one, and returns it."""
        at = len(self.nodes)
        return self._place(at - 1 if at and _is_layout(self.nodes[at - 1]) else at, child)

    def insert_before(self, sibling, child):
        """Adds a child (or XML) before the first one named sibling, or as the last one. Returns the child."""
        for at, node in enumerate(self.nodes):
            if isinstance(node, Element) and node.name == sibling:
                return self._place_before(at, child)
        return self.append(child)

    def insert_after(self, sibling, child):
        """Adds a child (or XML) after the last one named sibling, or as the last one. Returns the child."""
        for at in reversed(range(len(self.nodes))):
            if isinstance(self.nodes[at], Element) and self.nodes[at].name == sibling:
                return self._place(at + 1, child)
        return self.append(child)

    def ensure_child(self, name):
        """The first child of a name, added as the last one if there is none."""
        child = self.child(name)
        return self.append(Element(name)) if child is None else child

    def delete(self):
        """Removes the element, with its line, from the element around it."""
        parent, self.parent = self.parent, None
        if parent is None:
            return
        at = next(at for at, node in enumerate(parent.nodes) if node is self)
        begin = at - 1 if at and _is_layout(parent.nodes[at - 1]) else at
        del parent.nodes[begin : at + 1]
        if all(_is_layout(node) for node in parent.nodes):
            parent.nodes = []
        parent._touch()

    def ensure(self, path):
        """The element that a path selects. Missing elements are made so that the path selects them:
        sysinfo[@type='smbios']/baseBoard adds a <sysinfo type='smbios'>."""
        return paths.ensure(path, self, Element)

    def set(self, path, value):
        """Sets the attribute or the text that a path selects. Missing elements are made."""
        paths.set_value(path, self, _as_text(value, path), Element)

    def set_if_absent(self, path, value):
        """The same unless there is a value; returns whether it was set."""
        absent = self.value(path) is None
        if absent:
            self.set(path, value)
        return absent

    def insert(self, parent, element):
        """Adds an element (or XML) to the one at a path, which is made if it is missing: where libvirt's schema wants
        it, else as the last child. Returns the element."""
        element = _as_element(element)
        place = self.ensure(parent) if parent else self
        order = order_of(place.name, element.name)
        return place.append(element) if order is None else place._insert_ordered(element, order)

    def insert_if_absent(self, path, element):
        """Adds an element (or XML) unless the path selects one, and returns whether it was added. The path must select
        what is added, so that a second run of the hook adds nothing."""
        if self.find(path) is not None:
            return False
        made = self.insert(parent_path(path), element)
        if self.find(path) is None:
            raise ValueError(f"`{path}` does not select {made}, which was added for it")
        return True

    def remove(self, path):
        """Removes everything that a path selects, with its lines, and returns how much that was."""
        return paths.remove(path, self)

    # ---- inside ----------------------------------------------------------------------------------

    def _touch(self):
        element = self
        while element is not None and not element.touched:
            element.touched = True
            element = element.parent

    def _attributes(self):
        return attributes(self.tag, len(self.written_name))

    def _attribute(self, name):
        return next((one for one in self._attributes() if one.name == name), None)

    def _insert_ordered(self, child, order):
        own, first = order.index(child.name), None
        for at in reversed(range(len(self.nodes))):
            node = self.nodes[at]
            if isinstance(node, Element) and node.name in order:
                if order.index(node.name) <= own:
                    return self._place(at + 1, child)
                first = at
        return self.append(child) if first is None else self._place_before(first, child)

    def _place_before(self, at, child):
        return self._place(at - 1 if at and _is_layout(self.nodes[at - 1]) else at, child)

    def _place(self, at, child):
        child = _as_element(child)
        child.delete()
        child.parent, child.aligned = self, True
        self.nodes.insert(at, child)
        self._touch()
        child._adopt_prefixes()
        return child

    def _copied(self):
        made = Element(self.written_name, self.attributes)
        if any(_is_text(node) and not _is_layout(node) for node in self.nodes):
            made.text = "".join(_plain(node) for node in self.nodes if _is_text(node) and not _is_layout(node))
        for child in self.children:
            made.append(child._copied())
        return made

    def _bound_uri(self, prefix):
        """The namespace that a prefix stands for inside of the element, or None."""
        element = self
        while element is not None:
            if "xmlns" in element.tag:
                for one in element._attributes():
                    if declared_prefix(one.name) == prefix:
                        return unescape(one.raw(element.tag), True)
            element = element.parent
        return None

    def _prefix_of(self, uri):
        """The innermost prefix that stands for a namespace, or None."""
        element = self
        while element is not None:
            for one in element._attributes():
                declared = declared_prefix(one.name)
                if declared is not None and unescape(one.raw(element.tag), True) == uri and self._bound_uri(declared) == uri:
                    return declared
            element = element.parent
        return None

    def _adopt_prefixes(self):
        """Renames inserted elements to the prefixes of the document. They were written with canonical ones."""
        prefix, local = split_name(self.written_name)
        uri = URIS.get(prefix)
        if uri and self.made and self._bound_uri(prefix) is None:
            own = self._prefix_of(uri)
            if own is not None:
                name = join_name(own, local)
                self.tag = name + self.tag[len(self.written_name) :]
                self.written_name = name
        for child in self.children:
            child._adopt_prefixes()


def _read(kind, parent, name, tag):
    element = kind.__new__(kind)
    Element.__init__(element, name)
    element.parent, element.tag = parent, tag
    element.touched = element.made = False
    return element


def _is_text(node):
    return not isinstance(node, Element) and node[0] in (TEXT, CDATA)


def _is_layout(node):
    return not isinstance(node, Element) and node[0] == TEXT and is_blank(node[1])


def _as_element(given):
    """An element to insert."""
    if isinstance(given, str):
        return Element.parse(given)
    if not isinstance(given, Element):
        raise TypeError(f"what is inserted is an Element or XML, and not {_kind(given)}: Element.parse(\"<NAME .../>\")")
    return given


def _as_text(value, what):
    """Numbers are written as Python prints them. None, an annotation that is not there, would be the text `None`, and
    libvirt knows no `True`."""
    if value is None:
        raise TypeError(f"`{what}` cannot be None; remove what should not be there")
    if isinstance(value, bool):
        raise TypeError(f'`{what}` cannot be {value}: libvirt\'s switches are texts, "yes" and "no" or "on" and "off"')
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"`{what}` is a text or a number, and not {_kind(value)}")
    return str(value)


def _kind(value):
    return "None" if value is None else f"a value of the type {type(value).__name__}"


def _plain(node):
    kind, raw = node
    if kind == CDATA:
        return raw[9:-3].replace("\r\n", "\n").replace("\r", "\n")
    return unescape(raw)
