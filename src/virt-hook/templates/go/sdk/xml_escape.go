package hooks

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// isChar reports whether XML 1.0 allows a character.
func isChar(c rune) bool {
	return c == '\t' || c == '\n' || c == '\r' || c >= ' ' && c <= 0xD7FF || c >= 0xE000 && c <= 0xFFFD || c >= 0x10000
}

// escape is plain text as character data, or as the value of an attribute between quotes. What XML forbids becomes
// U+FFFD.
func escape(plain string, quote byte) string {
	var out strings.Builder
	for _, c := range plain {
		switch {
		case c == '&':
			out.WriteString("&amp;")
		case c == '<':
			out.WriteString("&lt;")
		case c == '>':
			out.WriteString("&gt;")
		case c == '\r':
			out.WriteString("&#13;")
		case c == '\t' && quote != 0:
			out.WriteString("&#9;")
		case c == '\n' && quote != 0:
			out.WriteString("&#10;")
		case c == '\'' && quote == '\'':
			out.WriteString("&apos;")
		case c == '"' && quote == '"':
			out.WriteString("&quot;")
		case isChar(c):
			out.WriteRune(c)
		default:
			out.WriteRune(utf8.RuneError)
		}
	}
	return out.String()
}

// unescape is character data as plain text. Line ends become \n, and in attributes white space becomes a space, as XML
// requires.
func unescape(raw string, attribute bool) string {
	special := "&\r"
	if attribute {
		special = "&\r\n\t"
	}
	at := strings.IndexAny(raw, special)
	if at < 0 {
		return raw
	}
	var out strings.Builder
	for at >= 0 {
		out.WriteString(raw[:at])
		raw = raw[at:]
		taken := 1
		switch {
		case raw[0] == '&':
			taken = unescapeReference(raw, &out)
		case attribute:
			out.WriteByte(' ')
		default:
			out.WriteByte('\n')
		}
		if strings.HasPrefix(raw, "\r\n") {
			taken = 2
		}
		raw = raw[taken:]
		at = strings.IndexAny(raw, special)
	}
	out.WriteString(raw)
	return out.String()
}

func unescapeReference(raw string, out *strings.Builder) int {
	end := strings.IndexByte(raw, ';')
	if end < 0 {
		out.WriteByte('&')
		return 1
	}
	if c, ok := resolve(raw[1:end]); ok {
		out.WriteRune(c)
	} else {
		out.WriteString(raw[:end+1])
	}
	return end + 1
}

// resolve is the character of &reference;. Without a DTD there are no others.
func resolve(reference string) (rune, bool) {
	switch reference {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	code, ok := strings.CutPrefix(reference, "#")
	base := 10
	if digits, hex := strings.CutPrefix(code, "x"); hex {
		code, base = digits, 16
	}
	value, err := strconv.ParseUint(code, base, 31)
	return rune(value), ok && err == nil && isChar(rune(value)) && utf8.ValidRune(rune(value))
}

func isBlank(text string) bool { return strings.Trim(text, " \t\r\n") == "" }
