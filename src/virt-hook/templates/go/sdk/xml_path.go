package hooks

import (
	"slices"
	"strconv"
	"strings"
)

// Paths are a small part of XPath:
//
//	/domain/devices/disk[target/@dev='vda']/driver/@queues    absolute: begins with the root
//	devices/interface[alias/@name='ua-default']               relative to the element asked
//	devices/controller[@type='scsi'][@index='0']              predicates all hold
//	os/boot[2]                                                the second <boot>
//	metadata/*/uid    qemu:commandline/qemu:*                 any name; any name of a namespace
//	/domain/sysinfo/baseBoard/**                              baseBoard and everything below it

// maxPathSteps is what the selection's state has bits for.
const maxPathSteps = 60

type path struct {
	source   string
	absolute bool
	steps    []step
	// attribute is the name behind @, if the path ends in an attribute.
	attribute string
}

// step is one level of a path; descend is **.
type step struct {
	descend    bool
	name       string
	predicates []predicate
}

// predicate is [2], [target/@dev] or [target/@dev='vda'].
type predicate struct {
	position  int
	names     []string
	attribute string
	value     string
	hasValue  bool
}

// pathReader reads a path. Paths are part of a hook's source, so that what is wrong with one panics, as in regexp's
// MustCompile.
type pathReader struct {
	path string
	at   int
}

func parsePath(source string) *path {
	r := &pathReader{path: source}
	parsed := &path{source: source, absolute: r.take("/")}
	for {
		if r.take("@") {
			parsed.attribute = r.nameTest("the name of an attribute")
			break
		}
		parsed.steps = append(parsed.steps, r.step())
		if len(parsed.steps) > maxPathSteps {
			r.expected("at most " + itoa(maxPathSteps) + " steps")
		}
		if !r.take("/") {
			break
		}
	}
	if r.at < len(source) {
		r.expected("`/`, `[` or the end of the path")
	}
	if parsed.absolute && len(parsed.steps) == 0 {
		r.expected("the name of the root element before an attribute")
	}
	return parsed
}

func (r *pathReader) expected(what string) {
	column := len([]rune(r.path[:r.at])) + 1
	panic("path `" + r.path + "`, column " + itoa(column) + ": expected " + what)
}

func (p *path) refuse(what string) { panic("path `" + p.source + "`: " + what) }

func (r *pathReader) take(token string) bool {
	found := strings.HasPrefix(r.path[r.at:], token)
	if found {
		r.at += len(token)
	}
	return found
}

func (r *pathReader) step() step {
	if r.take("**") {
		return step{descend: true}
	}
	parsed := step{name: r.nameTest("the name of an element, `*`, `**` or `@`")}
	for r.take("[") {
		parsed.predicates = append(parsed.predicates, r.predicate())
		if !r.take("]") {
			r.expected("`]`")
		}
	}
	return parsed
}

func (r *pathReader) nameTest(what string) string {
	end := strings.IndexAny(r.path[r.at:], "/[]@='\" \t\r\n")
	if end < 0 {
		end = len(r.path) - r.at
	}
	word := r.path[r.at : r.at+end]
	prefix, any := strings.CutSuffix(word, "*")
	valid := any && (prefix == "" || strings.HasSuffix(prefix, ":") && isName(prefix)) || !any && isName(word)
	if !valid {
		r.expected(what)
	}
	r.at += end
	return word
}

func (r *pathReader) exactName(what string) string {
	name := r.nameTest(what)
	if strings.HasSuffix(name, "*") {
		r.expected("a name without `*` in a predicate")
	}
	return name
}

func (r *pathReader) predicate() predicate {
	rest := r.path[r.at:]
	if digits := len(rest) - len(strings.TrimLeft(rest, "0123456789")); digits > 0 {
		position, err := strconv.Atoi(rest[:digits])
		if err != nil || position < 1 {
			r.expected("a position from 1")
		}
		r.at += digits
		return predicate{position: position}
	}
	var parsed predicate
	if !r.take("text()") {
		for {
			if r.take("@") {
				parsed.attribute = r.exactName("the name of an attribute")
				break
			}
			parsed.names = append(parsed.names, r.exactName("a position, a name or `@`"))
			if !r.take("/") {
				break
			}
		}
	}
	if parsed.hasValue = r.take("="); parsed.hasValue {
		rest := r.path[r.at:]
		if rest == "" || rest[0] != '\'' && rest[0] != '"' {
			r.expected("a value in quotes")
		}
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 {
			r.expected("a value whose quotes are closed")
		}
		parsed.value = rest[1 : end+1]
		r.at += end + 2
	}
	return parsed
}

func accepts(test, name string) bool {
	prefix, any := strings.CutSuffix(test, "*")
	return any && strings.HasPrefix(name, prefix) || test == name
}

// locate walks from an element, with the path's steps as bits of a state, and calls found for every selected element
// in document order until that returns false.
//
// An absolute path that begins with another element panics: it selects nothing in any document.
func (p *path) locate(from *Element, found func(*Element) bool) {
	if from == nil {
		return
	}
	p.mustBeginWith(from)
	state := p.closure(1)
	if p.absolute {
		state = p.advance(state, from, make([]int, len(p.steps)))
	}
	p.walk(from, state, found)
}

func (p *path) walk(e *Element, state uint64, found func(*Element) bool) bool {
	if state&(1<<len(p.steps)) != 0 && p.selects(e) && !found(e) {
		return false
	}
	if state == 0 {
		return true
	}
	counters := make([]int, len(p.steps))
	for _, child := range e.Children() {
		if !p.walk(child, p.advance(state, child, counters), found) {
			return false
		}
	}
	return true
}

