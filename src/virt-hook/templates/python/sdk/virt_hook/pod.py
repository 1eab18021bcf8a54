"""Facts about the pod in which the virtual machine runs: annotations, labels, networks.

A hook that imports this names what it reads in `pod_facts`, as `annotations/KEY`, `labels/KEY`,
`network-status/NAMESPACE/NAME`, `default-network` and `network-info`, with `*` for any characters; the
operator's policy allows it (`allow.pod`). The functions wait for a fact that is not there yet, some seconds
at most, and raise `FactError` if it does not come; with `wait=False` it is None, or an empty list.
"""

import json

try:
    from componentize_py_types import Err
    from wit_world.imports import pod
except ImportError:
    # A native test: there is no pod.
    pod = None


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
        raise FactError("absent", "natively there is no pod: the cases have one")
    try:
        return getattr(pod, function)(*arguments)
    except Err as error:
        kind = type(error.value).__name__.removeprefix("Error_").lower()
        raise FactError(kind, error.value.value) from None
