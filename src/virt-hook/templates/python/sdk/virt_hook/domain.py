"""The domain, and a device that is attached to it."""

from .element import Element

# KubeVirt's prefixes between `ua-` and the VMI's name in the alias of a host device.
_HOST_DEVICE_PREFIXES = ("gpu-", "hostdevice-", "sriov-", "usb-host-", "dra-gpu-", "dra-hostdevice-")


class Domain(Element):
    """The domain's XML: `<domain>`, edited in place. What a hook does not touch keeps its bytes."""

    @property
    def devices(self):
        """`<devices>`, added if it is missing."""
        return self.ensure_child("devices")

    def devices_of(self, kind):
        """The devices of a kind: disk, interface, controller, ..."""
        return [device for device in self._devices() if device.name == kind]

    def device(self, alias):
        """The device with this alias, of any kind, or None. KubeVirt's prefixes (ua-, ua-gpu-) are optional."""
        return _first(self._devices(), lambda device: _has_alias(device, alias))

    def disk(self, volume_or_target):
        """The disk of a VMI's volume, or the one with this target (vda), or None. If the name is one disk's volume and
        another's target, the volume wins; so it is with interfaces and host devices."""
        return _by_name(
            self.devices_of("disk"), volume_or_target, lambda disk: disk.value("target/@dev") == volume_or_target
        )

    def interface(self, name_or_target):
        """The interface of this name in the VMI, or the one with this MAC address or target (tap0), or None."""
        return _by_name(
            self.devices_of("interface"),
            name_or_target,
            lambda one: one.value("target/@dev") == name_or_target
            or (one.value("mac/@address") or "").lower() == name_or_target.lower(),
        )

    def host_device(self, name_or_address):
        """The host device of this name in the VMI (a GPU, a host device, an SR-IOV interface), or the one with this
        PCI address (0000:65:00.0) or mediated device's UUID, or None."""
        return _by_name(
            self.devices_of("hostdev"),
            name_or_address,
            lambda one: one.value("source/address/@uuid") == name_or_address
            or _is_at(one.find("source/address"), name_or_address),
        )

    def add_qemu_args(self, *arguments):
        """Adds arguments to QEMU's command line, unless the same ones are there in this order. The operator must
        grant it."""
        present, count = self.qemu_args(), len(arguments)
        if any(present[at : at + count] == list(arguments) for at in range(len(present) - count + 1)):
            return
        line = self.ensure_child("qemu:commandline")
        for argument in arguments:
            line.append(Element("qemu:arg", {"value": argument}))

    def set_qemu_env(self, name, value):
        """Sets a variable in QEMU's environment. The operator must grant it."""
        line = self.ensure_child("qemu:commandline")
        for child in line.children:
            if child.name == "qemu:env" and child.attr("name") == name:
                child.set_attr("value", value)
                return
        line.append(Element("qemu:env", {"name": name, "value": value}))

    def qemu_args(self):
        """The arguments that KubeVirt or earlier hooks added to QEMU's command line."""
        line = self.child("qemu:commandline")
        return [one.attr("value") for one in line.children if one.name == "qemu:arg"] if line is not None else []

    def _devices(self):
        devices = self.child("devices")
        return devices.children if devices is not None else []


class Device(Element):
    """The XML of a device that is attached to the running virtual machine, edited in place: `<disk>`, `<interface>` or
    `<hostdev>`."""

    @property
    def vmi_name(self):
        """The name of the volume, interface or host device in the VMI: the alias without KubeVirt's prefix ua-, and of a
        `<hostdev>` without the second one (gpu-, hostdevice-, sriov-, usb-host-, dra-gpu-, dra-hostdevice-). None
        without an alias."""
        return _vmi_name(self)


def _first(devices, fits):
    return next((device for device in devices if fits(device)), None)


def _by_name(devices, name, has_address):
    """The device with this alias, or else the one with this address."""
    devices = list(devices)
    named = _first(devices, lambda device: _has_alias(device, name))
    return named if named is not None else _first(devices, has_address)


def _has_alias(device, name):
    return device.value("alias/@name") in (name, f"ua-{name}") or _vmi_name(device) == name


def _vmi_name(device):
    alias = device.value("alias/@name")
    if alias is None or not alias.startswith("ua-"):
        return alias
    name = alias.removeprefix("ua-")
    prefixes = _HOST_DEVICE_PREFIXES if device.name == "hostdev" else ()
    return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)


def _is_at(address, wanted):
    """Compares the numbers of a PCI address."""
    parts = wanted.replace(".", ":").split(":")
    if address is None or len(parts) != 4:
        return False
    try:
        own = [int(address.attr(name) or "", 16) for name in ("domain", "bus", "slot", "function")]
        return own == [int(part, 16) for part in parts]
    except ValueError:
        return False
