"""Facts about the pod in which the virtual machine runs: annotations, labels, networks.

A hook that imports this names what it reads in `pod_facts`, as `annotations/KEY`, `labels/KEY`,
`network-status/NAMESPACE/NAME`, `default-network` and `network-info`, with `*` for any characters; the
operator's policy allows it (`allow.pod`). The functions wait for a fact that is not there yet, some seconds
at most, and raise `FactError` if it does not come; with `wait=False` it is None, or an empty list.
"""

import json
import re
from types import SimpleNamespace

from .host import Native

try:
    import wit_world
    from componentize_py_types import Err
except ImportError:
    # A native test, which gives the facts to `virt_hook.testing.call`.
    pod = wit_world = None

if wit_world is not None:
    try:
        from wit_world.imports import pod
    except ImportError:
        # Without this, every fact of a real pod would be "not there".
        raise ImportError(
            "the world of this module does not import virt-hook:hooks/pod: write `from virt_hook import pod` in a source of the "
            "hook, or add `import virt-hook:hooks/pod@0.1.1;` to OPTIONAL in sdk/hook.mk"
        ) from None

_NETWORK_INFO = "kubevirt.io/network-info"
_NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"


class FactError(Exception):
    """A fact is not given. `kind` is denied, absent or unreadable; the text names the fact."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def annotation(key, wait=True):
    """The value of an annotation of the pod."""
    return _asked("annotation", key, wait)


def label(key, wait=True):
    """The value of a label of the pod."""
    return _asked("label", key, wait)


def networks(name, wait=True):
    """The networks with this name, NAMESPACE/NAME of a NetworkAttachmentDefinition, without NAMESPACE that of
    the virtual machine: objects with name, pod_interface, ips, mac, is_default and json."""
    return _asked("network_status", name, wait)


def default_network(wait=True):
    """The pod's default network, as one of `networks`."""
    return _asked("default_network", wait)


def network_info(wait=True):
    """KubeVirt's annotation kubevirt.io/network-info, parsed."""
    text = _asked("network_info", wait)
    return None if text is None else json.loads(text)


def _asked(function, *arguments):
    if pod is None:
        return _asked_natively(function, *arguments)
    try:
        return getattr(pod, function)(*arguments)
    except Err as error:
        kind = type(error.value).__name__.removeprefix("Error_").lower()
        raise FactError(kind, error.value.value) from None


def _asked_natively(function, *arguments):
    *key, wait = arguments
    name, found = _native_fact(function, *key)
    if Native.pod_facts is not None and not any(_fits(name, pattern) for pattern in Native.pod_facts):
        raise FactError("denied", f'{name} is not in the hook\'s pod_facts: add "{name}"')
    if not found and found != "" and wait:
        # In a test no fact arrives later, so that waiting is an error.
        raise FactError("absent", f"{name} is not there: give the test a pod with it")
    return found


def _fits(name, pattern):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _native_fact(function, key=None):
    """A fact's name, and the fact as the pod of the test has it."""
    annotations, labels = Native.pod.get("annotations", {}), Native.pod.get("labels", {})
    if function == "annotation":
        return f"annotations/{key}", annotations.get(key)
    if function == "label":
        return f"labels/{key}", labels.get(key)
    if function == "network_info":
        info = Native.pod.get("networkInfo", annotations.get(_NETWORK_INFO))
        return "network-info", info if info is None or isinstance(info, str) else json.dumps(info)
    status = Native.pod.get("networkStatus", annotations.get(_NETWORK_STATUS, "[]"))
    networks = [_network(entry) for entry in (json.loads(status) if isinstance(status, str) else status)]
    if function == "default_network":
        return "default-network", next((one for one in networks if one.is_default), None)
    if "/" not in key and "namespace" in Native.invocation:
        key = f"{Native.invocation['namespace']}/{key}"
    return f"network-status/{key}", [one for one in networks if one.name == key]


def _network(entry):
    return SimpleNamespace(
        name=entry["name"],
        pod_interface=entry.get("interface", ""),
        ips=entry.get("ips", []),
        mac=entry.get("mac", ""),
        is_default=entry.get("default", False),
        json=json.dumps(entry),
    )
