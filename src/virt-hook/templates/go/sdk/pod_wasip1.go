// The interface pod of 0.1.1: the canonical ABI of the component model by hand.

package hooks

import (
	"runtime"
	"unsafe"
)

//go:wasmimport virt-hook:hooks/pod@0.1.1 annotation
func importAnnotation(key unsafe.Pointer, size uint32, wait int32, area unsafe.Pointer)

//go:wasmimport virt-hook:hooks/pod@0.1.1 label
func importLabel(key unsafe.Pointer, size uint32, wait int32, area unsafe.Pointer)

//go:wasmimport virt-hook:hooks/pod@0.1.1 network-info
func importNetworkInfo(wait int32, area unsafe.Pointer)

//go:wasmimport virt-hook:hooks/pod@0.1.1 network-status
func importNetworkStatus(name unsafe.Pointer, size uint32, wait int32, area unsafe.Pointer)

//go:wasmimport virt-hook:hooks/pod@0.1.1 default-network
func importDefaultNetwork(wait int32, area unsafe.Pointer)

var pod = podFunctions{text: podText, networks: podNetworks, defaultNetwork: podDefaultNetwork}

// network is the record network.
type network struct {
	name, podInterface, ips, mac text
	isDefault                    uint32
	json                         text
}

func (n *network) read() PodNetwork {
	read := PodNetwork{
		Name:         n.name.String(),
		PodInterface: n.podInterface.String(),
		MAC:          n.mac.String(),
		IsDefault:    n.isDefault&0xff != 0,
		JSON:         n.json.String(),
	}
	if n.ips.size > 0 {
		for _, ip := range unsafe.Slice((*text)(unsafe.Pointer(uintptr(n.ips.address))), n.ips.size) {
			read.IPs = append(read.IPs, ip.String())
		}
	}
	return read
}

// failure is an error of the interface: a tag in a byte, and a text.
func failure(tag uint32, words text) error {
	return &FactError{FactErrorKind(tag & 0xff), words.String()}
}

// asFlag is a bool of the canonical ABI.
func asFlag(value bool) int32 {
	if value {
		return 1
	}
	return 0
}

func podText(kind, key string, wait bool) (string, bool, error) {
	area := new([4]uint32)
	waits := asFlag(wait)
	address, size := unsafe.Pointer(unsafe.StringData(key)), uint32(len(key))
	switch kind {
	case "annotation":
		importAnnotation(address, size, waits, unsafe.Pointer(area))
	case "label":
		importLabel(address, size, waits, unsafe.Pointer(area))
	default:
		importNetworkInfo(waits, unsafe.Pointer(area))
	}
	runtime.KeepAlive(key)
	words := text{area[2], area[3]}
	if area[0]&0xff != 0 {
		return "", false, failure(area[1], words)
	}
	if area[1]&0xff == 0 {
		return "", false, nil
	}
	return words.String(), true, nil
}

func podNetworks(name string, wait bool) ([]PodNetwork, error) {
	area := new([4]uint32)
	importNetworkStatus(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), asFlag(wait), unsafe.Pointer(area))
	runtime.KeepAlive(name)
	if area[0]&0xff != 0 {
		return nil, failure(area[1], text{area[2], area[3]})
	}
	var found []PodNetwork
	if area[2] > 0 {
		entries := unsafe.Slice((*network)(unsafe.Pointer(uintptr(area[1]))), area[2])
		for i := range entries {
			found = append(found, entries[i].read())
		}
	}
	return found, nil
}

// defaultNetworkAnswer is result<option<network>, error>.
type defaultNetworkAnswer struct {
	failed uint32
	// isThere tells whether there is a network; of an error it is the tag, and words follow.
	isThere uint32
	network network
}

func podDefaultNetwork(wait bool) (PodNetwork, bool, error) {
	area := new(defaultNetworkAnswer)
	importDefaultNetwork(asFlag(wait), unsafe.Pointer(area))
	if area.failed&0xff != 0 {
		return PodNetwork{}, false, failure(area.isThere, area.network.name)
	}
	if area.isThere&0xff == 0 {
		return PodNetwork{}, false, nil
	}
	return area.network.read(), true, nil
}