func (p *path) selects(e *Element) bool {
	return p.attribute == "" || slices.ContainsFunc(e.attributes(), func(a attribute) bool {
		return accepts(p.attribute, a.name)
	})
}

// closure adds the states behind **, which also matches no level.
func (p *path) closure(state uint64) uint64 {
	for at := range p.steps {
		if p.steps[at].descend && state>>at&1 == 1 {
			state |= 1 << (at + 1)
		}
	}
	return state
}

// advance is the state inside of a child.
func (p *path) advance(state uint64, child *Element, counters []int) uint64 {
	next := uint64(0)
	for at := range p.steps {
		step := &p.steps[at]
		switch {
		case state>>at&1 == 0:
		case step.descend:
			next |= 1 << at
		case accepts(step.name, child.canonicalName()):
			counters[at]++
			if step.holds(child, counters[at]) {
				next |= 1 << (at + 1)
			}
		}
	}
	return p.closure(next)
}

func (s *step) holds(e *Element, position int) bool {
	for i := range s.predicates {
		predicate := &s.predicates[i]
		if predicate.position > 0 {
			if predicate.position != position {
				return false
			}
		} else if !predicate.holds(e, predicate.names) {
			return false
		}
	}
	return true
}

func (p *predicate) holds(e *Element, names []string) bool {
	if len(names) > 0 {
		return slices.ContainsFunc(e.Children(), func(child *Element) bool {
			return child.canonicalName() == names[0] && p.holds(child, names[1:])
		})
	}
	if p.attribute == "" {
		return !p.hasValue || e.Text() == p.value
	}
	value, ok := e.Attr(p.attribute)
	return ok && (!p.hasValue || value == p.value)
}

// Find is the first element that a path selects, or nil. A path that ends in an attribute selects the elements that
// have it.
func (e *Element) Find(path string) *Element {
	var first *Element
	parsePath(path).locate(e, func(found *Element) bool { first = found; return false })
	return first
}

// FindAll are all elements that a path selects, in document order.
func (e *Element) FindAll(path string) []*Element {
	var all []*Element
	parsePath(path).locate(e, func(found *Element) bool { all = append(all, found); return true })
	return all
}

// Value is the first value that a path selects: an attribute's, or an element's text.
func (e *Element) Value(path string) (value string, ok bool) {
	parsed := parsePath(path)
	parsed.locate(e, func(found *Element) bool {
		value, ok = found.Text(), true
		if parsed.attribute != "" {
			for _, attribute := range found.attributes() {
				if accepts(parsed.attribute, attribute.name) {
					value = attribute.value(found.tag)
					break
				}
			}
		}
		return false
	})
	return value, ok
}

// Ensure is the element that a path selects. Missing elements are made so that the path selects them:
// sysinfo[@type='smbios']/baseBoard adds a <sysinfo type='smbios'>.
func (e *Element) Ensure(path string) *Element {
	parsed := parsePath(path)
	if parsed.attribute != "" {
		parsed.refuse("it selects an attribute, but an element is wanted")
	}
	return parsed.ensure(e)
}

// Set sets the attribute or the text that a path selects. Missing elements are made, as by [Element.Ensure].
func (e *Element) Set(path, value string) {
	parsed := parsePath(path)
	switch {
	case parsed.attribute == "":
		parsed.ensure(e).SetText(value)
	case strings.HasSuffix(parsed.attribute, "*"):
		parsed.refuse("nothing can be made from `*`")
	default:
		parsed.ensure(e).SetAttr(parsed.attribute, value)
	}
}

// SetIfAbsent sets the attribute or text at a path unless it has a value, and reports whether it was set.
func (e *Element) SetIfAbsent(path, value string) bool {
	_, present := e.Value(path)
	if !present {
		e.Set(path, value)
	}
	return !present
}

// Remove removes everything that a path selects, with its lines, and returns how much that was.
func (e *Element) Remove(path string) int {
	parsed := parsePath(path)
	removed := 0
	for _, found := range slices.Backward(e.FindAll(path)) {
		if parsed.attribute == "" {
			if found != e {
				found.Delete()
				removed++
			}
			continue
		}
		for _, attribute := range found.attributes() {
			if accepts(parsed.attribute, attribute.name) && found.RemoveAttr(attribute.name) {
				removed++
			}
		}
	}
	return removed
}

func (p *path) ensure(e *Element) *Element {
	p.mustBeDefinite()
	steps := p.steps
	p.mustBeginWith(e)
	if p.absolute {
		steps = steps[1:]
	}
	for i := range steps {
		e = steps[i].ensure(e)
	}
	return e
}

func (p *path) mustBeginWith(e *Element) {
	if p.absolute && !p.steps[0].descend && !accepts(p.steps[0].name, e.canonicalName()) {
		p.refuse("the element is <" + e.name + ">, not what the path begins with")
	}
}

func (p *path) mustBeDefinite() {
	for i := range p.steps {
		step := &p.steps[i]
		definite := !step.descend && !strings.HasSuffix(step.name, "*")
		for _, predicate := range step.predicates {
			definite = definite && predicate.position == 0 && predicate.hasValue
		}
		if !definite {
			p.refuse("nothing can be made from it: name every element and give every predicate a value")
		}
	}
}

func (s *step) ensure(parent *Element) *Element {
	for _, child := range parent.Children() {
		if child.canonicalName() == s.name && s.holds(child, 0) {
			return child
		}
	}
	made := NewElement(s.name)
	for _, predicate := range s.predicates {
		place := made
		for _, name := range predicate.names {
			place = place.EnsureChild(name)
		}
		if predicate.attribute != "" {
			place.SetAttr(predicate.attribute, predicate.value)
		} else {
			place.SetText(predicate.value)
		}
	}
	return parent.Append(made)
}
