"""Calls a hook point, and refuses mistakes that would go unnoticed."""

from difflib import get_close_matches

from .hook import Hook, Veto

POINTS = [name for name, member in vars(Hook).items() if callable(member)]
ATTRIBUTES = [name for name, member in vars(Hook).items() if not name.startswith("_") and name not in POINTS]
# What the description and the case files call these attributes.
OTHER_NAMES = {"config": "config_keys", "dirs": "directories", "directory": "directories", "pod": "pod_facts"}


class HookError(TypeError):
    """A mistake in how a hook is written. The text has the place."""


def call_hook_point(hook, name, *arguments):
    """Calls a hook point. Its work is what it does to its arguments: a result would be lost."""
    method = getattr(hook, name)
    result = method(*arguments)
    if result is None:
        return
    code = getattr(method, "__code__", None)
    place = f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})" if code else ""
    raise HookError(f"{name} {_mistake(result)}{place}")


def _mistake(result):
    kind = type(result).__name__
    if isinstance(result, Veto):
        return "returned a Veto: raise it"
    if kind in ("coroutine", "async_generator"):
        getattr(result, "close", lambda: None)()
        return "is `async`, and nothing awaits it: define it with `def` alone"
    if kind == "generator":
        return "has a `yield`, so that nothing of it runs: leave that out"
    return f"returned a {kind}, which nobody reads: change the arguments in place, and return nothing"


def check_members(hook):
    """Refuses a member that looks like a hook point or an attribute of `Hook` with another name."""
    own = {name: member for base in reversed(hook.__mro__) if base not in Hook.__mro__ for name, member in vars(base).items()}
    for name, member in own.items():
        if name.startswith("_") or hasattr(Hook, name):
            continue
        is_method = callable(member)
        meant = _meant(name, [one for one in (POINTS if is_method else ATTRIBUTES) if one not in own])
        if meant:
            kind = "hook point" if is_method else "attribute of a hook"
            raise HookError(
                f"{hook.__name__}.{name} is no {kind}: is {meant} meant? A member of the hook's own needs another name, "
                f"such as _{name}"
            )


def _meant(name, known):
    if OTHER_NAMES.get(name) in known:
        return OTHER_NAMES[name]
    plain = {one.replace("_", ""): one for one in known}
    close = get_close_matches(name.replace("_", "").lower(), plain, 1, 0.8)
    return plain[close[0]] if close else None
