package hooks

import "strings"

// Paths and look-ups use canonical names: the prefix of libvirt's documentation, whatever prefix the document declares
// for that namespace. KubeVirt's metadata has a default namespace, so that its canonical prefix is empty.
var namespaces = []struct{ prefix, uri string }{
	{"qemu", "http://libvirt.org/schemas/domain/qemu/1.0"},
	{"lxc", "http://libvirt.org/schemas/domain/lxc/1.0"},
	{"bhyve", "http://libvirt.org/schemas/domain/bhyve/1.0"},
	{"xen", "http://libvirt.org/schemas/domain/xen/1.0"},
	{"libosinfo", "http://libosinfo.org/xmlns/libvirt/domain/1.0"},
	{"", "http://kubevirt.io"},
}

func canonicalPrefix(uri string) (string, bool) {
	for _, known := range namespaces {
		if known.uri == uri {
			return known.prefix, true
		}
	}
	return "", false
}

func knownURI(prefix string) string {
	for _, known := range namespaces {
		if known.prefix == prefix && prefix != "" {
			return known.uri
		}
	}
	return ""
}

func splitName(name string) (prefix, local string) {
	if prefix, local, ok := strings.Cut(name, ":"); ok {
		return prefix, local
	}
	return "", name
}

func joinName(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

// declaredPrefix is q for xmlns:q, and empty for xmlns.
func declaredPrefix(attribute string) (string, bool) {
	rest, ok := strings.CutPrefix(attribute, "xmlns")
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, ":")
}

func startsName(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' ||
		c >= 0xC0 && c != 0xD7 && c != 0xF7 && c != 0xFFFD && c != 0x37E
}

func continuesName(c rune) bool {
	return startsName(c) || c >= '0' && c <= '9' || c == '-' || c == '.' || c == 0xB7
}

func isName(name string) bool {
	for i, c := range name {
		if i == 0 && !startsName(c) || !continuesName(c) {
			return false
		}
	}
	return name != ""
}

// boundURI is the namespace that a prefix stands for inside of an element.
func (e *Element) boundURI(prefix string) (string, bool) {
	for ; e != nil; e = e.parent {
		for _, attribute := range e.attributes() {
			if declared, ok := declaredPrefix(attribute.name); ok && declared == prefix {
				return attribute.value(e.tag), true
			}
		}
	}
	return "", false
}

// canonicalName is the name with the prefix that libvirt documents for its namespace.
func (e *Element) canonicalName() string {
	prefix, local := splitName(e.name)
	if uri, ok := e.boundURI(prefix); ok {
		if canonical, ok := canonicalPrefix(uri); ok {
			return joinName(canonical, local)
		}
	}
	return e.name
}

// adoptPrefixes renames inserted elements to the prefixes of the document. They were written with canonical ones.
func (e *Element) adoptPrefixes() {
	prefix, local := splitName(e.name)
	uri := knownURI(prefix)
	if _, bound := e.boundURI(prefix); uri != "" && !bound && e.made {
		if own, ok := e.prefixOf(uri); ok {
			name := joinName(own, local)
			e.tag = name + e.tag[len(e.name):]
			e.name = name
		}
	}
	for _, child := range e.Children() {
		child.adoptPrefixes()
	}
}

// prefixOf is the innermost prefix that stands for a namespace.
func (e *Element) prefixOf(uri string) (string, bool) {
	for around := e; around != nil; around = around.parent {
		for _, attribute := range around.attributes() {
			declared, ok := declaredPrefix(attribute.name)
			if !ok || attribute.value(around.tag) != uri {
				continue
			}
			if bound, _ := e.boundURI(declared); bound == uri {
				return declared, true
			}
		}
	}
	return "", false
}
