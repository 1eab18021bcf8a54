"""The VirtualMachineInstance."""

import json

from .dotted_path import value_at


class Vmi(dict):
    """The VirtualMachineInstance as a dict, including fields that this SDK does not know."""

    @classmethod
    def parse(cls, text):
        """From JSON."""
        return cls(json.loads(text))

    def get_path(self, path, default=None):
        """The value at a path: names joined by dots, `[0]` for an item of a list, `['a.b/c']` for a name with dots,
        `[name=root]` for the item of a list with that member, as in "spec.volumes[name=root].emptyDisk"."""
        return value_at(self, path, default)

    @property
    def name(self):
        return self.get_path("metadata.name", "")

    @property
    def namespace(self):
        return self.get_path("metadata.namespace", "")

    @property
    def uid(self):
        return self.get_path("metadata.uid", "")

    @property
    def node_name(self):
        """The node that it runs on, or None."""
        return self.get_path("status.nodeName")

    def annotation(self, name):
        """An annotation, or None."""
        return self.get_path("metadata.annotations", {}).get(name)

    def label(self, name):
        """A label, or None."""
        return self.get_path("metadata.labels", {}).get(name)

    @property
    def vcpus(self):
        """How many vCPUs the guest starts with: sockets, cores and threads, each 1 by default."""
        cpu = self.get_path("spec.domain.cpu", {})
        return (cpu.get("sockets") or 1) * (cpu.get("cores") or 1) * (cpu.get("threads") or 1)

    @property
    def disks(self):
        """The disks, each a dict with its name."""
        return self.get_path("spec.domain.devices.disks", [])

    @property
    def interfaces(self):
        """The network interfaces, each a dict with its name."""
        return self.get_path("spec.domain.devices.interfaces", [])

    @property
    def gpus(self):
        """The GPUs, each a dict with its name."""
        return self.get_path("spec.domain.devices.gpus", [])
