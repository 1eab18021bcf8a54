"""What the host tells a running hook. Natively it is what `virt_hook.testing` sets."""

try:
    from wit_world.imports import host as _host
except ImportError:
    _host = None


class Native:
    """The configuration and the facts that the host of native tests has."""

    config = {}
    invocation = {}
    pod = {}
    pod_facts = None
    logged = []


def config(key):
    """What `hook.yaml` configures for a key that the hook declares, or None."""
    return _host.config(key) if _host else Native.config.get(key)


def invocation(key):
    """A fact about this call (reason, hook-point, namespace, name, uid, domain, host), or None."""
    return _host.invocation(key) if _host else Native.invocation.get(key)


def log(message, level="info"):
    """A line for the log; level is debug, info, warn or error."""
    if _host:
        _host.log(_host.Level[level.upper()], message)
    else:
        Native.logged.append((level, message))
