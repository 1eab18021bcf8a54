package hooks

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This is a reader of JSON of its own because encoding/json doubles the size of a module, and with it the time that the
// host takes to compile it. A hook may use encoding/json all the same.

// maxJSONDepth is how deep lists and objects may nest.
const maxJSONDepth = 200

// Value is a value of a JSON document: a text, a number, true or false, a list, an object, or nothing.
type Value struct {
	value any
}

// number is a number as it is written.
type number string

type member struct {
	name  string
	value any
}

// object has its members in order.
type object []member

// Exists reports whether there is a value that is not null.
func (v Value) Exists() bool { return v.value != nil }

// Text returns a text; ok is false for everything else.
func (v Value) Text() (text string, ok bool) {
	text, ok = v.value.(string)
	return text, ok
}

// Int returns an integer; ok is false for everything else.
func (v Value) Int() (value int64, ok bool) {
	text, ok := v.value.(number)
	if !ok {
		return 0, false
	}
	value, err := strconv.ParseInt(string(text), 10, 64)
	return value, err == nil
}

// IsTrue reports whether the value is true.
func (v Value) IsTrue() bool { return v.value == true }

// IsFalse reports whether the value is false, and not merely absent.
func (v Value) IsFalse() bool { return v.value == false }

// Items are the items of a list.
func (v Value) Items() []Value {
	list, _ := v.value.([]any)
	items := make([]Value, len(list))
	for i, item := range list {
		items[i] = Value{item}
	}
	return items
}

// Names are the names of an object's members, in order.
func (v Value) Names() []string {
	members, _ := v.value.(object)
	names := make([]string, len(members))
	for i, member := range members {
		names[i] = member.name
	}
	return names
}

// Member is a member of an object.
func (v Value) Member(name string) Value {
	members, _ := v.value.(object)
	// As in most readers, the last of several members of one name counts.
	for i := len(members) - 1; i >= 0; i-- {
		if members[i].name == name {
			return Value{members[i].value}
		}
	}
	return Value{}
}

// Get returns the value at a path: names joined by dots, [0] for an item of a list, ['a.b/c'] for a name with dots,
// [name=root] for the item of a list with that member. A path that is none panics.
func (v Value) Get(path string) Value {
	rest := path
	invalid := func() { panic("path `" + path + "`: names joined by dots, [0], ['a.b'] or [name=root] are expected") }
	for rest != "" {
		if inside, ok := strings.CutPrefix(rest, "["); ok {
			if inside != "" && (inside[0] == '\'' || inside[0] == '"') {
				name, after, ok := strings.Cut(inside[1:], inside[:1])
				if !ok || !strings.HasPrefix(after, "]") {
					invalid()
				}
				v, rest = v.Member(name), after[1:]
				continue
			}
			selector, after, ok := strings.Cut(inside, "]")
			if !ok {
				invalid()
			}
			rest = after
			if name, wanted, ok := strings.Cut(selector, "="); ok {
				v = v.itemWith(name, strings.Trim(wanted, `'"`))
			} else if index, err := strconv.Atoi(selector); err == nil && index >= 0 {
				v = v.item(index)
			} else {
				invalid()
			}
			continue
		}
		if len(rest) < len(path) {
			after, ok := strings.CutPrefix(rest, ".")
			if !ok {
				invalid()
			}
			rest = after
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			invalid()
		}
		v, rest = v.Member(rest[:end]), rest[end:]
	}
	return v
}

func (v Value) item(index int) Value {
	list, _ := v.value.([]any)
	if index >= len(list) {
		return Value{}
	}
	return Value{list[index]}
}

func (v Value) itemWith(name, wanted string) Value {
	for _, item := range v.Items() {
		if text, ok := item.Member(name).Text(); ok && text == wanted {
			return item
		}
	}
	return Value{}
}

type jsonReader struct {
	text string
	at   int
}

func parseJSON(text string) (Value, error) {
	reader := jsonReader{text: text}
	value, err := reader.value(0)
	if err == nil {
		if reader.space(); reader.at < len(text) {
			err = reader.expected("the end")
		}
	}
	return Value{value}, err
}

