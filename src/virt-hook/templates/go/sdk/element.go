package hooks

import "strings"

// Element is an element of the domain, with its attributes and children.
//
// Parts that an edit does not name keep their bytes: quotes, white space, comments and the order of everything.
// Inserted elements are indented like their neighbours. Names are those of libvirt's documentation:
// "qemu:commandline" finds the element whatever prefix the document has for that namespace.
//
// The methods that look something up work on a nil element too, and find nothing.
type Element struct {
	parent *Element
	name   string
	// tag is the start tag without < and >.
	tag   string
	nodes []node
	// raw is the text of an element that was read.
	raw      string
	endSpace string
	hasEnd   bool
	// touched is whether the element, or something in it, was edited.
	touched bool
	// made is whether an edit created the element, aligned whether rendering writes it on a line of its own.
	made, aligned bool
}

type nodeKind int

const (
	textNode nodeKind = iota
	cdataNode
	// otherNode is a comment or a processing instruction.
	otherNode
	elementNode
)

// node is a part of an element's content, escaped.
type node struct {
	kind    nodeKind
	raw     string
	element *Element
}

// isLayout reports whether a node is white space that only indents elements.
func (n *node) isLayout() bool { return n.kind == textNode && isBlank(n.raw) }

// NewElement is an element without attributes and content. It panics if the name is invalid.
func NewElement(name string) *Element {
	if !isName(name) {
		panic("`" + name + "` is not a name of an element")
	}
	return &Element{name: name, tag: name, made: true, touched: true}
}

// ParseElement is the element that an XML text describes. It is laid out like its new siblings when it is inserted;
// comments are left out.
func ParseElement(xml string) (*Element, error) {
	read, err := parseDocument(xml)
	if err != nil {
		return nil, err
	}
	return read.root.copied(), nil
}

// MustParseElement is [ParseElement] for texts of the hook's own: it panics where that fails.
func MustParseElement(xml string) *Element {
	element, err := ParseElement(xml)
	if err != nil {
		panic(err)
	}
	return element
}

// copied is the same element without the layout of its text.
func (e *Element) copied() *Element {
	made := NewElement(e.name)
	for _, attribute := range e.attributes() {
		made.SetAttr(attribute.name, attribute.value(e.tag))
	}
	if e.hasText() {
		made.SetText(e.textOf(func(n *node) bool { return !n.isLayout() }))
	}
	for _, child := range e.Children() {
		made.Append(child.copied())
	}
	return made
}

// Name is the name, with the prefix that libvirt documents for its namespace.
func (e *Element) Name() string {
	if e == nil {
		return ""
	}
	return e.canonicalName()
}

// attribute is the place of an attribute in a start tag.
type attribute struct {
	name string
	// from and to include the name and the quotes, rawFrom and to-1 the value.
	from, rawFrom, to int
}

func (a *attribute) value(tag string) string { return unescape(tag[a.rawFrom:a.to-1], true) }

func (e *Element) attributes() []attribute {
	p := parser{text: e.tag, at: len(e.name)}
	var found []attribute
	for {
		p.space()
		from := p.at
		name := p.name()
		if name == "" {
			return found
		}
		p.space()
		p.take("=")
		p.space()
		rawFrom := p.at + 1
		to := rawFrom + strings.IndexByte(e.tag[rawFrom:], e.tag[rawFrom-1]) + 1
		found = append(found, attribute{name, from, rawFrom, to})
		p.at = to
	}
}

func (e *Element) attribute(name string) *attribute {
	for _, attribute := range e.attributes() {
		if attribute.name == name {
			return &attribute
		}
	}
	return nil
}

// Attr returns the value of an attribute.
func (e *Element) Attr(name string) (value string, ok bool) {
	if e == nil {
		return "", false
	}
	attribute := e.attribute(name)
	if attribute == nil {
		return "", false
	}
	return attribute.value(e.tag), true
}

// Text is the element's own character data; not its children's.
func (e *Element) Text() string {
	if e == nil {
		return ""
	}
	return e.textOf(func(*node) bool { return true })
}

func (e *Element) textOf(counts func(*node) bool) string {
	var out strings.Builder
	for i := range e.nodes {
		n := &e.nodes[i]
		switch {
		case !counts(n):
		case n.kind == textNode:
			out.WriteString(unescape(n.raw, false))
		case n.kind == cdataNode:
			text := strings.TrimSuffix(strings.TrimPrefix(n.raw, "<![CDATA["), "]]>")
			out.WriteString(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
		}
	}
	return out.String()
}

// hasText reports whether there is character data that does more than indent.
func (e *Element) hasText() bool {
	for i := range e.nodes {
		n := &e.nodes[i]
		if n.kind == cdataNode || n.kind == textNode && !n.isLayout() {
			return true
		}
	}
	return false
}

// Children are the child elements, in document order.
func (e *Element) Children() []*Element {
	var found []*Element
	if e == nil {
		return nil
	}
	for i := range e.nodes {
		if child := e.nodes[i].element; child != nil {
			found = append(found, child)
		}
	}
	return found
}

// Child is the first child of a name, or nil.
func (e *Element) Child(name string) *Element {
	for _, child := range e.Children() {
		if child.canonicalName() == name {
			return child
		}
	}
	return nil
}

// String is the element as XML.
func (e *Element) String() string {
	var out strings.Builder
	render(e, nil, "", &out)
	return out.String()
}
