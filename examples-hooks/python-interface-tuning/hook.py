"""Tunes network interfaces from one annotation: queues, ring sizes and where packets are sent.

A migration gets as many parallel connections as an interface has queues.
"""

import json

from virt_hook import Hook, Veto, export

ANNOTATION = "interfaces.vm.example.com/tuning"

# What may be tuned, and libvirt's name of it: attributes of an interface's <driver>.
TUNABLE = {
    "queues": "queues",
    "rxQueueSize": "rx_queue_size",
    "txQueueSize": "tx_queue_size",
    "txmode": "txmode",
}


class Interfaces(Hook):
    name = "interfaces"
    version = "0.1.0"
    paths = ["/domain/devices/interface/driver/**"]
    migration = ["parallel-connections"]

    def pre_start(self, vmi):
        """Refuses what would be ignored later on."""
        interfaces = vmi["spec"]["domain"]["devices"].get("interfaces", [])
        known = {interface["name"] for interface in interfaces}
        for name, settings in tuning(vmi).items():
            if name not in known:
                raise Veto(f"{ANNOTATION} names the interface {name!r}; the VM has {sorted(known)}")
            for setting in settings:
                if setting not in TUNABLE:
                    raise Veto(f"{ANNOTATION}: {setting!r} is not one of {sorted(TUNABLE)}")
            check_queues(vmi, settings)

    def on_define_domain(self, vmi, domain):
        for name, settings in tuning(vmi).items():
            interface = domain.interface(name)
            if interface is not None:  # it may be plugged in later
                tune(vmi, interface, settings)

    def on_attach_device(self, vmi, device):
        """An interface that is plugged in while the VM runs."""
        if device.name == "interface":
            tune(vmi, device, tuning(vmi).get(device.vmi_name, {}))

    def pre_migration_source(self, vmi, migration):
        """A VM with many queues is moved through as many connections."""
        queues = [settings["queues"] for settings in tuning(vmi).values() if "queues" in settings]
        if queues:
            migration["parallel-connections"] = min(max(queues), 8)


def check_queues(vmi, settings):
    """Refuses queues that the interface's tap device does not have: QEMU would not start."""
    queues = settings.get("queues")
    if queues is None:
        return
    if not vmi.get_path("spec.domain.devices.networkInterfaceMultiqueue") or vmi.vcpus < 2:
        raise Veto(
            f"{ANNOTATION} sets queues, but virt-handler makes tap devices with one queue: "
            "that takes networkInterfaceMultiqueue: true in spec.domain.devices, and two vCPUs"
        )
    if not isinstance(queues, int) or not 2 <= queues <= 256:
        raise Veto(f"{ANNOTATION}: queues is a number from 2 to 256, not {queues!r}")


def tune(vmi, interface, settings):
    check_queues(vmi, settings)
    for setting, value in settings.items():
        interface.ensure("driver").set_attr(TUNABLE[setting], value)


def tuning(vmi):
    """By interface, what to set."""
    text = vmi.annotation(ANNOTATION) or "{}"
    try:
        wanted = json.loads(text)
    except ValueError as error:
        raise Veto(f"{ANNOTATION} is not JSON: {error}") from None
    if not isinstance(wanted, dict) or not all(isinstance(s, dict) for s in wanted.values()):
        raise Veto(f'{ANNOTATION} must look like {{"default": {{"queues": 4}}}}, not {text}')
    return wanted


export(Interfaces)
