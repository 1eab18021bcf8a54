// The bindings of the world "hook" in hooks.wit, and of the optional interfaces of 0.1.1: the canonical ABI of the component model by hand.

package hooks

import (
	"runtime"
	"unsafe"
)

// wasiMemory is memory for the adapter of WASI, which needs it before Go has started. `virt-hook wrap` finds it by its
// first 32 bytes: "virt-hook: memory for WASI here."
var wasiMemory = [4 + 16<<10]uint64{0x6f6f682d74726976, 0x726f6d656d203a6b, 0x415720726f662079, 0x2e65726568204953}

// allocated keeps the memory whose addresses the host has. The sandbox ends with the call, so that nothing is freed.
var allocated [][]uint64

// realloc gives the host memory for the texts that it passes. A multiple of 8 aligns everything that there is.
//
//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, _, size uint32) unsafe.Pointer {
	block := make([]uint64, size/8+1)
	allocated = append(allocated, block)
	address := unsafe.Pointer(unsafe.SliceData(block))
	if old != nil {
		copy(unsafe.Slice((*byte)(address), size), unsafe.Slice((*byte)(old), min(oldSize, size)))
	}
	return address
}

// text is a string as the canonical ABI writes it.
type text struct {
	address, size uint32
}

func (t text) String() string {
	if t.size == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(t.address))), t.size)
}

// result is the area that an exported function's result is read from.
type result struct {
	words [4]uint32
	// kept is what the words point to.
	kept []string
	list []text
}

var out result

func (r *result) text(value string) text {
	r.kept = append(r.kept, value)
	return text{uint32(uintptr(unsafe.Pointer(unsafe.StringData(value)))), uint32(len(value))}
}

func (r *result) address() unsafe.Pointer { return unsafe.Pointer(&r.words) }

// done writes result<_, error>.
func (r *result) done(err error) unsafe.Pointer {
	if err == nil {
		r.words = [4]uint32{}
		return r.address()
	}
	kind := uint32(1)
	if veto, ok := asVeto(err); ok {
		kind, err = 0, veto
	}
	message := r.text(err.Error())
	r.words = [4]uint32{1, kind, message.address, message.size}
	return r.address()
}

// changed writes result<string, error>.
func (r *result) changed(xml string, err error) unsafe.Pointer {
	if err != nil {
		return r.done(err)
	}
	changed := r.text(xml)
	r.words = [4]uint32{0, changed.address, changed.size, 0}
	return r.address()
}

// pair adds to the list of pairs.
func (r *result) pair(name, value string) { r.list = append(r.list, r.text(name), r.text(value)) }

// pairs writes result<list<tuple<string, string>>, error>.
func (r *result) pairs() unsafe.Pointer {
	list := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(r.list))))
	r.words = [4]uint32{0, list, uint32(len(r.list) / 2), 0}
	return r.address()
}

// pairs reads list<tuple<string, string>>.
func pairs(address unsafe.Pointer, count uint32) [][2]text {
	return unsafe.Slice((*[2]text)(address), count)
}

//go:wasmexport virt-hook:hooks/handler@0.1.0#describe
func exportDescribe() unsafe.Pointer {
	// The linker leaves out what nothing uses.
	allocated = append(allocated, wasiMemory[:0])
	if exported == nil {
		panic("the module exports no hook: call hooks.Export in an init function")
	}
	description := out.text(exported.Describe())
	out.words = [4]uint32{description.address, description.size}
	return out.address()
}

//go:wasmexport virt-hook:hooks/handler@0.1.0#pre-start
func exportPreStart(vmi unsafe.Pointer, vmiSize uint32) unsafe.Pointer {
	return out.done(exported.callPreStart(textAt(vmi, vmiSize)))
}

//go:wasmexport virt-hook:hooks/handler@0.1.0#pre-cloud-init-iso
func exportPreCloudInitISO(
	vmi unsafe.Pointer, vmiSize uint32,
	source unsafe.Pointer, sourceSize uint32,
	documents unsafe.Pointer, count uint32,
) unsafe.Pointer {
	cloudInit := CloudInit{DataSource: textAt(source, sourceSize)}
	for _, document := range pairs(documents, count) {
		cloudInit.Documents = append(cloudInit.Documents, Document{document[0].String(), document[1].String()})
	}
	if err := exported.callPreCloudInitISO(textAt(vmi, vmiSize), &cloudInit); err != nil {
		return out.done(err)
	}
	for _, document := range cloudInit.Documents {
		out.pair(document.Name, document.Text)
	}
	return out.pairs()
}

//go:wasmexport virt-hook:hooks/handler@0.1.0#on-define-domain
func exportOnDefineDomain(vmi unsafe.Pointer, vmiSize uint32, xml unsafe.Pointer, xmlSize uint32) unsafe.Pointer {
	return out.changed(exported.callOnDefineDomain(textAt(vmi, vmiSize), textAt(xml, xmlSize)))
}

// The optional interfaces. The host does not call what the hook does not subscribe to.

//go:wasmexport virt-hook:hooks/attach-device@0.1.1#on-attach-device
func exportOnAttachDevice(vmi unsafe.Pointer, vmiSize uint32, xml unsafe.Pointer, xmlSize uint32) unsafe.Pointer {
	return out.changed(exported.callOnAttachDevice(textAt(vmi, vmiSize), textAt(xml, xmlSize)))
}

//go:wasmexport virt-hook:hooks/migration-source@0.1.1#pre-migration-source
func exportPreMigrationSource(
	vmi unsafe.Pointer, vmiSize uint32,
	parameters unsafe.Pointer, count uint32,
) unsafe.Pointer {
	var migration Migration
	for _, parameter := range pairs(parameters, count) {
		migration.Parameters = append(migration.Parameters, Parameter{parameter[0].String(), parameter[1].String()})
	}
	if err := exported.callPreMigrationSource(textAt(vmi, vmiSize), &migration); err != nil {
		return out.done(err)
	}
	for _, parameter := range migration.Parameters {
		out.pair(parameter.Name, parameter.Value)
	}
	return out.pairs()
}

//go:wasmexport virt-hook:hooks/handler@0.1.0#shutdown
func exportShutdown() unsafe.Pointer {
	return out.done(exported.callShutdown())
}

func textAt(address unsafe.Pointer, size uint32) string {
	if size == 0 {
		return ""
	}
	return unsafe.String((*byte)(address), size)
}

//go:wasmimport virt-hook:hooks/host@0.1.0 log
//go:noescape
func importLog(level int32, message unsafe.Pointer, size uint32)

//go:wasmimport virt-hook:hooks/host@0.1.0 config
func importConfig(key unsafe.Pointer, size uint32, area unsafe.Pointer)

//go:wasmimport virt-hook:hooks/host@0.1.0 invocation
func importInvocation(key unsafe.Pointer, size uint32, area unsafe.Pointer)

var host = hostFunctions{
	log: func(level Level, message string) {
		importLog(int32(level), unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
		runtime.KeepAlive(message)
	},
	config:     func(key string) (string, bool) { return optional(importConfig, key) },
	invocation: func(key string) (string, bool) { return optional(importInvocation, key) },
}

// optional calls a function of the host that returns option<string>.
func optional(function func(unsafe.Pointer, uint32, unsafe.Pointer), key string) (string, bool) {
	area := new([3]uint32)
	function(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), unsafe.Pointer(area))
	runtime.KeepAlive(key)
	if area[0]&0xff == 0 {
		return "", false
	}
	return text{area[1], area[2]}.String(), true
}