func (r *jsonReader) expected(what string) error {
	line := 1 + strings.Count(r.text[:r.at], "\n")
	column := r.at - strings.LastIndexByte(r.text[:r.at], '\n')
	return errors.New("line " + itoa(line) + ", column " + itoa(column) + ": expected " + what)
}

func (r *jsonReader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *jsonReader) take(token string) bool {
	found := strings.HasPrefix(r.text[r.at:], token)
	if found {
		r.at += len(token)
	}
	return found
}

func (r *jsonReader) value(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, r.expected("less depth")
	}
	r.space()
	switch {
	case r.take("null"):
		return nil, nil
	case r.take("true"):
		return true, nil
	case r.take("false"):
		return false, nil
	case r.take(`"`):
		return r.string()
	case r.take("["):
		return r.list(depth)
	case r.take("{"):
		return r.object(depth)
	}
	start := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.0123456789eE", r.text[r.at]) >= 0 {
		r.at++
	}
	if text := r.text[start:r.at]; text != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil || errors.Is(err, strconv.ErrRange) {
			return number(text), nil
		}
	}
	r.at = start
	return nil, r.expected("a value")
}

func (r *jsonReader) list(depth int) (any, error) {
	list := []any{}
	if r.space(); r.take("]") {
		return list, nil
	}
	for {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if r.space(); r.take("]") {
			return list, nil
		}
		if !r.take(",") {
			return nil, r.expected("`,` or `]`")
		}
	}
}

func (r *jsonReader) object(depth int) (any, error) {
	members := object{}
	if r.space(); r.take("}") {
		return members, nil
	}
	for {
		if r.space(); !r.take(`"`) {
			return nil, r.expected("a name in quotes")
		}
		name, err := r.string()
		if err != nil {
			return nil, err
		}
		if r.space(); !r.take(":") {
			return nil, r.expected("`:`")
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, value})
		if r.space(); r.take("}") {
			return members, nil
		}
		if !r.take(",") {
			return nil, r.expected("`,` or `}`")
		}
	}
}

// string reads a text behind its opening quote.
func (r *jsonReader) string() (string, error) {
	start := r.at
	for r.at < len(r.text) && r.text[r.at] != '"' && r.text[r.at] != '\\' && r.text[r.at] >= ' ' {
		r.at++
	}
	if r.take(`"`) {
		return r.text[start : r.at-1], nil
	}
	out := []byte(r.text[start:r.at])
	for r.at < len(r.text) {
		c := r.text[r.at]
		switch {
		case c == '"':
			r.at++
			return string(out), nil
		case c < ' ':
			return "", r.expected("an escaped character")
		case c != '\\':
			out = append(out, c)
			r.at++
		default:
			decoded, ok := r.escape()
			if !ok {
				return "", r.expected("a known escape")
			}
			out = utf8.AppendRune(out, decoded)
		}
	}
	return "", r.expected("a closing quote")
}

func (r *jsonReader) escape() (rune, bool) {
	rest := r.text[r.at+1:]
	if rest == "" {
		return 0, false
	}
	if at := strings.IndexByte(`"\/bfnrt`, rest[0]); at >= 0 {
		r.at += 2
		return rune("\"\\/\b\f\n\r\t"[at]), true
	}
	first, ok := unit(rest)
	if !ok {
		return 0, false
	}
	r.at += 6
	if utf16.IsSurrogate(first) {
		if strings.HasPrefix(r.text[r.at:], `\`) {
			if second, ok := unit(r.text[r.at+1:]); ok {
				if both := utf16.DecodeRune(first, second); both != utf8.RuneError {
					r.at += 6
					return both, true
				}
			}
		}
		return utf8.RuneError, true
	}
	return first, true
}

// unit reads u12ab.
func unit(text string) (rune, bool) {
	if len(text) < 5 || text[0] != 'u' {
		return 0, false
	}
	value, err := strconv.ParseUint(text[1:5], 16, 16)
	return rune(value), err == nil
}

func itoa(value int) string { return strconv.Itoa(value) }

func jsonList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quoteJSON(text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

func quoteJSON(text string) string {
	out := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case strings.ContainsRune("\b\f\n\r\t", c):
			out = append(out, '\\', "bfnrt"[strings.IndexRune("\b\f\n\r\t", c)])
		case c < ' ':
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	return string(append(out, '"'))
}
