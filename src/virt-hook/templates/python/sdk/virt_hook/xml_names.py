"""Names of XML. Look-ups use canonical names: the prefix of libvirt's documentation, whatever prefix the
document declares for that namespace. KubeVirt's metadata has a default namespace, so that its canonical prefix is empty."""

import re

_START = "a-zA-Z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\ufffc\U00010000-\U0010ffff"
NAME = f"[{_START}][{_START}0-9.\u00b7-]*"
_NAME = re.compile(NAME)

NAMESPACES = {
    "http://libvirt.org/schemas/domain/qemu/1.0": "qemu",
    "http://libvirt.org/schemas/domain/lxc/1.0": "lxc",
    "http://libvirt.org/schemas/domain/bhyve/1.0": "bhyve",
    "http://libvirt.org/schemas/domain/xen/1.0": "xen",
    "http://libosinfo.org/xmlns/libvirt/domain/1.0": "libosinfo",
    "http://kubevirt.io": "",
}
URIS = {prefix: uri for uri, prefix in NAMESPACES.items() if prefix}


def is_name(name):
    return _NAME.fullmatch(name) is not None


def split_name(name):
    prefix, colon, local = name.partition(":")
    return (prefix, local) if colon else ("", name)


def join_name(prefix, local):
    return f"{prefix}:{local}" if prefix else local


def declared_prefix(attribute):
    """q for xmlns:q, "" for xmlns, None for anything else."""
    if attribute == "xmlns":
        return ""
    return attribute[6:] if attribute.startswith("xmlns:") else None
