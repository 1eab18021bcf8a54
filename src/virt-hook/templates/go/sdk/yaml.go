package hooks

import (
	"slices"
	"strings"
)

// CloudInitError is why a text cannot be edited as YAML or as #cloud-config, or why a file cannot be added. The text is
// unchanged.
type CloudInitError string

// Error is the text.
func (e CloudInitError) Error() string { return string(e) }

// YAML is a YAML document whose top level is a mapping, edited in its text form: comments and everything that is not
// edited are kept. An edit that is not safe in the text form is refused.
//
// Paths are names joined by dots, ['a.b/c'] for a name with dots or slashes. Values are string, bool, int, []string,
// [Members], or lists of values ([]any).
type YAML struct {
	lines   []string
	lineEnd string
}

// Member is a key with its value.
type Member struct {
	Name  string
	Value any
}

// Members is a mapping, in the order in which it is written.
type Members []Member

// yamlKey is a key's line, and where its value begins on that line.
type yamlKey struct{ line, value int }

// ParseYAML reads a document.
func ParseYAML(text string) *YAML {
	y := &YAML{lineEnd: "\n", lines: strings.Split(text, "\n")}
	if strings.HasSuffix(y.lines[0], "\r") {
		y.lineEnd = "\r\n"
	}
	if last := len(y.lines) - 1; y.lines[last] == "" {
		y.lines = y.lines[:last]
	}
	for i, line := range y.lines {
		y.lines[i] = strings.TrimSuffix(line, "\r")
	}
	return y
}

// String is the document as text.
func (y *YAML) String() string {
	var out strings.Builder
	for _, line := range y.lines {
		out.WriteString(line + y.lineEnd)
	}
	return out.String()
}

// Contains reports whether a key is there.
func (y *YAML) Contains(path string) (bool, error) {
	found, _, err := y.look(path)
	return found != nil, err
}

// Text is the text or number of a key; ok is false if the key is missing, or has another kind of value.
func (y *YAML) Text(path string) (text string, ok bool) {
	found, _, err := y.look(path)
	if found == nil || err != nil {
		return "", false
	}
	return inlineText(y.written(*found))
}

// Set sets a key to a value. The key and its parents are added if they are missing. The same value again changes nothing,
// not even the quotes.
func (y *YAML) Set(path string, value any) error {
	scope, name, err := y.ensureParent(path)
	if err != nil {
		return err
	}
	found, err := y.find(scope, name)
	if err != nil {
		return err
	}
	if found == nil {
		if err := y.mayEnd(scope, name); err != nil {
			return err
		}
		y.lines = slices.Insert(y.lines, scope.end, yamlEntry(name, value, scope.indent)...)
		return nil
	}
	if err := y.isFree(*found, name); err != nil {
		return err
	}
	written, end := y.written(*found), endOfValue(y.lines, found.line, scope.indent)
	if end == found.line+1 && isWritten(written, value) {
		return nil
	}
	entry := yamlEntry(name, value, scope.indent)
	if len(entry) == 1 {
		// The key stays as it was written, and the comment behind it.
		key, comment := y.lines[found.line][:found.value], ""
		if stop := inlineEnd(written); stop >= 0 {
			comment = written[stop:]
		}
		if !strings.HasSuffix(key, " ") {
			key += " "
		}
		entry = []string{key + yamlJSON(value) + comment}
	}
	y.lines = slices.Replace(y.lines, found.line, end, entry...)
	return nil
}

// Add adds an item to the list at a key, unless the list has it: a text or number in whatever notation, anything else as an
// earlier call wrote it. The key is added if it is missing.
func (y *YAML) Add(path string, item any) error {
	return y.addLines(path, item, yamlJSON(item), func(pad string) []string { return yamlItem(item, pad) })
}

// Remove removes a key and its value, and reports whether it was there.
func (y *YAML) Remove(path string) (bool, error) {
	found, scope, err := y.look(path)
	if found == nil || err != nil {
		return false, err
	}
	if err := y.isFree(*found, path); err != nil {
		return false, err
	}
	y.lines = slices.Delete(y.lines, found.line, endOfValue(y.lines, found.line, scope.indent))
	return true, nil
}

func (y *YAML) addLines(path string, item any, flow string, block func(pad string) []string) error {
	scope, name, err := y.ensureParent(path)
	if err != nil {
		return err
	}
	found, err := y.find(scope, name)
	if err != nil {
		return err
	}
	if found == nil {
		if err := y.mayEnd(scope, name); err != nil {
			return err
		}
		added := append([]string{spaces(scope.indent) + yamlName(name) + ":"}, block(spaces(scope.indent+2))...)
		y.lines = slices.Insert(y.lines, scope.end, added...)
		return nil
	}
	refused := CloudInitError("line " + itoa(found.line+1) + ": " + name + " is not a list that an item can be added to")
	if !isIdle(y.written(*found)) {
		if !y.addToFlow(*found, item, flow) {
			return refused
		}
		return nil
	}
	kind, list := below(y.lines, found.line, scope.indent)
	switch kind {
	case nothingBelow:
		list = yamlScope{found.line + 1, found.line + 1, scope.indent + 2}
	case listBelow:
	default:
		return refused
	}
	for at := list.begin; at < list.end; at++ {
		written, ok := strings.CutPrefix(y.lines[at], spaces(list.indent)+"- ")
		if ok && isItemWritten(written, item) && !goesOn(y.lines[at+1:list.end], list.indent) {
			return nil
		}
	}
	added := block(spaces(list.indent))
	for at := list.begin; at+len(added) <= list.end; at++ {
		if slices.Equal(y.lines[at:at+len(added)], added) {
			return nil
		}
	}
	y.lines = slices.Insert(y.lines, list.end, added...)
	return nil
}

