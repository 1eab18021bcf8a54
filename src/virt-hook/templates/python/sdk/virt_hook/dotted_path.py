"""Paths into JSON, as the SDKs in Rust and Go have them."""

import re

from .path import PathError

_NAME = re.compile(r"[^.\[]+")
_QUOTED = re.compile(r"\[(?:'([^']*)'|\"([^\"]*)\")\]")
_SELECTOR = re.compile(r"\[([^\]]*)\]")


def value_at(value, path, default=None):
    """The value at a path; the default for one that is missing or null."""
    for select in _steps(path):
        value = select(value)
        if value is None:
            return default
    return value


def _steps(path):
    steps, at = [], 0
    while at < len(path):
        quoted = _QUOTED.match(path, at)
        selector = None if path.startswith(("['", '["'), at) else _SELECTOR.match(path, at)
        if quoted:
            steps.append(_member(quoted[1] if quoted[1] is not None else quoted[2]))
            at = quoted.end()
        elif selector:
            steps.append(_selected(path, selector[1]))
            at = selector.end()
        else:
            if steps:
                if path[at] != ".":
                    _refuse(path)
                at += 1
            name = _NAME.match(path, at)
            if not name:
                _refuse(path)
            steps.append(_member(name[0]))
            at = name.end()
    return steps


def _refuse(path):
    raise PathError(f"path `{path}`: names joined by dots, [0], ['a.b'] or [name=root] are expected")


def _member(name):
    return lambda value: value.get(name) if isinstance(value, dict) else None


def _selected(path, selector):
    """[0] or [name=root]."""
    name, equals, wanted = selector.partition("=")
    if equals:
        wanted = wanted.strip("'\"")
        return lambda value: _item(value, lambda item: isinstance(item, dict) and item.get(name) == wanted)
    if not (selector.isascii() and selector.isdecimal()):
        _refuse(path)
    index = int(selector)
    return lambda value: value[index] if isinstance(value, list) and index < len(value) else None


def _item(value, fits):
    return next((item for item in value if fits(item)), None) if isinstance(value, list) else None
