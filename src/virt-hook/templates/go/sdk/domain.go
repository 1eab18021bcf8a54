package hooks

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Domain is the domain XML, edited in place. It is its root element, <domain>.
type Domain struct {
	*Element
	document *document
}

// ParseDomain reads domain XML.
func ParseDomain(xml string) (*Domain, error) {
	read, err := parseDocument(xml)
	if err != nil {
		return nil, errors.New("the domain XML: " + err.Error())
	}
	return &Domain{read.root, read}, nil
}

// MustParseDomain is [ParseDomain] for tests: it panics where that fails.
func MustParseDomain(xml string) *Domain {
	domain, err := ParseDomain(xml)
	if err != nil {
		panic(err)
	}
	return domain
}

// String is the current XML.
func (d *Domain) String() string { return d.document.String() }

// DomainName is libvirt's name of the domain: NAMESPACE_NAME.
func (d *Domain) DomainName() string { return d.Child("name").Text() }

// Devices is <devices>, added if it is missing.
func (d *Domain) Devices() *Element { return d.EnsureChild("devices") }

// DevicesOf are the devices of a kind: disk, interface, controller, ...
func (d *Domain) DevicesOf(kind string) []*Element {
	return slices.DeleteFunc(d.Child("devices").Children(), func(e *Element) bool { return e.Name() != kind })
}

// Device is the device with this alias, of any kind, or nil. KubeVirt's prefixes (ua-, ua-gpu-) before the VMI's name are
// optional.
func (d *Domain) Device(alias string) *Element {
	return firstOf(d.Child("devices").Children(), func(e *Element) bool { return hasAlias(e, alias) })
}

// Disk is the disk of a VMI's volume, or the one with this target (vda), or nil. If the name is one disk's volume and
// another's target, the volume wins; so it is with interfaces and host devices.
func (d *Domain) Disk(volumeOrTarget string) *Element {
	return byName(d.DevicesOf("disk"), volumeOrTarget, func(e *Element) bool {
		return has(e, "target/@dev", volumeOrTarget)
	})
}

// Interface is the interface of this name in the VMI, or the one with this MAC address or target (tap0), or nil.
func (d *Domain) Interface(nameOrTarget string) *Element {
	return byName(d.DevicesOf("interface"), nameOrTarget, func(e *Element) bool {
		mac, _ := e.Value("mac/@address")
		return has(e, "target/@dev", nameOrTarget) || strings.EqualFold(mac, nameOrTarget)
	})
}

// hostDevicePrefixes are KubeVirt's between ua- and the VMI's name, by the source of a host device.
var hostDevicePrefixes = []string{"gpu-", "hostdevice-", "sriov-", "usb-host-", "dra-gpu-", "dra-hostdevice-"}

// HostDevice is the host device of this name in the VMI (a GPU, a host device, an SR-IOV interface), or the one with this
// PCI address (0000:65:00.0) or mediated device's UUID, or nil.
func (d *Domain) HostDevice(nameOrAddress string) *Element {
	return byName(d.DevicesOf("hostdev"), nameOrAddress, func(e *Element) bool {
		return has(e, "source/address/@uuid", nameOrAddress) || isAt(e.Find("source/address"), nameOrAddress)
	})
}

func firstOf(elements []*Element, fits func(*Element) bool) *Element {
	if at := slices.IndexFunc(elements, fits); at >= 0 {
		return elements[at]
	}
	return nil
}

func has(e *Element, path, wanted string) bool {
	value, ok := e.Value(path)
	return ok && value == wanted
}

// byName is the device with this alias, or else the one with this address, or nil.
func byName(devices []*Element, name string, hasAddress func(*Element) bool) *Element {
	named := firstOf(devices, func(e *Element) bool { return hasAlias(e, name) })
	if named != nil {
		return named
	}
	return firstOf(devices, hasAddress)
}

func hasAlias(e *Element, name string) bool {
	alias, ok := e.Value("alias/@name")
	return ok && (alias == name || alias == "ua-"+name || vmiName(e) == name)
}

// vmiName is the name that a device has in the VMI: its alias without KubeVirt's prefixes.
func vmiName(e *Element) string {
	alias, _ := e.Value("alias/@name")
	name, isKubeVirts := strings.CutPrefix(alias, "ua-")
	if !isKubeVirts || e.Name() != "hostdev" {
		return name
	}
	for _, prefix := range hostDevicePrefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}

// isAt compares the numbers of a PCI address.
func isAt(address *Element, wanted string) bool {
	parts := strings.FieldsFunc(wanted, func(c rune) bool { return c == ':' || c == '.' })
	if len(parts) != 4 {
		return false
	}
	for i, name := range []string{"domain", "bus", "slot", "function"} {
		written, _ := address.Attr(name)
		own, err := strconv.ParseUint(strings.TrimPrefix(written, "0x"), 16, 32)
		other, otherErr := strconv.ParseUint(parts[i], 16, 32)
		if err != nil || otherErr != nil || own != other {
			return false
		}
	}
	return true
}

// AddQEMUArgs adds arguments to QEMU's command line, unless the same ones are there in this order. The operator must
// grant it.
func (d *Domain) AddQEMUArgs(arguments ...string) {
	present := d.QEMUArgs()
	for at := 0; at+len(arguments) <= len(present); at++ {
		if slices.Equal(present[at:at+len(arguments)], arguments) {
			return
		}
	}
	for _, argument := range arguments {
		d.EnsureChild("qemu:commandline").Append(NewElement("qemu:arg").SetAttr("value", argument))
	}
}

// SetQEMUEnv sets a variable in QEMU's environment. The operator must grant it.
func (d *Domain) SetQEMUEnv(name, value string) {
	line := d.EnsureChild("qemu:commandline")
	for _, child := range line.Children() {
		if own, _ := child.Attr("name"); child.Name() == "qemu:env" && own == name {
			child.SetAttr("value", value)
			return
		}
	}
	line.Append(NewElement("qemu:env").SetAttr("name", name).SetAttr("value", value))
}

// QEMUArgs are the arguments that KubeVirt or earlier hooks added to QEMU's command line.
func (d *Domain) QEMUArgs() []string {
	var arguments []string
	for _, child := range d.Child("qemu:commandline").Children() {
		if value, ok := child.Attr("value"); ok && child.Name() == "qemu:arg" {
			arguments = append(arguments, value)
		}
	}
	return arguments
}
