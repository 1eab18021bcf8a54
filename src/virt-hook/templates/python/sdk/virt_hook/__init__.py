"""The SDK for hooks in Python.

A hook is a class that derives from `Hook` and has the methods it wants of the hook points; the last line of
its file makes the component's exports of it: `export(MyHook)`.

Every call gets a fresh sandbox with the module as it was when it was built: imports at the top of a
file cost nothing at run time, and nothing that is kept in a variable lives on. There is no network, no
clock, and no file that is not granted.

Natively, in tests, the same modules are imported; `virt_hook.testing` calls a hook there.
"""

from .cloud_init import CloudConfig, CloudInitError, Documents, Yaml
from .component import export
from .domain import Device, Domain
from .element import Element, XmlError
from .hook import Hook, Veto
from .host import config, invocation, log
from .migration import Migration
from .path import PathError
from .vmi import Vmi

__all__ = [
    "CloudConfig",
    "CloudInitError",
    "Device",
    "Documents",
    "Domain",
    "Element",
    "Hook",
    "Migration",
    "PathError",
    "Veto",
    "Vmi",
    "XmlError",
    "Yaml",
    "config",
    "export",
    "invocation",
    "log",
]
