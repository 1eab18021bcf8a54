"""Edits YAML in its text form: parsing and rendering would lose comments, quoting and order. An edit that is not safe
in the text form is refused. JSON is YAML, so values are written as JSON."""

import json
import re

from .yaml_lines import Scope, below, depth, end_of_value, goes_on, is_idle, split_key, value_close, value_end, value_items, value_text

_PLAIN_KEY = re.compile("[A-Za-z_][A-Za-z0-9_./-]*")
_KEY_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_NO_TEXT = _KEY_WORDS | {"", "~"}
_ODD_LINE = ("{", "[", "%", "!", "|", ">", '"', "'", "&", "*", "?")


class CloudInitError(ValueError):
    """Why a text cannot be edited as YAML or as #cloud-config, or why a file cannot be added. The text is unchanged."""


class Yaml:
    """A YAML document whose top level is a mapping. Comments and everything that is not edited are kept. Paths are names
    joined by dots, ['a.b/c'] for a name with dots or slashes."""

    def __init__(self, text=""):
        self._line_end = "\r\n" if text.split("\n", 1)[0].endswith("\r") else "\n"
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        self._lines = [line.removesuffix("\r") for line in lines]

    def __str__(self):
        return "".join(line + self._line_end for line in self._lines)

    def contains(self, path):
        """Whether the key exists."""
        return self._look(path) is not None

    def text(self, path):
        """The text or number of the key; None if it is missing or has another kind of value."""
        found = self._look(path)
        return None if found is None else value_text(self._written(found[0]))

    def keys(self, path=""):
        """The keys of the mapping at the path, or of the document."""
        scope = self._top()
        if path:
            found = self._look(path)
            kind, scope = below(self._lines, found[0][0], found[1].indent) if found else ("", None)
            scope = scope if kind == "mapping" else None
        return [key for _, key, _ in self._entries(scope)] if scope else []

    def set(self, path, value):
        """Sets the key to this value. Adds the key and its parents if they are missing. The same value again changes
        nothing, not even the quotes."""
        *above, name = _names(path)
        scope = self._ensure(above)
        found = self._find(scope, name)
        if found is None:
            self._may_end(scope, name)
            self._lines[scope.end : scope.end] = _entry(name, value, scope.indent)
            return
        self._is_free(found, name)
        line, begin = found
        written, end = self._written(found), end_of_value(self._lines, line, scope.indent)
        if end == line + 1 and _is(written, value):
            return
        entry = _entry(name, value, scope.indent)
        if len(entry) == 1:
            # The key stays as it was written, and the comment behind it.
            key, stop = self._lines[line][:begin], value_end(written)
            comment = "" if stop is None else written[stop:]
            entry = [f"{key}{'' if key.endswith(' ') else ' '}{_json(value)}{comment}"]
        self._lines[line:end] = entry

    def add(self, path, item):
        """Adds an item to the list at the key, unless the list has it: a text or number in whatever notation, anything
        else as an earlier call wrote it. Adds the key if it is missing."""
        self._add(path, item, _json(item), lambda indent: _item(item, indent))

    def add_word(self, path, word):
        """The same for a word, written without quotes."""
        self._add(path, word, word, lambda indent: [f"{' ' * indent}- {word}"])

    def remove(self, path):
        """Removes the key and its value. Returns whether it existed."""
        found = self._look(path)
        if found is None:
            return False
        self._is_free(found[0], path)
        line = found[0][0]
        del self._lines[line : end_of_value(self._lines, line, found[1].indent)]
        return True

    def _add(self, path, item, flow, block):
        *above, name = _names(path)
        scope = self._ensure(above)
        found = self._find(scope, name)
        if found is None:
            self._may_end(scope, name)
            added = [f"{' ' * scope.indent}{_key(name)}:", *block(scope.indent + 2)]
            self._lines[scope.end : scope.end] = added
            return
        line = found[0]
        refused = CloudInitError(f"line {line + 1}: {name} is not a list that an item can be added to")
        if not is_idle(self._written(found)):
            if not self._add_to_flow(found, item, flow):
                raise refused
            return
        kind, items = below(self._lines, line, scope.indent)
        if kind == "nothing":
            items = Scope(line + 1, line + 1, scope.indent + 2)
        elif kind != "list":
            raise refused
        added = block(items.indent)
        there = self._lines[items.begin : items.end]
        dash = " " * items.indent + "- "
        for at, line in enumerate(there):
            is_item = line.startswith(dash) and _is_item(line.removeprefix(dash), item)
            if is_item and not goes_on(there[at + 1 :], items.indent):
                return
        if not any(there[at : at + len(added)] == added for at in range(len(there))):
            self._lines[items.end : items.end] = added

    def _add_to_flow(self, found, item, flow):
        """`key: [a, b]` on one line."""
        line, begin = found
        written = self._written(found)
        end = value_end(written)
        items = written[:end] if end is not None else ""
        if not items.startswith("[") or not items.endswith("]") or value_close(items) != len(items) - 1:
            return False
        if not any(_is_item(written, item) for written in value_items(items[1:-1])):
            inside, close = items[1:-1].strip(), begin + len(items) - 1
            # YAML allows a comma after the last item, and no second one.
            separator = "" if not inside else " " if inside.endswith(",") else ", "
            text = self._lines[line]
            self._lines[line] = text[:close] + separator + flow + text[close:]
        return True

    def _written(self, found):
        return self._lines[found[0]][found[1] :]

    def _top(self):
        return Scope(0, len(self._lines), 0)

    def _look(self, path):
        """The line of a key and where its value begins, and the mapping that it is in; or None."""
        scope, found, key = self._top(), None, None
        for name in _names(path):
            if found is not None:
                scope = self._mapping(found, scope, key)
                if scope is None:
                    return None
            found, key = self._find(scope, name), name
            if found is None:
                return None
        return found, scope

    def _ensure(self, names):
        """The mapping at a path of keys, which are added where they are missing."""
        scope = self._top()
        for at, name in enumerate(names):
            found = self._find(scope, name)
            if found is None:
                self._may_end(scope, name)
                for missing in names[at:]:
                    self._lines.insert(scope.end, f"{' ' * scope.indent}{_key(missing)}:")
                    scope = Scope(scope.end + 1, scope.end + 1, scope.indent + 2)
                return scope
            found = self._open(found)
            empty = Scope(found[0] + 1, found[0] + 1, scope.indent + 2)
            scope = self._mapping(found, scope, name) or empty
        return scope

    def _open(self, found):
        """Replaces `key: {}` by `key:`."""
        line, begin = found
        text, end = self._lines[line], value_end(self._written(found))
        if end is None or text[begin : begin + end] != "{}":
            return found
        rest = text[begin + end :]
        self._lines[line] = text[:begin].rstrip() + rest
        # What is left there, if anything, is a comment.
        return line, len(self._lines[line]) - len(rest.lstrip())

    def _mapping(self, found, scope, key):
        """The mapping of a key; None if it has no value."""
        kind, inside = below(self._lines, found[0], scope.indent)
        if not is_idle(self._written(found)) or kind not in ("nothing", "mapping"):
            raise CloudInitError(f"line {found[0] + 1}: {key} is not a mapping that a key can be added to")
        return inside

    def _find(self, scope, name):
        found = [(line, begin) for line, key, begin in self._entries(scope) if key == name]
        if len(found) > 1:
            raise CloudInitError(f"the key {name} is there twice")
        return found[0] if found else None

    def _entries(self, scope):
        """Line, key and the place of the value of each entry."""
        for line in range(scope.begin, scope.end):
            text = self._lines[line]
            entry = split_key(text[scope.indent :]) if depth(text) == scope.indent else None
            if entry:
                yield line, entry[0], scope.indent + entry[1]

    def _is_free(self, found, key):
        """Anchors, aliases and tags tie a value to others."""
        if self._written(found).startswith(("&", "*", "!")):
            raise CloudInitError(f"line {found[0] + 1}: {key} has an anchor, an alias or a tag and is not replaced")

    def _may_end(self, scope, key):
        """A key can be added at the top level only if the text ends with its only mapping."""
        if scope != self._top():
            return
        idle = True
        for at, line in enumerate(self._lines):
            begins = line.rstrip() == "---" and idle
            odd = line.startswith(_ODD_LINE) and split_key(line) is None or line.startswith(("---", "..."))
            if odd and not begins:
                raise CloudInitError(f"line {at + 1}: {key} is not a mapping that a key can be added to")
            idle = idle and is_idle(line)


