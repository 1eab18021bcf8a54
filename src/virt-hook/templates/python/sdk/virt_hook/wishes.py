"""Whether a hook declares what it changes and reads: the part of the host's rules that native tests check.

A change of the domain needs an entry of the hook's `paths` that covers it: an attribute's path its value, an element's
path the element with its text and attributes, one that ends in `**` all of these and what is inside. An element without
attributes and text is covered by what is in it. The host besides checks the conditions of paths and that a new parent is
nothing but a container, and refuses wildcards for what is dangerous, predicates that fit several siblings, and another
order of children: the cases find that.
"""

from . import path as paths


# What a wish for a path with conditions has.
CONDITIONS = ("path", "below", "one-of", "matches", "at-most")


class NotDeclared(AssertionError):
    """What the host would refuse, because the hook does not declare it."""


def check_paths(patterns, before, after):
    """Refuses a difference of two documents, given by their roots, that no pattern covers."""
    old, new = _nodes(before), _nodes(after)
    for nodes, others, root in ((new, old, after), (old, new, before)):
        covers = _coverage(patterns, root)
        for node, holders in nodes.items():
            surplus = len(holders) - len(others.get(node, ()))
            if surplus > 0 and sum(map(covers(node), holders)) < surplus:
                raise NotDeclared(_refusal(node, nodes, others))


def check_names(kind, attribute, declared, used):
    """Refuses a name that is used and that the hook does not declare in an attribute."""
    for name in used:
        if name not in declared:
            raise NotDeclared(f'the hook does not declare the {kind} {name}, so that the host refuses it: {attribute} = ["{name}"]')


def _nodes(root):
    """The elements of a document that have something, by what it is: the element itself, an attribute, a text."""
    found, pending = {}, [(f"/{root.name}", root)]
    while pending:
        path, element = pending.pop()
        parts = [("", "")]
        parts += [("@" + name, value) for name, value in element.attributes.items() if not name.startswith("xmlns")]
        if element.text.strip():
            parts.append(("text", element.text.strip()))
        for part, value in parts:
            found.setdefault((path, part, value), []).append(element)
        pending += [(f"{path}/{child.name}", child) for child in reversed(element.children)]
    return found


def _coverage(patterns, root):
    """A function: from a part to a function that tells whether a pattern covers it on an element."""
    selected = []
    for pattern in patterns:
        path = _path(pattern)
        attribute, everything = paths.target(path)
        # A path that ends in * covers elements alone.
        everything = everything or (attribute is None and not path.endswith("*"))
        selected.append((attribute, everything, {id(element) for element in paths.select(path, root)}))

    def covers(node):
        _, part, _ = node

        def on(element):
            if not part and _is_bare_parent(element):
                return True
            for attribute, everything, elements in selected:
                if id(element) not in elements:
                    continue
                if everything or (attribute is None and not part.startswith("@")):
                    return True
                if attribute is not None and part.startswith("@") and paths.accepts(attribute, part[1:]):
                    return True
            return False

        return on

    return covers


def _path(wish):
    """The path of a wish, without its conditions."""
    if isinstance(wish, str):
        return wish
    unknown = [name for name in wish if name not in CONDITIONS]
    if unknown or "path" not in wish or len(wish) < 2:
        raise NotDeclared(f"{wish!r} is no path with conditions: it has path, and at least one of {', '.join(CONDITIONS[1:])}")
    return wish["path"]


def _is_bare_parent(element):
    """Whether an element is there for its children alone."""
    return bool(element.children) and not element.attributes and not element.text.strip()


def _refusal(node, nodes, others):
    path, part, value = node
    own = path + ("/" + part if part.startswith("@") else "")
    wish, steps = own, path.split("/")
    # An element that comes or goes with attributes or children is covered as a whole.
    for count in range(2, len(steps) + 1):
        top = ("/".join(steps[:count]), "", "")
        if len(nodes[top]) > len(others.get(top, ())):
            inside = [one for one in nodes if one[0] == top[0] and one[1].startswith("@") or one[0].startswith(top[0] + "/")]
            wish = top[0] + ("/**" if inside else "")
            break
    shown = f" ({value!r})" if value else ""
    return f'the hook changes {own}{shown}, which none of its paths covers, so that the host denies it: paths = ["{wish}"]'
