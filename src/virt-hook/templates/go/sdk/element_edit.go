package hooks

import "slices"

// touch marks an element, and those around it, as edited.
func (e *Element) touch() {
	for ; e != nil && !e.touched; e = e.parent {
		e.touched = true
	}
}

// SetAttr sets an attribute: in place if there is one of this name, else after the last one. It returns the element.
func (e *Element) SetAttr(name, value string) *Element {
	if !isName(name) {
		panic("`" + name + "` is not a name of an attribute")
	}
	if set := e.attribute(name); set != nil {
		if set.value(e.tag) != value {
			raw := escape(value, e.tag[set.to-1])
			e.tag = e.tag[:set.rawFrom] + raw + e.tag[set.to-1:]
			e.touch()
		}
		return e
	}
	at, quote := len(e.name), byte('\'')
	if attributes := e.attributes(); len(attributes) > 0 {
		at = attributes[len(attributes)-1].to
		quote = e.tag[at-1]
	}
	e.tag = e.tag[:at] + " " + name + "=" + string(quote) + escape(value, quote) + string(quote) + e.tag[at:]
	e.touch()
	return e
}

// RemoveAttr removes an attribute and reports whether it was there.
func (e *Element) RemoveAttr(name string) bool {
	set := e.attribute(name)
	if set == nil {
		return false
	}
	from := set.from
	for from > len(e.name) && isBlank(e.tag[from-1:from]) {
		from--
	}
	e.tag = e.tag[:from] + e.tag[set.to:]
	e.touch()
	return true
}

// SetText replaces the element's own character data; child elements and comments stay. It returns the element.
func (e *Element) SetText(text string) *Element {
	if e.Text() == text {
		return e
	}
	keepsLayout := len(e.Children()) > 0
	isText := func(n node) bool {
		return n.kind == cdataNode || n.kind == textNode && !(keepsLayout && n.isLayout())
	}
	at := max(slices.IndexFunc(e.nodes, isText), 0)
	e.nodes = slices.DeleteFunc(e.nodes, isText)
	if text != "" {
		e.nodes = slices.Insert(e.nodes, at, node{kind: textNode, raw: escape(text, 0)})
	}
	e.touch()
	return e
}

// Append adds a child after the last one, and returns the child.
func (e *Element) Append(child *Element) *Element {
	at := len(e.nodes)
	if at > 0 && e.nodes[at-1].isLayout() {
		at--
	}
	return e.place(at, child)
}

// InsertBefore adds a child before the first one named sibling, or as the last one. It returns the child.
func (e *Element) InsertBefore(sibling string, child *Element) *Element {
	for at := range e.nodes {
		if other := e.nodes[at].element; other != nil && other.canonicalName() == sibling {
			return e.placeBefore(at, child)
		}
	}
	return e.Append(child)
}

// InsertAfter adds a child after the last one named sibling, or as the last one. It returns the child.
func (e *Element) InsertAfter(sibling string, child *Element) *Element {
	for at := len(e.nodes) - 1; at >= 0; at-- {
		if other := e.nodes[at].element; other != nil && other.canonicalName() == sibling {
			return e.place(at+1, child)
		}
	}
	return e.Append(child)
}

// insertOrdered adds a child after the last one that order puts before it or that has its name.
func (e *Element) insertOrdered(child *Element, order []string) *Element {
	own := slices.Index(order, child.name)
	first := -1
	for at := len(e.nodes) - 1; at >= 0; at-- {
		if other := e.nodes[at].element; other != nil {
			if rank := slices.Index(order, other.canonicalName()); rank >= 0 && rank <= own {
				return e.place(at+1, child)
			} else if rank >= 0 {
				first = at
			}
		}
	}
	if first >= 0 {
		return e.placeBefore(first, child)
	}
	return e.Append(child)
}

func (e *Element) placeBefore(at int, child *Element) *Element {
	if at > 0 && e.nodes[at-1].isLayout() {
		at--
	}
	return e.place(at, child)
}

func (e *Element) place(at int, child *Element) *Element {
	child.Delete()
	child.parent, child.aligned = e, true
	e.nodes = slices.Insert(e.nodes, min(at, len(e.nodes)), node{kind: elementNode, element: child})
	e.touch()
	child.adoptPrefixes()
	return child
}

// EnsureChild is the first child of a name, added as the last one if there is none.
func (e *Element) EnsureChild(name string) *Element {
	if child := e.Child(name); child != nil {
		return child
	}
	return e.Append(NewElement(name))
}

// Delete removes the element, with its line, from the element around it.
func (e *Element) Delete() {
	parent := e.parent
	if parent == nil {
		return
	}
	at := slices.IndexFunc(parent.nodes, func(n node) bool { return n.element == e })
	e.parent = nil
	if at < 0 {
		return
	}
	parent.nodes = slices.Delete(parent.nodes, at, at+1)
	if at > 0 && parent.nodes[at-1].isLayout() {
		parent.nodes = slices.Delete(parent.nodes, at-1, at)
	}
	if !slices.ContainsFunc(parent.nodes, func(n node) bool { return !n.isLayout() }) {
		parent.nodes = nil
	}
	parent.touch()
}
