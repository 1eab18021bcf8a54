package hooks

import "strings"

// yamlScope is lines that hold the entries of a block mapping or list (end is behind the last), and their indentation.
type yamlScope struct{ begin, end, indent int }

type belowKind int

const (
	nothingBelow belowKind = iota
	listBelow
	mappingBelow
	// otherBelow is a text of several lines, or something that is not YAML.
	otherBelow
)

func spaces(count int) string { return strings.Repeat(" ", count) }

func yamlDepth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func isIdle(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#'
}

// goesOn tells whether the item of a list goes on in the lines after its first.
func goesOn(after []string, indent int) bool {
	for _, line := range after {
		if !isIdle(line) {
			return yamlDepth(line) > indent
		}
	}
	return false
}

func isItem(line string) bool {
	text := strings.TrimLeft(line, " ")
	return strings.HasPrefix(text, "- ") || strings.TrimRight(text, " \t") == "-"
}

// below is what the lines after a key that stands at an indentation are.
func below(lines []string, key, indent int) (belowKind, yamlScope) {
	begin := key + 1
	for begin < len(lines) && isIdle(lines[begin]) {
		begin++
	}
	if begin == len(lines) {
		return nothingBelow, yamlScope{}
	}
	own, list := yamlDepth(lines[begin]), isItem(lines[begin])
	if own < indent || own == indent && !list {
		return nothingBelow, yamlScope{}
	}
	if _, _, ok := splitKey(lines[begin][own:]); !list && !ok {
		return otherBelow, yamlScope{}
	}
	end := begin + 1
	for at := begin + 1; at < len(lines); at++ {
		line, depth := lines[at], yamlDepth(lines[at])
		if strings.TrimSpace(line) == "" || isIdle(line) && depth <= own {
			continue
		}
		// A list may have the same indentation as its key.
		if depth > own || depth == own && (!list || isItem(line)) {
			end = at + 1
		} else if depth <= indent {
			break
		} else {
			return otherBelow, yamlScope{}
		}
	}
	kind := mappingBelow
	if list {
		kind = listBelow
	}
	return kind, yamlScope{key + 1, end, own}
}

// endOfValue is the line behind the value of a key, whatever the value is.
func endOfValue(lines []string, key, indent int) int {
	if kind, scope := below(lines, key, indent); kind == listBelow || kind == mappingBelow {
		return scope.end
	}
	end := key + 1
	for at := key + 1; at < len(lines); at++ {
		if strings.TrimSpace(lines[at]) == "" {
			continue
		}
		if yamlDepth(lines[at]) <= indent {
			break
		}
		end = at + 1
	}
	return end
}

func endsKey(line string, colon int) bool {
	return colon+1 == len(line) || strings.IndexByte(" \t\r", line[colon+1]) >= 0
}

// splitKey is the key that a line without its indentation begins with, unquoted, and where its value begins.
func splitKey(line string) (key string, value int, ok bool) {
	rest := ""
	switch {
	case line == "" || line == "-" || strings.HasPrefix(line, "- ") || strings.IndexByte("#[{&*!|>%@`?", line[0]) >= 0:
		return "", 0, false
	case line[0] == '"' || line[0] == '\'':
		key, rest, ok = strings.Cut(line[1:], line[:1])
		if !ok {
			return "", 0, false
		}
	default:
		at := 0
		for at < len(line) && !(line[at] == ':' && endsKey(line, at)) {
			at++
		}
		key, rest = strings.TrimRight(line[:at], " \t"), line[at:]
	}
	rest = strings.TrimLeft(rest, " ")
	if rest == "" || rest[0] != ':' || !endsKey(rest, 0) {
		return "", 0, false
	}
	return key, len(line) - len(strings.TrimLeft(rest[1:], " \t")), true
}

// inlineScan knows open quotes and brackets.
type inlineScan struct {
	depth int
	quote rune
	// closed is whether a single quote has just closed; another one makes the two a quoted quote.
	escaped, closed bool
}

func (s *inlineScan) step(at int, c rune) {
	if s.quote == '"' && c == '\\' && !s.escaped {
		s.escaped = true
		return
	}
	closed := s.closed
	s.closed = false
	// Inside a plain text, quotes and brackets have no meaning.
	counts := at == 0 || s.depth > 0
	switch {
	case s.quote != 0:
		if c == s.quote && !s.escaped {
			s.closed, s.quote = c == '\'', 0
		}
	case c == '\'' && closed, counts && (c == '\'' || c == '"'):
		s.quote = c
	case counts && (c == '[' || c == '{'):
		s.depth++
	case s.depth > 0 && (c == ']' || c == '}'):
		s.depth--
	}
	s.escaped = false
}

func (s *inlineScan) isOver() bool { return s.quote == 0 && s.depth == 0 }

// inlineEnd is where a value that begins a text ends, without the white space and the comment behind it; -1 when it does
// not end here.
func inlineEnd(text string) int {
	var scan inlineScan
	before := ' '
	for at, c := range text {
		if c == '#' && scan.quote == 0 && (before == ' ' || before == '\t') {
			text = text[:at]
			break
		}
		scan.step(at, c)
		before = c
	}
	if !scan.isOver() {
		return -1
	}
	return len(strings.TrimRight(text, " \t"))
}

// inlineClose is where the bracket closes that a flow list or mapping begins with.
func inlineClose(text string) int {
	var scan inlineScan
	for at, c := range text {
		if scan.step(at, c); scan.isOver() {
			return at
		}
	}
	return -1
}

// inlineItems are the items of a flow list on one line, given what is between its brackets.
func inlineItems(inside string) []string {
	// As within brackets, where quotes count anywhere.
	scan, begin := inlineScan{depth: 1}, 0
	var items []string
	for at, c := range inside {
		scan.step(at, c)
		if c == ',' && scan.depth == 1 && scan.quote == 0 {
			items = append(items, strings.TrimSpace(inside[begin:at]))
			begin = at + 1
		}
	}
	return append(items, strings.TrimSpace(inside[begin:]))
}

// inlineText is the text of a plain or quoted value on one line.
func inlineText(value string) (string, bool) {
	end := inlineEnd(value)
	if end < 1 {
		return "", false
	}
	value = value[:end]
	switch {
	case value[0] == '"':
		parsed, err := parseJSON(value)
		if err != nil {
			return "", false
		}
		return parsed.Text()
	case value[0] == '\'':
		if end < 2 || value[end-1] != '\'' {
			return "", false
		}
		return strings.ReplaceAll(value[1:end-1], "''", "'"), true
	}
	return value, strings.IndexByte("[{&*!|>", value[0]) < 0
}
