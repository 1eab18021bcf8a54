package hooks

import "slices"

// orders are the few elements whose children have an order in libvirt's schema.
var orders = []struct {
	parent   string
	children []string
}{
	{"resource", []string{"partition", "fibrechannel"}},
	{"model", []string{"acceleration", "resolution"}},
	{"source", []string{"vendor", "product", "address"}},
	{"source", []string{"slices", "dataStore"}},
	{"source", []string{"reconnect", "clipboard", "mouse", "seclabel"}},
	{"launchSecurity", []string{"cbitpos", "reducedPhysBits"}},
}

// Insert adds a child to the element at parent, which is made if it is missing: where libvirt's schema has an order
// there, else as the last one. It returns the child.
func (e *Element) Insert(parent string, child *Element) *Element {
	place := e
	if parent != "" {
		place = e.Ensure(parent)
	}
	for _, order := range orders {
		if place.Name() == order.parent && slices.Contains(order.children, child.name) {
			return place.insertOrdered(child, order.children)
		}
	}
	return place.Append(child)
}

// InsertIfAbsent adds an element unless the path selects one, and reports whether it was added. The path must select
// what is added, so that a second run of the hook adds nothing.
func (e *Element) InsertIfAbsent(path string, element *Element) bool {
	if e.Find(path) != nil {
		return false
	}
	made := e.Insert(parentPath(path), element)
	if e.Find(path) == nil {
		panic("path `" + path + "` does not select " + made.String() + ", which was added for it")
	}
	return true
}

// parentPath is a path without its last step. Slashes in predicates separate nothing.
func parentPath(path string) string {
	depth, quote, last := 0, rune(0), 0
	for at, c := range path {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == '/' && depth == 0:
			last = at
		}
	}
	return path[:last]
}