def _names(path):
    """The names of a path, of which there is at least one."""
    found, at = [], 0
    step = re.compile(r"""\[(?:'([^']*)'|"([^"]*)")\]|(?:^|\.|(?<=^))([^.\[\]]+)""")
    while at < len(path):
        one = step.match(path, at)
        if one is None or (at == 0 and path.startswith(".")):
            break
        found.append(next(name for name in one.groups() if name is not None))
        at = one.end()
    slash = "/" in path and "'" not in path and '"' not in path
    if at < len(path) or not found or slash:
        raise CloudInitError(f"`{path}` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']")
    return found


def _json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _key(name):
    """A key, quoted if YAML would parse it differently."""
    return name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _KEY_WORDS else _json(name)


def _item(item, indent):
    """An item of a block list."""
    pad = " " * indent
    if not isinstance(item, dict) or not item:
        return [f"{pad}- {_json(item)}"]
    return [f"{pad}{'  ' if at else '- '}{_key(name)}: {_json(value)}" for at, (name, value) in enumerate(item.items())]


def _entry(name, value, indent):
    """An entry of a block mapping, with a line for each part of the value."""
    inside = []
    if isinstance(value, dict):
        inside = [line for key, one in value.items() for line in _entry(key, one, indent + 2)]
    elif isinstance(value, list):
        inside = [line for one in value for line in _item(one, indent + 2)]
    head = f"{' ' * indent}{_key(name)}:"
    return [head, *inside] if inside else [f"{head} {_json(value)}"]


def _is_item(written, value):
    """Whether the written item of a list has this value."""
    is_mapping = not written.startswith(('"', "'")) and ": " in written
    return _is(written, value) and not (is_mapping and isinstance(value, str))


def _is(written, value):
    """Whether the written scalar already has this value."""
    written = written[: value_end(written)]
    quoted = written.startswith(('"', "'"))
    if not isinstance(value, str):
        return not quoted and written == _json(value)
    means_no_text = written.lower() in _NO_TEXT or written[:1].isdigit() or written.startswith((".", "-", "+", "<", "="))
    return (quoted or not means_no_text) and value_text(written) == value
