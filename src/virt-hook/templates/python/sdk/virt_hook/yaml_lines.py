"""Finds keys and their values in the lines of a YAML text."""

import json
from typing import NamedTuple


class Scope(NamedTuple):
    """Lines that hold the entries of a block mapping or list (end is behind the last), and their indentation."""

    begin: int
    end: int
    indent: int


def depth(line):
    return len(line) - len(line.lstrip(" "))


def is_idle(line):
    text = line.strip()
    return not text or text.startswith("#")


def goes_on(after, indent):
    """Whether the item of a list at `indent` goes on in the lines after its first."""
    line = next((line for line in after if not is_idle(line)), None)
    return line is not None and depth(line) > indent


def _is_item(line):
    text = line.lstrip(" ")
    return text.startswith("- ") or text.rstrip() == "-"


def below(lines, key, indent):
    """What is below a key that stands on line `key` at `indent`: "nothing", "list", "mapping" or "other", a multi-line
    text or no YAML; and the scope of a list or mapping."""
    begin = next((at for at in range(key + 1, len(lines)) if not is_idle(lines[at])), None)
    if begin is None:
        return "nothing", None
    own, is_list = depth(lines[begin]), _is_item(lines[begin])
    if own < indent or (own == indent and not is_list):
        return "nothing", None
    if not is_list and split_key(lines[begin][own:]) is None:
        return "other", None
    end = begin + 1
    for at in range(begin + 1, len(lines)):
        line, here = lines[at], depth(lines[at])
        if not line.strip() or (is_idle(line) and here <= own):
            continue
        # A list may have the same indentation as its key.
        if here > own or (here == own and (not is_list or _is_item(line))):
            end = at + 1
        elif here <= indent:
            break
        else:
            return "other", None
    return "list" if is_list else "mapping", Scope(key + 1, end, own)


def end_of_value(lines, key, indent):
    """The line behind the value of the key on line `key`, whatever the value is."""
    _, scope = below(lines, key, indent)
    if scope:
        return scope.end
    end = key + 1
    for at in range(key + 1, len(lines)):
        if not lines[at].strip():
            continue
        if depth(lines[at]) <= indent:
            break
        end = at + 1
    return end


def split_key(line):
    """The key that a line without its indentation begins with, unquoted, and where its value begins; or None."""
    first = line[:1]
    if first in ("'", '"') and first:
        key, found, rest = line[1:].partition(first)
        if not found:
            return None
    elif not first or first in "#[{&*!|>%@`?" or line == "-" or line.startswith(("- ", "-\r")):
        return None
    else:
        at = next((at for at, c in enumerate(line) if c == ":" and line[at + 1 : at + 2] in ("", " ", "\t", "\r")), None)
        if at is None:
            return None
        key, rest = line[:at].rstrip(), line[at:]
    rest = rest.lstrip(" ")
    if not rest.startswith(":") or rest[1:2] not in ("", " ", "\t", "\r"):
        return None
    return key, len(line) - len(rest[1:].lstrip())


class _Scan:
    """Open quotes and brackets."""

    def __init__(self):
        self.depth, self.quote, self.escaped, self.closed = 0, None, False, False

    def step(self, at, c):
        if self.quote == '"' and c == "\\" and not self.escaped:
            self.escaped = True
            return
        # A single quote has just closed; another one makes the two a quoted quote.
        closed, self.closed = self.closed, False
        if self.quote:
            if c == self.quote and not self.escaped:
                self.closed, self.quote = c == "'", None
        elif c == "'" and closed:
            self.quote = c
        # Inside a plain text, quotes and brackets have no meaning.
        elif at == 0 or self.depth > 0:
            if c in "'\"":
                self.quote = c
            elif c in "[{":
                self.depth += 1
            elif c in "]}":
                self.depth = max(self.depth - 1, 0)
        self.escaped = False

    def is_over(self):
        return self.quote is None and self.depth == 0


def value_end(text):
    """Where a value that begins a text ends, without the white space and the comment behind it; None when it does not
    end here."""
    scan, before = _Scan(), " "
    for at, c in enumerate(text):
        if c == "#" and scan.quote is None and before.isspace():
            return len(text[:at].rstrip()) if scan.is_over() else None
        scan.step(at, c)
        before = c
    return len(text.rstrip()) if scan.is_over() else None


def value_close(text):
    """Where the bracket closes that a flow list or mapping begins with."""
    scan = _Scan()
    for at, c in enumerate(text):
        scan.step(at, c)
        if scan.is_over():
            return at
    return None


def value_items(inside):
    """The items of a flow list on one line, given what is between its brackets."""
    # As within brackets, where quotes count anywhere.
    scan, items, begin = _Scan(), [], 0
    scan.depth = 1
    for at, c in enumerate(inside):
        scan.step(at, c)
        if c == "," and scan.depth == 1 and scan.quote is None:
            items.append(inside[begin:at].strip())
            begin = at + 1
    return [*items, inside[begin:].strip()]


def value_text(value):
    """The text of a plain or quoted value on one line, or None."""
    value = value[: value_end(value)] if value_end(value) is not None else ""
    if value.startswith('"'):
        try:
            return json.loads(value)
        except ValueError:
            return None
    if value.startswith("'"):
        return value[1:-1].replace("''", "'") if len(value) > 1 and value.endswith("'") else None
    return None if not value or value[0] in "[{&*!|>" else value