// addToFlow adds to `key: [a, b]` on one line.
func (y *YAML) addToFlow(found yamlKey, item any, flow string) bool {
	written := y.written(found)
	end := inlineEnd(written)
	if end < 2 || written[0] != '[' || inlineClose(written[:end]) != end-1 {
		return false
	}
	list := written[:end]
	for _, written := range inlineItems(list[1 : end-1]) {
		if isItemWritten(written, item) {
			return true
		}
	}
	separator := ", "
	switch inside := strings.TrimSpace(list[1 : end-1]); {
	case inside == "":
		separator = ""
	case strings.HasSuffix(inside, ","):
		// YAML allows a comma after the last item, and no second one.
		separator = " "
	}
	line, at := y.lines[found.line], found.value+end-1
	y.lines[found.line] = line[:at] + separator + flow + line[at:]
	return true
}

func (y *YAML) written(key yamlKey) string { return y.lines[key.line][key.value:] }

func (y *YAML) top() yamlScope { return yamlScope{0, len(y.lines), 0} }

// look finds the key at a path, and the mapping that the key is in.
func (y *YAML) look(path string) (*yamlKey, yamlScope, error) {
	names, err := yamlNames(path)
	scope := y.top()
	var found *yamlKey
	for at, name := range names {
		if at > 0 {
			inside, err := y.mapping(*found, scope, names[at-1])
			if inside == nil || err != nil {
				return nil, scope, err
			}
			scope = *inside
		}
		if found, err = y.find(scope, name); found == nil || err != nil {
			return nil, scope, err
		}
	}
	return found, scope, err
}

// ensureParent is the mapping that a path's last name belongs to. Missing keys are added.
func (y *YAML) ensureParent(path string) (yamlScope, string, error) {
	names, err := yamlNames(path)
	scope := y.top()
	if err != nil {
		return scope, "", err
	}
	last := len(names) - 1
	for at, name := range names[:last] {
		found, err := y.find(scope, name)
		if err != nil {
			return scope, "", err
		}
		if found == nil {
			err := y.mayEnd(scope, name)
			if err == nil {
				scope = y.addKeys(scope, names[at:last])
			}
			return scope, names[last], err
		}
		y.open(found)
		inside, err := y.mapping(*found, scope, name)
		if err != nil {
			return scope, "", err
		}
		if inside == nil {
			inside = &yamlScope{found.line + 1, found.line + 1, scope.indent + 2}
		}
		scope = *inside
	}
	return scope, names[last], nil
}

func (y *YAML) addKeys(scope yamlScope, names []string) yamlScope {
	for _, name := range names {
		y.lines = slices.Insert(y.lines, scope.end, spaces(scope.indent)+yamlName(name)+":")
		scope = yamlScope{scope.end + 1, scope.end + 1, scope.indent + 2}
	}
	return scope
}

// open replaces `key: {}` by `key:`.
func (y *YAML) open(found *yamlKey) {
	line, end := y.lines[found.line], inlineEnd(y.written(*found))
	if end < 0 || line[found.value:found.value+end] != "{}" {
		return
	}
	rest := line[found.value+end:]
	y.lines[found.line] = strings.TrimRight(line[:found.value], " \t") + rest
	// What is left there, if anything, is a comment.
	found.value = len(y.lines[found.line]) - len(strings.TrimLeft(rest, " \t"))
}

// mapping is the mapping of a key, or nil if the key has no value.
func (y *YAML) mapping(found yamlKey, scope yamlScope, key string) (*yamlScope, error) {
	kind, inside := below(y.lines, found.line, scope.indent)
	idle := isIdle(y.written(found))
	switch {
	case idle && kind == nothingBelow:
		return nil, nil
	case idle && kind == mappingBelow:
		return &inside, nil
	}
	return nil, CloudInitError("line " + itoa(found.line+1) + ": " + key + " is not a mapping that a key can be added to")
}

func (y *YAML) find(scope yamlScope, name string) (*yamlKey, error) {
	var found *yamlKey
	for at := scope.begin; at < scope.end; at++ {
		line := y.lines[at]
		if yamlDepth(line) != scope.indent {
			continue
		}
		key, value, ok := splitKey(line[scope.indent:])
		if !ok || key != name {
			continue
		}
		if found != nil {
			return nil, CloudInitError("the key " + name + " is there twice")
		}
		found = &yamlKey{at, scope.indent + value}
	}
	return found, nil
}

// isFree refuses anchors, aliases and tags, which tie a value to others.
func (y *YAML) isFree(found yamlKey, key string) error {
	if written := y.written(found); written != "" && strings.IndexByte("&*!", written[0]) >= 0 {
		return CloudInitError("line " + itoa(found.line+1) + ": " + key + " has an anchor, an alias or a tag and is not replaced")
	}
	return nil
}

// mayEnd refuses to add a key at the top level if the text does not end with its only mapping.
func (y *YAML) mayEnd(scope yamlScope, key string) error {
	if scope != y.top() {
		return nil
	}
	idle := true
	for at, line := range y.lines {
		begins := strings.TrimRight(line, " \t") == "---" && idle
		odd := strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")
		if _, _, ok := splitKey(line); line != "" && strings.IndexByte("{[%!|>\"'&*?", line[0]) >= 0 && !ok {
			odd = true
		}
		if odd && !begins {
			return CloudInitError("line " + itoa(at+1) + ": " + key + " is not a mapping that a key can be added to")
		}
		idle = idle && isIdle(line)
	}
	return nil
}
