"""What a hook in Python is written with.

A hook is a class that derives from `Hook` and has the methods it wants of the hook points; the last line of
its file makes the component's export of it: `Handler = export(MyHook)`. With `on_attach_device` it has one
more line, `AttachDevice = export_attach_device(MyHook)`.

Every call gets a fresh sandbox with the module as it was when it was built: imports at the top of a
file cost nothing at run time, and nothing that is kept in a variable lives on. There is no network, no
clock, and no file that is not granted.
"""

import json
from xml.dom import minidom

# minidom imports its parser when it is first used, and a running hook has no files to import from.
from xml.dom import expatbuilder  # noqa: F401

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import host, types


class Veto(Exception):
    """The virtual machine must not go on; its owner reads the words."""


class Hook:
    """What a hook says of itself, and its hook points, which do nothing until they are overridden."""

    name = "hook"
    version = "0.1.0"
    # Higher runs first; an author's number, which `hook.yaml` can replace.
    priority = 0
    # What it changes of the domain, as path patterns; without any it may change nothing.
    paths = []
    # The keys of its configuration.
    config_keys = []
    # The directories that it reads.
    directories = []

    def pre_start(self, vmi):
        """Before anything is prepared. `vmi` is the VirtualMachineInstance as a dict, here and below."""

    def pre_cloud_init_iso(self, vmi, data_source, documents):
        """Before the cloud-init image is written. `documents` is a dict by name (user-data, network-data,
        meta-data) of texts, to be changed in place; `data_source` is noCloud or configDrive."""

    def on_define_domain(self, vmi, domain):
        """Before the domain is defined. `domain` is the `<domain>` element, to be changed in place."""

    def on_attach_device(self, vmi, device):
        """Before a device is attached to the running virtual machine. `device` is the `<disk>`, `<interface>` or
        `<hostdev>` element, to be changed in place."""

    def shutdown(self):
        """When the launcher ends."""


# ---- what the host tells -------------------------------------------------------------------------


def config(key):
    """What `hook.yaml` configures for a key that the hook declares, or None."""
    return host.config(key)


def invocation(key):
    """A fact about this call (reason, hook-point, namespace, name, uid, domain, host), or None."""
    return host.invocation(key)


def log(message, level="info"):
    """A line for the log; level is debug, info, warn or error."""
    host.log(host.Level[level.upper()], message)


# ---- the VMI and the domain ----------------------------------------------------------------------


def annotation(vmi, name):
    """An annotation of the virtual machine, or None."""
    return (vmi.get("metadata", {}).get("annotations") or {}).get(name)


def elements(parent, path):
    """All elements below `parent` at a path of names, as "devices/interface"."""
    name, _, rest = path.partition("/")
    for child in parent.childNodes:
        if child.nodeType == child.ELEMENT_NODE and child.tagName == name:
            if rest:
                yield from elements(child, rest)
            else:
                yield child


def element(parent, path):
    """The first of them, or None."""
    return next(elements(parent, path), None)


def with_alias(parent, path, name):
    """The device with KubeVirt's alias for a disk or an interface of the VMI, or None."""
    for device in elements(parent, path):
        alias = element(device, "alias")
        if alias is not None and alias.getAttribute("name") == f"ua-{name}":
            return device
    return None


def child(parent, name):
    """The first child element of that name, made at the end where there is none."""
    found = element(parent, name)
    if found is None:
        found = parent.appendChild(parent.ownerDocument.createElement(name))
    return found


def set_text(node, text):
    """Makes a text the only content of an element."""
    while node.firstChild:
        node.removeChild(node.firstChild)
    node.appendChild(node.ownerDocument.createTextNode(text))


# ---- between a hook and its host -----------------------------------------------------------------

HOOK_POINTS = {
    "PreStart": "pre_start",
    "PreCloudInitIso": "pre_cloud_init_iso",
    "OnDefineDomain": "on_define_domain",
    "OnAttachDevice": "on_attach_device",
    "Shutdown": "shutdown",
}


def export(hook):
    """The component's export of a hook: everything crosses the boundary as text."""

    class Handler(exports.Handler):
        def describe(self):
            points = [
                {"name": point, "priority": hook.priority}
                for point, method in HOOK_POINTS.items()
                if getattr(hook, method) is not getattr(Hook, method)
            ]
            wishes = {"paths": hook.paths, "config": hook.config_keys, "dirs": hook.directories}
            about = {"name": hook.name, "version": hook.version, "hookPoints": points, "wishes": wishes}
            return json.dumps(about)

        def pre_start(self, vmi):
            with _Errors():
                hook().pre_start(json.loads(vmi))

        def pre_cloud_init_iso(self, vmi, data_source, documents):
            with _Errors():
                by_name = dict(documents)
                hook().pre_cloud_init_iso(json.loads(vmi), data_source, by_name)
                return list(by_name.items())

        def on_define_domain(self, vmi, domain_xml):
            with _Errors():
                return _edited(domain_xml, lambda domain: hook().on_define_domain(json.loads(vmi), domain))

        def shutdown(self):
            with _Errors():
                hook().shutdown()

    return Handler


def export_attach_device(hook):
    """The export of a hook that sees attached devices; only in the world of 0.1.1."""

    class AttachDevice(exports.AttachDevice):
        def on_attach_device(self, vmi, device_xml):
            with _Errors():
                return _edited(device_xml, lambda device: hook().on_attach_device(json.loads(vmi), device))

    return AttachDevice


def _edited(xml, edit):
    """The text of an element after an edit."""
    element = minidom.parseString(xml).documentElement
    edit(element)
    # The parser drops the white space after the element.
    return element.toxml() + xml[len(xml.rstrip()) :]


class _Errors:
    """Tells the host of exceptions in its own terms, with the place in the hook's file."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Veto):
            raise Err(types.Error_Veto(str(error))) from None
        if isinstance(error, Exception):
            raise Err(types.Error_Failed(f"{kind.__name__}: {error} ({_place(trace)})")) from None


# Where files of the standard library were when they were compiled.
_STANDARD_LIBRARY = json.loads.__code__.co_filename.removesuffix("json/__init__.py")


def _place(trace):
    """The innermost line of the hook's own, without reading the file: it is not there any more."""
    place = "?"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        own = not file.endswith("/virt_hook.py") and not file.startswith(_STANDARD_LIBRARY)
        if own or place == "?":
            place = f"{file.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
