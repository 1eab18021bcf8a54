package main

import (
	"errors"
	"strings"

	"virt-hook/hooks"
)

// Recipes that add devices.

// hexNumber is a number of so many hexadecimal digits, with or without 0x, as lsusb and lspci print it.
func hexNumber(text string, digits int) (string, bool) {
	number := strings.ToLower(strings.TrimPrefix(text, "0x"))
	return number, len(number) == digits && strings.Trim(number, "0123456789abcdef") == ""
}

func usbDevice(vmi *hooks.VMI, domain *hooks.Domain) error {
	// 046d:0825, as lsusb prints it.
	id, ok := vmi.Annotation("example.com/usb")
	if !ok {
		return nil
	}
	vendor, product, _ := strings.Cut(id, ":")
	vendor, isVendor := hexNumber(vendor, 4)
	product, isProduct := hexNumber(product, 4)
	if !isVendor || !isProduct {
		return hooks.Veto("the annotation example.com/usb is VENDOR:PRODUCT, each of four hexadecimal digits, " +
			"such as 046d:0825, and not " + id)
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

func pciDevice(vmi *hooks.VMI, domain *hooks.Domain) error {
	// 0000:3b:00.0, as lspci -D prints it.
	address, ok := vmi.Annotation("example.com/pci")
	if !ok {
		return nil
	}
	parts := strings.Split(strings.Replace(address, ".", ":", 1), ":")
	isAddress := len(parts) == 4
	for i, digits := range []int{4, 2, 2, 1} {
		if isAddress {
			parts[i], isAddress = hexNumber(parts[i], digits)
		}
	}
	if !isAddress {
		return hooks.Veto("the annotation example.com/pci is DOMAIN:BUS:SLOT.FUNCTION, of four, two, two and one " +
			"hexadecimal digits, such as 0000:3b:00.0, and not " + address)
	}
	if domain.HostDevice(strings.Join(parts[:3], ":")+"."+parts[3]) != nil {
		return nil
	}
	domain.Devices().Append(hooks.MustParseElement(
		`<hostdev mode='subsystem' type='pci' managed='no'>
			<source>
				<address domain='0x` + parts[0] + `' bus='0x` + parts[1] + `' slot='0x` + parts[2] + `' function='0x` + parts[3] + `'/>
			</source>
			<alias name='ua-pci-` + strings.Join(parts[1:], "-") + `'/>
		</hostdev>`))
	return nil
}

func vgpuDisplay(vmi *hooks.VMI, domain *hooks.Domain) error {
	// The vGPU that the VMI asks for becomes the guest's display.
	for _, gpu := range vmi.Get("spec.domain.devices.gpus").Items() {
		device := domain.HostDevice(gpu.Name())
		if device == nil {
			continue
		}
		device.SetAttr("display", "on").SetAttr("ramfb", "on")
		// A VM without a display of its own has no <video>.
		if model := domain.Find("devices/video/model"); model != nil {
			model.SetAttr("type", "none")
			model.RemoveAttr("heads")
			model.RemoveAttr("vram")
		}
		break
	}
	return nil
}

func sharedMemory(vmi *hooks.VMI, domain *hooks.Domain) error {
	// Memory that guests on one node share (ivshmem). Its name is a file in the node's /dev/shm.
	name, ok := vmi.Annotation("example.com/shared-memory")
	if !ok {
		return nil
	}
	memory := hooks.MustParseElement("<shmem><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>")
	domain.InsertIfAbsent("devices/shmem[@name='"+name+"']", memory.SetAttr("name", name))
	return nil
}

func watchdog(_ *hooks.VMI, domain *hooks.Domain) error {
	watchdog := hooks.NewElement("watchdog").SetAttr("model", "i6300esb").SetAttr("action", "reset")
	domain.InsertIfAbsent("devices/watchdog[@model='i6300esb']", watchdog)
	return nil
}

func tpm(_ *hooks.VMI, domain *hooks.Domain) error {
	domain.InsertIfAbsent("devices/tpm[backend/@type='emulator']", hooks.MustParseElement(
		"<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"))
	return nil
}

func secondSerialPort(_ *hooks.VMI, domain *hooks.Domain) error {
	// A second port, which nobody reads yet: `virsh console --devname` or a channel of yours can.
	domain.InsertIfAbsent("devices/serial[target/@port='1']", hooks.MustParseElement(
		"<serial type='null'><target port='1'/></serial>"))
	return nil
}

func vncKeymap(_ *hooks.VMI, domain *hooks.Domain) error {
	graphics := domain.Find("devices/graphics[@type='vnc']")
	if graphics == nil {
		return errors.New("the domain has no VNC display")
	}
	graphics.SetAttr("keymap", "de")
	return nil
}
