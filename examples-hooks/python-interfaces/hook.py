"""Tunes network interfaces from one annotation: queues, ring sizes and where packets are sent."""

import json

from virt_hook import Hook, Veto, annotation, child, element, export, export_attach_device, with_alias

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

    def on_define_domain(self, vmi, domain):
        for name, settings in tuning(vmi).items():
            interface = with_alias(domain, "devices/interface", name)
            if interface is None:
                continue  # not plugged in (yet)
            tune(interface, settings)

    def on_attach_device(self, vmi, device):
        """An interface that is plugged in while the VM runs."""
        alias = element(device, "alias")
        if device.tagName == "interface" and alias is not None:
            name = alias.getAttribute("name").removeprefix("ua-")
            tune(device, tuning(vmi).get(name, {}))


def tune(interface, settings):
    for setting, value in settings.items():
        child(interface, "driver").setAttribute(TUNABLE[setting], str(value))


def tuning(vmi):
    """By interface, what to set."""
    text = annotation(vmi, ANNOTATION) or "{}"
    try:
        wanted = json.loads(text)
    except ValueError as error:
        raise Veto(f"{ANNOTATION} is not JSON: {error}") from None
    if not isinstance(wanted, dict) or not all(isinstance(s, dict) for s in wanted.values()):
        raise Veto(f'{ANNOTATION} must look like {{"default": {{"queues": 4}}}}, not {text}')
    return wanted


Handler = export(Interfaces)
AttachDevice = export_attach_device(Interfaces)
