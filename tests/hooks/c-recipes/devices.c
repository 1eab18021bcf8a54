/* Recipes that add devices. */
#include "recipes.h"

#include <stdlib.h>

/* Whether it is a number of so many hexadecimal digits, with or without 0x, as lsusb and lspci print it: its digits are. */
static bool hex_number(text *number, size_t digits) {
    if (number->length == digits + 2 && text_is(text_part(*number, 0, 2), "0x")) *number = text_part(*number, 2, digits + 2);
    if (number->length != digits || !text_consists_of(*number, "0123456789abcdefABCDEF")) return false;
    char *lower = malloc(digits);
    for (size_t i = 0; i < digits; i++) lower[i] = (char)(number->bytes[i] | 0x20);
    *number = (text){lower, digits};
    return true;
}

bool usb_device(text vmi, text *domain) {
    /* 046d:0825, as lsusb prints it. */
    text id, vendor, product;
    if (!vmi_annotation(vmi, "example.com/usb", &id)) return true;
    if (!text_cut(id, ":", &vendor, &product) || !hex_number(&vendor, 4) || !hex_number(&product, 4)) {
        return hook_veto(text_join(text_of("the annotation example.com/usb is VENDOR:PRODUCT, each of four hexadecimal "
                                           "digits, such as 046d:0825, and not "), id));
    }
    const char *path = path_join(text_of("domain/devices/hostdev[source/vendor/@id='0x"), vendor,
                                 text_of("'][source/product/@id='0x"), product, text_of("']"));
    text device = text_join(text_of("<hostdev mode='subsystem' type='usb' managed='no'><source><vendor id='0x"), vendor,
                            text_of("'/><product id='0x"), product, text_of("'/></source><alias name='ua-usb-"), vendor,
                            text_of("-"), product, text_of("'/></hostdev>"));
    xml_insert_if_absent(domain, path, device);
    /* The guest needs a controller; KubeVirt writes one without ports if nothing uses USB. */
    xml_set(domain, "domain/devices/controller[@type='usb']/@model", text_of("qemu-xhci"));
    return true;
}

bool pci_device(text vmi, text *domain) {
    /* 0000:3b:00.0, as lspci -D prints it. */
    text address, host_domain, bus, slot, function, rest;
    if (!vmi_annotation(vmi, "example.com/pci", &address)) return true;
    if (!text_cut(address, ":", &host_domain, &rest) || !text_cut(rest, ":", &bus, &rest) ||
        !text_cut(rest, ".", &slot, &function) || !hex_number(&host_domain, 4) || !hex_number(&bus, 2) ||
        !hex_number(&slot, 2) || !hex_number(&function, 1)) {
        return hook_veto(text_join(text_of("the annotation example.com/pci is DOMAIN:BUS:SLOT.FUNCTION, of four, two, two "
                                           "and one hexadecimal digits, such as 0000:3b:00.0, and not "), address));
    }
    const char *path = path_join(text_of("domain/devices/hostdev[source/address/@domain='0x"), host_domain,
                                 text_of("'][source/address/@bus='0x"), bus, text_of("'][source/address/@slot='0x"), slot,
                                 text_of("'][source/address/@function='0x"), function, text_of("']"));
    text source = text_join(text_of("<source><address domain='0x"), host_domain, text_of("' bus='0x"), bus,
                            text_of("' slot='0x"), slot, text_of("' function='0x"), function, text_of("'/></source>"));
    text device = text_join(text_of("<hostdev mode='subsystem' type='pci' managed='no'>"), source,
                            text_of("<alias name='ua-pci-"), bus, text_of("-"), slot, text_of("-"), function,
                            text_of("'/></hostdev>"));
    xml_insert_if_absent(domain, path, device);
    return true;
}

bool vgpu_display(text vmi, text *domain) {
    /* The vGPU that the VMI asks for becomes the guest's display. */
    text gpus, gpu = {0}, name;
    if (!json_find(vmi, (const char *const[]){"spec", "domain", "devices", "gpus", NULL}, &gpus)) return true;
    if (!json_next(gpus, &gpu) || !json_find(gpu, (const char *const[]){"name", NULL}, &name)) return true;
    text device = text_join(text_of("domain/devices/hostdev[alias/@name='ua-gpu-"), name, text_of("']"));
    xml_element found;
    if (!xml_find(*domain, device.bytes, &found)) return true;
    xml_set(domain, path_join(device, text_of("/@display")), text_of("on"));
    xml_set(domain, path_join(device, text_of("/@ramfb")), text_of("on"));
    /* A VM without a display of its own has no <video>. */
    if (!xml_find(*domain, "domain/devices/video/model", &found)) return true;
    xml_set(domain, "domain/devices/video/model/@type", text_of("none"));
    xml_remove(domain, "domain/devices/video/model/@heads");
    xml_remove(domain, "domain/devices/video/model/@vram");
    return true;
}

bool shared_memory(text vmi, text *domain) {
    /* Memory that guests on one node share (ivshmem). Its name is a file in the node's /dev/shm. */
    text name;
    if (!vmi_annotation(vmi, "example.com/shared-memory", &name)) return true;
    xml_insert_if_absent(domain, path_join(text_of("domain/devices/shmem[@name='"), name, text_of("']")),
                         text_join(text_of("<shmem name='"), xml_escape(name),
                                   text_of("'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>")));
    return true;
}

bool watchdog(text vmi, text *domain) {
    (void)vmi;
    xml_insert_if_absent(domain, "domain/devices/watchdog[@model='i6300esb']",
                         text_of("<watchdog model='i6300esb' action='reset'/>"));
    return true;
}

bool tpm(text vmi, text *domain) {
    (void)vmi;
    xml_insert_if_absent(domain, "domain/devices/tpm[backend/@type='emulator']",
                         text_of("<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"));
    return true;
}

bool second_serial_port(text vmi, text *domain) {
    /* A second port, which nobody reads yet: `virsh console --devname` or a channel of yours can. */
    (void)vmi;
    xml_insert_if_absent(domain, "domain/devices/serial[target/@port='1']",
                         text_of("<serial type='null'><target port='1'/></serial>"));
    return true;
}

bool vnc_keymap(text vmi, text *domain) {
    (void)vmi;
    xml_element found;
    if (!xml_find(*domain, "domain/devices/graphics[@type='vnc']", &found)) {
        return hook_fail(text_of("the domain has no VNC display"));
    }
    xml_set(domain, "domain/devices/graphics[@type='vnc']/@keymap", text_of("de"));
    return true;
}
