package main

import (
	"strconv"
	"strings"

	"virt-hook/hooks"
)

// recipes are those of docs/go.md.
var recipes = map[string]func(*hooks.VMI, *hooks.Domain) error{
	"watchdog":        watchdog,
	"interfaceQueues": interfaceQueues,
	"usbDevice":       usbDevice,
}

func watchdog(_ *hooks.VMI, domain *hooks.Domain) error {
	watchdog := hooks.NewElement("watchdog").SetAttr("model", "i6300esb").SetAttr("action", "reset")
	domain.InsertIfAbsent("devices/watchdog[@model='i6300esb']", watchdog)
	return nil
}

func interfaceQueues(vmi *hooks.VMI, domain *hooks.Domain) error {
	queues := strconv.Itoa(min(vmi.VCPUs(), 8))
	for _, wanted := range vmi.Interfaces() {
		device := domain.Interface(wanted.Name())
		if model, _ := device.Value("model/@type"); !strings.HasPrefix(model, "virtio") {
			continue
		}
		device.Ensure("driver").SetAttr("name", "vhost").SetAttr("queues", queues)
	}
	return nil
}

func usbDevice(vmi *hooks.VMI, domain *hooks.Domain) error {
	// 046d:0825, as lsusb prints it.
	id, ok := vmi.Annotation("example.com/usb")
	if !ok {
		return nil
	}
	vendor, product, ok := strings.Cut(id, ":")
	if !ok || len(vendor) != 4 || len(product) != 4 || strings.Trim(id, ":0123456789abcdef") != "" {
		return hooks.Veto("example.com/usb is VENDOR:PRODUCT in hexadecimal, not " + id)
	}
	path := "devices/hostdev[source/vendor/@id='0x" + vendor + "'][source/product/@id='0x" + product + "']"
	domain.InsertIfAbsent(path, hooks.MustParseElement(
		`<hostdev mode='subsystem' type='usb' managed='no'>
			<source><vendor id='0x`+vendor+`'/><product id='0x`+product+`'/></source>
			<alias name='ua-usb-`+vendor+`-`+product+`'/>
		</hostdev>`))
	// The guest needs a controller; KubeVirt writes one without ports if nothing uses USB.
	domain.Set("devices/controller[@type='usb']/@model", "qemu-xhci")
	return nil
}
