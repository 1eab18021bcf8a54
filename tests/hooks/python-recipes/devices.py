"""Recipes that add devices."""

import re

from virt_hook import Element, Veto


def usb_device(vmi, domain):
    # 046d:0825, as lsusb prints it.
    usb = vmi.annotation("example.com/usb")
    if usb is None:
        return
    form = re.fullmatch("(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})", usb.lower())
    if form is None:
        raise Veto(
            "the annotation example.com/usb is VENDOR:PRODUCT, each of four hexadecimal digits, "
            f"such as 046d:0825, and not {usb}"
        )
    vendor, product = form.groups()
    domain.insert_if_absent(
        f"devices/hostdev[source/vendor/@id='0x{vendor}'][source/product/@id='0x{product}']",
        f"""<hostdev mode='subsystem' type='usb' managed='no'>
              <source><vendor id='0x{vendor}'/><product id='0x{product}'/></source>
              <alias name='ua-usb-{vendor}-{product}'/>
            </hostdev>""",
    )
    # The guest needs a controller; KubeVirt writes one without ports if nothing uses USB.
    domain.set("devices/controller[@type='usb']/@model", "qemu-xhci")


def pci_device(vmi, domain):
    # 0000:3b:00.0, as lspci -D prints it.
    address = vmi.annotation("example.com/pci")
    if address is None:
        return
    form = re.fullmatch("([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})[.]([0-9a-f])", address.lower())
    if form is None:
        raise Veto(
            "the annotation example.com/pci is DOMAIN:BUS:SLOT.FUNCTION, of four, two, two and one "
            f"hexadecimal digits, such as 0000:3b:00.0, and not {address}"
        )
    host_domain, bus, slot, function = form.groups()
    path = (
        f"devices/hostdev/source/address[@domain='0x{host_domain}'][@bus='0x{bus}']"
        f"[@slot='0x{slot}'][@function='0x{function}']"
    )
    if domain.find(path) is None:
        device = Element.parse(
            f"""<hostdev mode='subsystem' type='pci' managed='no'>
                  <source>
                    <address domain='0x{host_domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/>
                  </source>
                  <alias name='ua-pci-{bus}-{slot}-{function}'/>
                </hostdev>"""
        )
        domain.devices.append(device)


def vgpu_display(vmi, domain):
    # The vGPU that the VMI asks for becomes the guest's display.
    for gpu in vmi.gpus[:1]:
        device = domain.host_device(gpu["name"])
        if device is None:
            return
        device.set_attr("display", "on").set_attr("ramfb", "on")
        # A VM without a display of its own has no <video>.
        model = domain.find("devices/video/model")
        if model is not None:
            model.set_attr("type", "none")
            model.remove_attr("heads")
            model.remove_attr("vram")


def shared_memory(vmi, domain):
    # Memory that guests on one node share (ivshmem). Its name is a file in the node's /dev/shm.
    name = vmi.annotation("example.com/shared-memory")
    if name is not None:
        domain.insert_if_absent(
            f"devices/shmem[@name='{name}']",
            Element.parse("<shmem><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>").set_attr("name", name),
        )


def watchdog(vmi, domain):
    domain.insert_if_absent(
        "devices/watchdog[@model='i6300esb']",
        Element("watchdog", {"model": "i6300esb", "action": "reset"}),
    )


def tpm(vmi, domain):
    domain.insert_if_absent(
        "devices/tpm[backend/@type='emulator']",
        "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>",
    )


def second_serial_port(vmi, domain):
    # A second port, which nobody reads yet: `virsh console --devname` or a channel of yours can.
    domain.insert_if_absent(
        "devices/serial[target/@port='1']", "<serial type='null'><target port='1'/></serial>"
    )


def vnc_keymap(vmi, domain):
    graphics = domain.find("devices/graphics[@type='vnc']")
    if graphics is None:
        raise ValueError("the domain has no VNC display")
    graphics.set_attr("keymap", "de")
