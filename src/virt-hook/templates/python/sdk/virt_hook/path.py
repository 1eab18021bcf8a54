"""Paths, a small part of XPath:

/domain/devices/disk[target/@dev='vda']/driver/@queues    absolute: begins with the root
devices/interface[alias/@name='ua-default']               relative to the element asked
devices/controller[@type='scsi'][@index='0']              predicates all hold
os/boot[2]                                                the second <boot>
metadata/*/uid    qemu:commandline/qemu:*                 any name; any name of a namespace
/domain/sysinfo/baseBoard/**                              baseBoard and everything below it
"""

import re

from .xml_names import is_name

_WORD = re.compile("[^/\\[\\]@='\" \t\r\n]*")


class PathError(ValueError):
    """What is not a path, or a path that nothing can be made from."""


class _Predicate:
    """[2], [target/@dev] or [target/@dev='vda']."""

    def __init__(self, position=0):
        self.position, self.names, self.attribute, self.value = position, [], None, None

    def holds(self, element, position):
        return position == self.position if self.position else self._holds(element, self.names)

    def _holds(self, element, names):
        if names:
            return any(child.name == names[0] and self._holds(child, names[1:]) for child in element.children)
        found = element.text if self.attribute is None else element.attr(self.attribute)
        return found is not None and (self.value is None or found == self.value)


class _Step:
    """One level; "**" is any number of levels."""

    def __init__(self, name):
        self.name, self.predicates = name, []

    def holds(self, element, position):
        return all(predicate.holds(element, position) for predicate in self.predicates)


class _Path:
    def __init__(self, source):
        if not isinstance(source, str):
            raise TypeError(f"a path is a text, and not a value of the type {type(source).__name__}")
        self.source, self.at, self.steps, self.attribute = source, 0, [], None
        self.absolute = self._take("/")
        while True:
            if self._take("@"):
                self.attribute = self._name_test("the name of an attribute")
                break
            self.steps.append(self._step())
            if not self._take("/"):
                break
        if self.at < len(source):
            self._expected("`/`, `[` or the end of the path")
        if self.absolute and not self.steps:
            self._expected("the name of the root element before an attribute")

    def _expected(self, what):
        raise PathError(f"path `{self.source}`, column {self.at + 1}: expected {what}")

    def refuse(self, what):
        raise PathError(f"path `{self.source}`: {what}")

    def _take(self, token):
        found = self.source.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def _step(self):
        if self._take("**"):
            return _Step("**")
        step = _Step(self._name_test("the name of an element, `*`, `**` or `@`"))
        while self._take("["):
            step.predicates.append(self._predicate())
            if not self._take("]"):
                self._expected("`]`")
        return step

    def _name_test(self, what, exact=False):
        word = _WORD.match(self.source, self.at)[0]
        prefix = word[:-1] if word.endswith("*") and not exact else None
        valid = is_name(word) if prefix is None else not prefix or prefix.endswith(":") and is_name(prefix)
        if not valid:
            self._expected(what)
        self.at += len(word)
        return word

    def _predicate(self):
        digits = re.compile("[0-9]+").match(self.source, self.at)
        if digits:
            if int(digits[0]) < 1:
                self._expected("a position from 1")
            self.at = digits.end()
            return _Predicate(int(digits[0]))
        predicate = _Predicate()
        if not self._take("text()"):
            while True:
                if self._take("@"):
                    predicate.attribute = self._name_test("the name of an attribute", exact=True)
                    break
                predicate.names.append(self._name_test("a position, a name or `@`", exact=True))
                if not self._take("/"):
                    break
        if self._take("="):
            quote = self.source[self.at : self.at + 1]
            end = self.source.find(quote, self.at + 1) if quote in ("'", '"') else -1
            if end < 0:
                self._expected("a value in quotes")
            predicate.value = self.source[self.at + 1 : end]
            self.at = end + 1
        return predicate

    def closure(self, state):
        """Adds the states behind `**`, which also matches no level. A state is the steps behind which it is."""
        for at, step in enumerate(self.steps):
            if step.name == "**" and at in state:
                state.add(at + 1)
        return state

    def advance(self, state, child, counters):
        """The state inside of a child."""
        inside = set()
        for at in sorted(state):
            if at == len(self.steps):
                continue
            step = self.steps[at]
            if step.name == "**":
                inside.add(at)
            elif accepts(step.name, child.name):
                counters[at] = counters.get(at, 0) + 1
                if step.holds(child, counters[at]):
                    inside.add(at + 1)
        return self.closure(inside)

    def walk(self, element, state):
        selects = self.attribute is None or any(accepts(self.attribute, one) for one in element.attributes)
        if len(self.steps) in state and selects:
            yield element
        if state:
            counters = {}
            for child in element.children:
                yield from self.walk(child, self.advance(state, child, counters))

    def definite_steps(self, element):
        """The steps below an element, which all say what to make."""
        for step in self.steps:
            known = all(one.position == 0 and one.value is not None for one in step.predicates)
            if step.name.endswith("*") or not known:
                self.refuse("nothing can be made from it: name every element and give every predicate a value")
        self.check_root(element)
        return self.steps[1:] if self.absolute else self.steps

    def check_root(self, element):
        """Refuses an absolute path that begins with another element: it selects nothing in any document."""
        if self.absolute and self.steps[0].name != "**" and not accepts(self.steps[0].name, element.name):
            self.refuse(f"the element is <{element.written_name}>, not what the path begins with")


def accepts(test, name):
    return name.startswith(test[:-1]) if test.endswith("*") else test == name


def target(source):
    """The name of the attribute in which a path ends, or None, and whether it ends in `**`."""
    path = _Path(source)
    return path.attribute, path.attribute is None and path.steps[-1].name == "**"


def select(source, element):
    """The elements that a path selects, in document order."""
    path = _Path(source)
    path.check_root(element)
    state = path.closure({0})
    return path.walk(element, path.advance(state, element, {}) if path.absolute else state)


def value(source, element):
    """The first value that a path selects, or None."""
    found = next(select(source, element), None)
    attribute = _Path(source).attribute
    if found is None or attribute is None:
        return None if found is None else found.text
    return next(value for name, value in found.attributes.items() if accepts(attribute, name))


def ensure(source, element, make):
    """The element that a path selects; missing ones are made by make(name)."""
    path = _Path(source)
    if path.attribute is not None:
        path.refuse("it selects an attribute, but an element is wanted")
    return _ensure(path, element, make)


def set_value(source, element, value, make):
    """Sets the attribute or the text that a path selects."""
    path = _Path(source)
    if path.attribute is None:
        _ensure(path, element, make).text = value
    elif path.attribute.endswith("*"):
        path.refuse("nothing can be made from `*`")
    else:
        _ensure(path, element, make).set_attr(path.attribute, value)


def remove(source, element):
    """Removes everything that a path selects, and returns how much that was."""
    path, removed = _Path(source), 0
    for found in reversed(list(select(source, element))):
        if path.attribute is not None:
            removed += sum(found.remove_attr(name) for name in found.attributes if accepts(path.attribute, name))
        elif found is not element:
            found.delete()
            removed += 1
    return removed


def _ensure(path, element, make):
    for step in path.definite_steps(element):
        found = next((one for one in element.children if one.name == step.name and step.holds(one, 0)), None)
        element = element.append(_made(step, make)) if found is None else found
    return element


def _made(step, make):
    made = make(step.name)
    for predicate in step.predicates:
        place = made
        for name in predicate.names:
            place = place.ensure_child(name)
        if predicate.attribute is None:
            place.text = predicate.value
        else:
            place.set_attr(predicate.attribute, predicate.value)
    return made
