/* Recipes that add devices. */
#include "cookbook.h"

bool usb_device(text vmi, text *domain) {
    /* 046d:0825, as lsusb prints it. */
    text id, vendor, product;
    if (!vmi_annotation(vmi, "example.com/usb", &id)) return true;
    if (!text_cut(id, ":", &vendor, &product) || !text_consists_of(id, ":0123456789abcdef")) {
        return hook_veto(text_join(text_of("example.com/usb is VENDOR:PRODUCT, not "), id));
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
    if (!text_consists_of(address, ":.0123456789abcdef") || !text_cut(address, ":", &host_domain, &rest) ||
        !text_cut(rest, ":", &bus, &rest) || !text_cut(rest, ".", &slot, &function)) {
        return hook_veto(text_join(text_of("example.com/pci is DOMAIN:BUS:SLOT.FUNCTION, not "), address));
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
