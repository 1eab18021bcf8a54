"""The boundary between a hook and its host, which everything crosses as text."""

import json
import sys

from .cloud_init import Documents
from .domain import Device, Domain
from .hook import Hook, Veto
from .hook_calls import HookError, call_hook_point, check_members
from .migration import Migration
from .vmi import Vmi

try:
    from componentize_py_types import Err
    from wit_world import exports
    from wit_world.imports import types
except ImportError:
    # A native test: there is no component.
    exports = None

HOOK_POINTS = {
    "PreStart": "pre_start",
    "PreCloudInitIso": "pre_cloud_init_iso",
    "OnDefineDomain": "on_define_domain",
    "OnAttachDevice": "on_attach_device",
    "PreMigrationSource": "pre_migration_source",
    "Shutdown": "shutdown",
}


def export(hook):
    """Makes the component's exports of a hook, in the file that calls this. Returns the one named Handler."""
    check_members(hook)
    if exports is None:
        return None
    made = {"Handler": _handler(hook)}
    # The Makefile chooses a world with these for a hook that has their hook points.
    if hasattr(exports, "AttachDevice"):
        made["AttachDevice"] = _attach_device(hook)
    if hasattr(exports, "MigrationSource"):
        made["MigrationSource"] = _migration_source(hook)
    sys._getframe(1).f_globals.update(made)
    return made["Handler"]


def describe(hook):
    """What the host reads about a hook, as JSON."""
    points = [
        {"name": point, "priority": hook.priority}
        for point, method in HOOK_POINTS.items()
        if getattr(hook, method) is not getattr(Hook, method)
    ]
    wishes = {"paths": hook.paths, "config": hook.config_keys, "dirs": hook.directories}
    if hook.migration:
        wishes["migration"] = hook.migration
    if hook.pod_facts:
        wishes["pod"] = hook.pod_facts
    return json.dumps({"name": hook.name, "version": hook.version, "hookPoints": points, "wishes": wishes})


def _handler(hook):
    class Handler(exports.Handler):
        def describe(self):
            return describe(hook)

        def pre_start(self, vmi):
            with _Errors():
                call_hook_point(hook(), "pre_start", Vmi.parse(vmi))

        def pre_cloud_init_iso(self, vmi, data_source, documents):
            with _Errors():
                by_name = Documents(documents)
                call_hook_point(hook(), "pre_cloud_init_iso", Vmi.parse(vmi), data_source, by_name)
                return list(by_name.items())

        def on_define_domain(self, vmi, domain_xml):
            with _Errors():
                domain = Domain.parse(domain_xml)
                call_hook_point(hook(), "on_define_domain", Vmi.parse(vmi), domain)
                return str(domain)

        def shutdown(self):
            with _Errors():
                call_hook_point(hook(), "shutdown")

    return Handler


def _attach_device(hook):
    class AttachDevice(exports.AttachDevice):
        def on_attach_device(self, vmi, device_xml):
            with _Errors():
                device = Device.parse(device_xml)
                call_hook_point(hook(), "on_attach_device", Vmi.parse(vmi), device)
                return str(device)

    return AttachDevice


def _migration_source(hook):
    class MigrationSource(exports.MigrationSource):
        def pre_migration_source(self, vmi, parameters):
            with _Errors():
                migration = Migration.from_parameters(parameters)
                call_hook_point(hook(), "pre_migration_source", Vmi.parse(vmi), migration)
                return migration.parameters()

    return MigrationSource


class _Errors:
    """Passes exceptions to the host as its errors, with the position in the hook's file."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Veto):
            raise Err(types.Error_Veto(str(error))) from None
        if isinstance(error, HookError):
            raise Err(types.Error_Failed(str(error))) from None
        if isinstance(error, Exception):
            raise Err(types.Error_Failed(f"{kind.__name__}: {error} ({_place(trace)})")) from None


# Where files of the standard library were when they were compiled.
_STANDARD_LIBRARY = json.loads.__code__.co_filename.removesuffix("json/__init__.py")


def _place(trace):
    """The innermost line of the hook's own, without reading the file: it is not there any more."""
    place = "?"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        own = "/virt_hook/" not in file and not file.startswith(_STANDARD_LIBRARY)
        if own or place == "?":
            place = f"{file.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
