package hooks

import (
	"errors"
	"slices"
	"strings"
)

// The part of the host's rules on wishes that native tests check: a change of the domain needs an entry of the hook's
// Paths that covers it. An attribute's path covers its value, an element's path the element with its text and attributes,
// one that ends in ** all of these and what is inside. An element without attributes and text is covered by what is in it.
// The host besides checks the conditions of paths and that a new parent is nothing but a container, and refuses wildcards
// for what is dangerous, predicates that fit several siblings, and another order of children: the cases find that.

// content is something that an element has: itself, an attribute or a text.
type content struct {
	path, part, value string
}

func (c *content) isAttribute() bool { return strings.HasPrefix(c.part, "@") }

// documentContents are the contents of a document in its order, and the elements that have each.
type documentContents struct {
	order   []content
	holders map[content][]*Element
}

func contentsOf(root *Element) *documentContents {
	contents := &documentContents{holders: map[content][]*Element{}}
	contents.add(root, "/"+root.Name())
	return contents
}

func (d *documentContents) add(e *Element, path string) {
	put := func(part, value string) {
		one := content{path, part, value}
		if d.holders[one] == nil {
			d.order = append(d.order, one)
		}
		d.holders[one] = append(d.holders[one], e)
	}
	put("", "")
	for _, attribute := range e.attributes() {
		if !strings.HasPrefix(attribute.name, "xmlns") {
			put("@"+attribute.name, attribute.value(e.tag))
		}
	}
	if text := strings.TrimSpace(e.Text()); text != "" {
		put("text", text)
	}
	for _, child := range e.Children() {
		d.add(child, path+"/"+child.Name())
	}
}

// selection is what a path of the hook selects in a document.
type selection struct {
	path     *path
	elements map[*Element]bool
}

func (s *selection) covers(one *content, e *Element) bool {
	switch last := s.path.steps[len(s.path.steps)-1]; {
	case !s.elements[e]:
		return false
	case s.path.attribute != "":
		return one.isAttribute() && accepts(s.path.attribute, one.part[1:])
	default:
		// A path that ends in * covers elements alone.
		return last.descend || !one.isAttribute() || !strings.HasSuffix(last.name, "*")
	}
}

// isBareParent reports whether an element is there for its children alone.
func isBareParent(e *Element) bool {
	return len(e.Children()) > 0 && len(e.attributes()) == 0 && strings.TrimSpace(e.Text()) == ""
}

// checkPaths refuses a difference of two documents that no path covers.
func checkPaths(paths []string, before, after *Element) error {
	old, changed := contentsOf(before), contentsOf(after)
	if err := changed.checkAgainst(old, paths, after); err != nil {
		return err
	}
	return old.checkAgainst(changed, paths, before)
}

// checkAgainst refuses what this document has and the other one has not, and no path covers.
func (d *documentContents) checkAgainst(other *documentContents, paths []string, root *Element) error {
	var selections []selection
	for _, source := range paths {
		parsed := parsePath(source)
		selected := selection{parsed, map[*Element]bool{}}
		parsed.locate(root, func(found *Element) bool { selected.elements[found] = true; return true })
		selections = append(selections, selected)
	}
	for i := range d.order {
		one := &d.order[i]
		surplus := len(d.holders[*one]) - len(other.holders[*one])
		for _, e := range d.holders[*one] {
			if one.part == "" && isBareParent(e) || slices.ContainsFunc(selections, func(s selection) bool { return s.covers(one, e) }) {
				surplus--
			}
		}
		if surplus > 0 {
			return errors.New(d.refusal(one, other))
		}
	}
	return nil
}

func (d *documentContents) refusal(one *content, other *documentContents) string {
	own := one.path
	if one.isAttribute() {
		own += "/" + one.part
	}
	wish := own
	// An element that comes or goes with attributes or children is covered as a whole.
	steps := strings.Split(one.path, "/")
	for count := 2; count <= len(steps); count++ {
		top := content{path: strings.Join(steps[:count], "/")}
		if len(d.holders[top]) <= len(other.holders[top]) {
			continue
		}
		wish = top.path
		if slices.ContainsFunc(d.order, func(inside content) bool {
			return inside.path == top.path && inside.isAttribute() || strings.HasPrefix(inside.path, top.path+"/")
		}) {
			wish += "/**"
		}
		break
	}
	if one.value != "" {
		own += " (" + one.value + ")"
	}
	return "the hook changes " + own + ", which none of its Paths covers, so that the host denies it: add \"" + wish + "\" to Paths"
}

// declares reports whether a pattern of the hook's PodFacts fits the name of a fact.
func (h *Hook) declares(fact string) bool {
	return slices.ContainsFunc(h.PodFacts, func(pattern string) bool { return fits(pattern, fact) })
}

// fits reports whether a pattern, with * for any characters, describes a name.
func fits(pattern, name string) bool {
	first, rest, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	for name = name[len(first):]; ; name = name[1:] {
		if fits(rest, name) {
			return true
		}
		if name == "" {
			return false
		}
	}
}
