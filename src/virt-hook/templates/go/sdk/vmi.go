package hooks

import "errors"

// VMI is the VirtualMachineInstance, fields that this SDK does not know included.
type VMI struct {
	Value
	json string
}

// ParseVMI reads a VMI's JSON.
func ParseVMI(json string) (*VMI, error) {
	value, err := parseJSON(json)
	if err != nil {
		return nil, errors.New("the VMI: " + err.Error())
	}
	return &VMI{value, json}, nil
}

// MustParseVMI is [ParseVMI] for tests: it panics where that fails.
func MustParseVMI(json string) *VMI {
	vmi, err := ParseVMI(json)
	if err != nil {
		panic(err)
	}
	return vmi
}

// JSON is the text that was read, for other readers.
func (v *VMI) JSON() string { return v.json }

// Name is metadata.name.
func (v *VMI) Name() string { return v.text("metadata.name") }

// Namespace is metadata.namespace.
func (v *VMI) Namespace() string { return v.text("metadata.namespace") }

// UID is metadata.uid.
func (v *VMI) UID() string { return v.text("metadata.uid") }

// NodeName is status.nodeName.
func (v *VMI) NodeName() string { return v.text("status.nodeName") }

func (v *VMI) text(path string) string {
	text, _ := v.Get(path).Text()
	return text
}

// Annotation returns an annotation.
func (v *VMI) Annotation(name string) (value string, ok bool) {
	return v.Get("metadata.annotations").Member(name).Text()
}

// Label returns a label.
func (v *VMI) Label(name string) (value string, ok bool) {
	return v.Get("metadata.labels").Member(name).Text()
}

// VCPUs is how many vCPUs the guest starts with: sockets, cores and threads, each 1 by default.
func (v *VMI) VCPUs() int {
	cpu := v.Get("spec.domain.cpu")
	count := func(what string) int {
		value, _ := cpu.Member(what).Int()
		return int(max(value, 1))
	}
	return count("sockets") * count("cores") * count("threads")
}

// Disks are the disks of the VMI, each with its name.
func (v *VMI) Disks() []Value { return v.Get("spec.domain.devices.disks").Items() }

// Interfaces are the network interfaces of the VMI, each with its name.
func (v *VMI) Interfaces() []Value { return v.Get("spec.domain.devices.interfaces").Items() }

// Name is the text of the member "name", which items of the VMI's lists have.
func (v Value) Name() string {
	name, _ := v.Member("name").Text()
	return name
}
