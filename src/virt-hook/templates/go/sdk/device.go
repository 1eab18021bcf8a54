package hooks

import "errors"

// Device is the XML of a device that is attached to the running virtual machine, edited in place: <disk>, <interface> or
// <hostdev>.
type Device struct {
	*Element
	document *document
}

// ParseDevice reads the XML of one device.
func ParseDevice(xml string) (*Device, error) {
	read, err := parseDocument(xml)
	if err != nil {
		return nil, errors.New("the device's XML: " + err.Error())
	}
	return &Device{read.root, read}, nil
}

// MustParseDevice is [ParseDevice] for tests: it panics where that fails.
func MustParseDevice(xml string) *Device {
	device, err := ParseDevice(xml)
	if err != nil {
		panic(err)
	}
	return device
}

// String is the current XML.
func (d *Device) String() string { return d.document.String() }

// VMIName is the name of the volume, interface or host device in the VMI: the alias without KubeVirt's prefix ua-, and of
// a <hostdev> without the second one (gpu-, hostdevice-, sriov-, usb-host-, dra-gpu-, dra-hostdevice-). It is empty
// without an alias.
func (d *Device) VMIName() string { return vmiName(d.Element) }
