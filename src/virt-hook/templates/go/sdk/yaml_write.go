package hooks

import (
	"slices"
	"strconv"
	"strings"
)

// JSON is YAML, so that values are written as JSON.

// yamlWords are the words that YAML does not read as text.
var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

func yamlJSON(value any) string {
	list := func(count int, item func(int) string) string {
		items := make([]string, count)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return quoteJSON(value)
	case bool:
		return strconv.FormatBool(value)
	case int:
		return strconv.Itoa(value)
	case int64:
		return strconv.FormatInt(value, 10)
	case uint64:
		return strconv.FormatUint(value, 10)
	case []string:
		return "[" + list(len(value), func(i int) string { return quoteJSON(value[i]) }) + "]"
	case []any:
		return "[" + list(len(value), func(i int) string { return yamlJSON(value[i]) }) + "]"
	case Members:
		return "{" + list(len(value), func(i int) string { return quoteJSON(value[i].Name) + ":" + yamlJSON(value[i].Value) }) + "}"
	}
	panic("a value in YAML is a string, bool, int, []string, []any or hooks.Members")
}

// yamlName is a key, quoted if YAML would read it differently.
func yamlName(name string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./", c)
	}
	odd := strings.ContainsFunc(name, func(c rune) bool { return !plain(c) })
	if name == "" || odd || strings.IndexByte("0123456789-./", name[0]) >= 0 || slices.Contains(yamlWords, strings.ToLower(name)) {
		return quoteJSON(name)
	}
	return name
}

// yamlItem is an item of a block list.
func yamlItem(item any, pad string) []string {
	members, ok := item.(Members)
	if !ok || len(members) == 0 {
		return []string{pad + "- " + yamlJSON(item)}
	}
	var lines []string
	dash := "- "
	for _, member := range members {
		lines = append(lines, pad+dash+yamlName(member.Name)+": "+yamlJSON(member.Value))
		dash = "  "
	}
	return lines
}

// yamlEntry is an entry of a block mapping, with a line for each part of the value.
func yamlEntry(name string, value any, indent int) []string {
	var inside []string
	switch value := value.(type) {
	case Members:
		for _, member := range value {
			inside = append(inside, yamlEntry(member.Name, member.Value, indent+2)...)
		}
	case []string:
		for _, item := range value {
			inside = append(inside, yamlItem(item, spaces(indent+2))...)
		}
	case []any:
		for _, item := range value {
			inside = append(inside, yamlItem(item, spaces(indent+2))...)
		}
	}
	head := spaces(indent) + yamlName(name) + ":"
	if len(inside) == 0 {
		return []string{head + " " + yamlJSON(value)}
	}
	return append([]string{head}, inside...)
}

// isWritten reports whether the written scalar has this value already.
func isWritten(written string, value any) bool {
	if end := inlineEnd(written); end >= 0 {
		written = written[:end]
	}
	quoted := written != "" && (written[0] == '"' || written[0] == '\'')
	wanted, isText := value.(string)
	if !isText {
		return !quoted && written == yamlJSON(value)
	}
	noText := written == "" || written == "~" || strings.IndexByte("0123456789.-+<=", written[0]) >= 0 ||
		slices.Contains(yamlWords, strings.ToLower(written))
	text, ok := inlineText(written)
	return (quoted || !noText) && ok && text == wanted
}

// isItemWritten reports whether the written item of a list has this value.
func isItemWritten(written string, value any) bool {
	_, isText := value.(string)
	quoted := written != "" && (written[0] == '"' || written[0] == '\'')
	isMapping := !quoted && strings.Contains(written, ": ")
	return isWritten(written, value) && (!isText || !isMapping)
}

// yamlNames are the names of a path, of which there is at least one.
func yamlNames(path string) ([]string, error) {
	refused := CloudInitError("`" + path + "` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']")
	var names []string
	for rest := path; rest != ""; {
		if rest[0] == '[' {
			if len(rest) < 2 || rest[1] != '\'' && rest[1] != '"' {
				return nil, refused
			}
			name, behind, ok := strings.Cut(rest[2:], rest[1:2])
			if rest, ok = strings.CutPrefix(behind, "]"); !ok {
				return nil, refused
			}
			names = append(names, name)
			continue
		}
		if len(names) > 0 {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, "."); !ok {
				return nil, refused
			}
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 || strings.Contains(rest[:end], "/") && !strings.ContainsAny(path, "'\"") {
			return nil, refused
		}
		names = append(names, rest[:end])
		rest = rest[end:]
	}
	if len(names) == 0 {
		return nil, refused
	}
	return names, nil
}
