"""Calls a hook natively, in tests: no WebAssembly, and a debugger works.

    import unittest
    from virt_hook.testing import call

    class TitleTest(unittest.TestCase):
        def test_the_title_is_set(self):
            domain = call(Title).on_define_domain({"metadata": {...}}, "<domain/>")
            self.assertEqual(domain, "<domain>...</domain>")

A change must be covered by the hook's `paths`, and is checked against a second run; a key of the configuration and a fact
about the pod must be declared. What the host checks besides, dangerous paths, policies and limits, the cases check (`make test`).
"""

import json

from .cloud_init import Documents
from .component import describe
from .domain import Device, Domain
from .element import Element
from .hook_calls import call_hook_point, check_members
from .host import Native
from .migration import Migration
from .vmi import Vmi
from .wishes import check_names, check_paths


def call(hook, config=None, invocation=None, pod=None):
    """A hook to call, under a host that knows this configuration, these facts about the call, and this pod: a dict
    with `annotations`, `labels`, `networkStatus` and `networkInfo`, as a case's pod.yaml."""
    check_members(hook)
    check_names("configuration key", "config_keys", hook.config_keys, config or {})
    return _Callable(hook, config or {}, invocation or {}, pod or {})


class _Callable:
    def __init__(self, hook, config, invocation, pod):
        self._hook, self._config, self._invocation, self._pod = hook, config, invocation, pod

    def describe(self):
        """The description, as the host reads it."""
        return json.loads(describe(self._hook))

    @property
    def logged(self):
        """The lines of the last call, each with its level."""
        return list(Native.logged)

    def pre_start(self, vmi):
        call_hook_point(self._started(), "pre_start", _vmi(vmi))

    def pre_cloud_init_iso(self, vmi, data_source, documents):
        """The documents afterwards, as a dict of texts. As for the hook, `data_source` is "noCloud" or "configDrive"."""
        if not isinstance(data_source, str) or isinstance(documents, str):
            raise TypeError("pre_cloud_init_iso(vmi, data_source, documents): data_source is a text, documents a dict of texts")
        return self._twice("pre_cloud_init_iso", (_vmi(vmi), data_source), documents, Documents, dict)

    def on_define_domain(self, vmi, xml):
        """The domain's XML afterwards."""
        after = self._twice("on_define_domain", (_vmi(vmi),), xml, Domain.parse, str)
        check_paths(self._hook.paths, Domain.parse(xml), Domain.parse(after))
        return after

    def on_attach_device(self, vmi, xml):
        """The device's XML afterwards."""
        after = self._twice("on_attach_device", (_vmi(vmi),), xml, Device.parse, str)
        check_paths(self._hook.paths, _as_domain(xml), _as_domain(after))
        return after

    def pre_migration_source(self, vmi, parameters):
        """The parameters afterwards."""
        migration = Migration(parameters)
        call_hook_point(self._started(), "pre_migration_source", _vmi(vmi), migration)
        changed = [name for name, value in migration.items() if parameters.get(name) != value]
        check_names("parameter of a migration", "migration", self._hook.migration, changed)
        return dict(migration)

    def shutdown(self):
        call_hook_point(self._started(), "shutdown")

    def _started(self):
        Native.config, Native.invocation, Native.pod = self._config, self._invocation, self._pod
        Native.pod_facts, Native.logged = self._hook.pod_facts, []
        return self._hook()

    def _twice(self, point, arguments, before, parse, render):
        once = before
        for run in ("first", "second"):
            edited = parse(once)
            call_hook_point(self._started(), point, *arguments, edited)
            after = render(edited)
            if run == "second" and after != once:
                raise AssertionError(f"a second run changes what the first one made: {once!r} becomes {after!r}")
            once = after
        return once


def _as_domain(device):
    """A device as the only one of a domain, since paths begin there."""
    domain = Element("domain")
    domain.append(Element("devices")).append(Device.parse(device))
    return domain


def _vmi(vmi):
    # Through JSON, as the host gives it.
    return Vmi.parse(vmi if isinstance(vmi, str) else json.dumps(vmi))
