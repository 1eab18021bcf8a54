package hooks

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// The limits of a document, which are the host's.
const (
	maxXMLBytes = 8 << 20
	maxXMLDepth = 128
)

// parser reads XML without a DTD, and keeps every byte.
type parser struct {
	text string
	at   int
}

// document is a parsed text: what stands before the root, the root, and what stands behind.
type document struct {
	prolog, epilog string
	root           *Element
}

// String is the document with its edits.
func (d *document) String() string {
	if !d.root.touched {
		return d.prolog + d.root.raw + d.epilog
	}
	var out strings.Builder
	render(d.root, layoutOf(d.root), missingDeclarations(d.root), &out)
	return d.prolog + out.String() + d.epilog
}

func parseDocument(text string) (*document, error) {
	p := &parser{text: text}
	if len(text) > maxXMLBytes {
		return nil, errors.New("the XML has " + itoa(len(text)) + " bytes, more than " + itoa(maxXMLBytes))
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the XML is not UTF-8")
	}
	p.take("\ufeff")
	if err := p.misc(); err != nil {
		return nil, err
	}
	prolog := text[:p.at]
	if p.at >= len(text) || text[p.at] != '<' {
		return nil, p.expected("an element")
	}
	root, err := p.element(nil, 1)
	if err != nil {
		return nil, err
	}
	end := p.at
	if err := p.misc(); err != nil {
		return nil, err
	}
	if p.at < len(text) {
		return nil, p.expected("the end of the document")
	}
	return &document{prolog, text[end:], root}, nil
}

func (p *parser) expected(what string) error {
	line := 1 + strings.Count(p.text[:p.at], "\n")
	column := 1 + utf8.RuneCountInString(p.text[strings.LastIndexByte(p.text[:p.at], '\n')+1:p.at])
	return errors.New("line " + itoa(line) + ", column " + itoa(column) + ": expected " + what)
}

func (p *parser) take(token string) bool {
	found := strings.HasPrefix(p.text[p.at:], token)
	if found {
		p.at += len(token)
	}
	return found
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// until skips to behind a token.
func (p *parser) until(token, what string) error {
	n := strings.Index(p.text[p.at:], token)
	if n < 0 {
		return p.expected(what)
	}
	p.at += n + len(token)
	return nil
}

// other skips a comment or a processing instruction.
func (p *parser) other() (bool, error) {
	switch {
	case p.take("<!--"):
		return true, p.until("-->", "the end of the comment")
	case p.take("<?"):
		return true, p.until("?>", "the end of the instruction")
	}
	return false, nil
}

// misc skips what may stand beside the root.
func (p *parser) misc() error {
	for {
		p.space()
		found, err := p.other()
		if !found || err != nil {
			return err
		}
	}
}

func (p *parser) name() string {
	start := p.at
	for i, c := range p.text[p.at:] {
		if i == 0 && !startsName(c) || !continuesName(c) {
			break
		}
		p.at = start + i + utf8.RuneLen(c)
	}
	return p.text[start:p.at]
}

func (p *parser) element(parent *Element, depth int) (*Element, error) {
	if depth > maxXMLDepth {
		return nil, p.expected("at most " + itoa(maxXMLDepth) + " levels")
	}
	start := p.at
	p.at++
	e := &Element{parent: parent, name: p.name()}
	if e.name == "" {
		return nil, p.expected("the name of an element")
	}
	if err := p.attributes(); err != nil {
		return nil, err
	}
	e.tag = p.text[start+1 : p.at]
	if p.take("/>") {
		e.raw = p.text[start:p.at]
		return e, nil
	}
	if !p.take(">") {
		return nil, p.expected("an attribute, `>` or `/>`")
	}
	e.hasEnd = true
	for !p.take("</") {
		if err := p.node(e, depth); err != nil {
			return nil, err
		}
	}
	at := p.at
	if name := p.name(); name != e.name {
		p.at = at
		return nil, p.expected("`</" + e.name + ">`")
	}
	at = p.at
	p.space()
	e.endSpace = p.text[at:p.at]
	if !p.take(">") {
		return nil, p.expected("`>`")
	}
	e.raw = p.text[start:p.at]
	return e, nil
}

func (p *parser) attributes() error {
	var seen []string
	for {
		at := p.at
		p.space()
		if rest := p.text[p.at:]; rest == "" || rest[0] == '>' || rest[0] == '/' {
			return nil
		}
		name := p.name()
		if name == "" || at == p.at-len(name) {
			return p.expected("white space and the name of an attribute, `>` or `/>`")
		}
		for _, other := range seen {
			if other == name {
				return p.expected("attributes of different names, not " + name + " twice")
			}
		}
		seen = append(seen, name)
		p.space()
		if !p.take("=") {
			return p.expected("`=`")
		}
		p.space()
		if p.at >= len(p.text) || p.text[p.at] != '\'' && p.text[p.at] != '"' {
			return p.expected("a value in quotes")
		}
		end := strings.IndexByte(p.text[p.at+1:], p.text[p.at])
		if end < 0 {
			return p.expected("a closing quote")
		}
		if err := p.characters(p.at+1+end, 1, true); err != nil {
			return err
		}
		p.at += end + 2
	}
}

// characters checks character data up to a position, without moving.
func (p *parser) characters(end, skip int, attribute bool) error {
	text := p.text[p.at+skip : end]
	for i, c := range text {
		ok := isChar(c) && !(attribute && c == '<')
		if c == '&' {
			stop := strings.IndexByte(text[i:], ';')
			if ok = stop > 0; ok {
				_, ok = resolve(text[i+1 : i+stop])
			}
		}
		if !ok {
			p.at += skip + i
			return p.expected("a character or reference that XML allows")
		}
	}
	return nil
}

// node reads a part of an element's content.
func (p *parser) node(parent *Element, depth int) error {
	start := p.at
	if start >= len(p.text) {
		return p.expected("`</" + parent.name + ">`")
	}
	if p.text[p.at] != '<' {
		end := strings.IndexByte(p.text[p.at:], '<')
		if end < 0 {
			end = len(p.text) - p.at
		}
		if err := p.characters(start+end, 0, false); err != nil {
			return err
		}
		p.at += end
		parent.nodes = append(parent.nodes, node{kind: textNode, raw: p.text[start:p.at]})
		return nil
	}
	if p.take("<![CDATA[") {
		if err := p.until("]]>", "`]]>`"); err != nil {
			return err
		}
		parent.nodes = append(parent.nodes, node{kind: cdataNode, raw: p.text[start:p.at]})
		return nil
	}
	found, err := p.other()
	if err != nil {
		return err
	}
	if found {
		parent.nodes = append(parent.nodes, node{kind: otherNode, raw: p.text[start:p.at]})
		return nil
	}
	child, err := p.element(parent, depth+1)
	if err != nil {
		return err
	}
	parent.nodes = append(parent.nodes, node{kind: elementNode, element: child})
	return nil
}
