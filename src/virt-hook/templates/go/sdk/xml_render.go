package hooks

import (
	"slices"
	"strings"
)

// layout is how a document breaks its lines.
type layout struct {
	line string
	// unit is one level of indentation; empty if the document is on one line.
	unit string
}

func layoutOf(root *Element) *layout {
	for i := range root.nodes {
		raw := root.nodes[i].raw
		at := strings.LastIndexByte(raw, '\n')
		if !root.nodes[i].isLayout() || at < 0 {
			continue
		}
		found := layout{"\n", raw[at+1:]}
		if strings.HasSuffix(raw[:at], "\r") {
			found.line = "\r\n"
		}
		if found.unit == "" {
			found.unit = "  "
		}
		return &found
	}
	return nil
}

// render writes an element. What was not edited is copied.
func render(e *Element, layout *layout, declarations string, out *strings.Builder) {
	start := out.Len()
	if !e.touched {
		out.WriteString(e.raw)
		return
	}
	written := strings.TrimRight(e.tag, " \t\r\n")
	out.WriteString("<" + written + declarations + e.tag[len(written):])
	if len(e.nodes) == 0 && !e.hasEnd {
		out.WriteString("/>")
		return
	}
	out.WriteString(">")
	indent, begins := lineIndent(out, start, e)
	below, breaks := childrenIndent(e, layout, indent, begins)
	aligned := false
	for i := range e.nodes {
		n := &e.nodes[i]
		aligned = n.element != nil && n.element.aligned && breaks
		switch {
		case n.element == nil:
			out.WriteString(n.raw)
		case aligned:
			out.WriteString(layout.line + below)
			render(n.element, layout, "", out)
		default:
			render(n.element, layout, "", out)
		}
	}
	if aligned && begins {
		out.WriteString(layout.line + indent)
	}
	out.WriteString("</" + e.name + e.endSpace + ">")
}

// lineIndent is the white space before an element whose start tag begins a line.
func lineIndent(out *strings.Builder, start int, e *Element) (indent string, begins bool) {
	before := out.String()[:start]
	line := strings.TrimRight(before, " \t")
	return before[len(line):], line == "" || strings.HasSuffix(line, "\n")
}

// childrenIndent is the indentation of inserted children; ok is false if they share a line.
func childrenIndent(e *Element, layout *layout, own string, begins bool) (indent string, ok bool) {
	if layout == nil || e.hasText() {
		return "", false
	}
	for i := range e.nodes {
		child := e.nodes[i].element
		if child == nil || child.aligned {
			continue
		}
		if i > 0 && e.nodes[i-1].isLayout() {
			if at := strings.LastIndexByte(e.nodes[i-1].raw, '\n'); at >= 0 {
				return e.nodes[i-1].raw[at+1:], true
			}
		}
		ok = true
	}
	if ok || !begins {
		return "", false
	}
	return own + layout.unit, true
}

// missingDeclarations are those of known prefixes that inserted elements use. They go to the root, where libvirt reads
// them.
func missingDeclarations(root *Element) string {
	quote := "'"
	if attributes := root.attributes(); len(attributes) > 0 {
		quote = root.tag[attributes[0].to-1 : attributes[0].to]
	}
	var prefixes []string
	out := ""
	var visit func(*Element)
	visit = func(e *Element) {
		if !e.touched {
			return
		}
		prefix, _ := splitName(e.name)
		_, bound := e.boundURI(prefix)
		if uri := knownURI(prefix); e.made && uri != "" && !bound && !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
			out += " xmlns:" + prefix + "=" + quote + uri + quote
		}
		for _, child := range e.Children() {
			visit(child)
		}
	}
	visit(root)
	return out
}
