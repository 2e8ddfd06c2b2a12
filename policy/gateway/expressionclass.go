package gateway

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// class reads a class of characters after its "[".
func (p *expressionParser) class(depth int, verbose bool) (expressionSize, error) {
	unclosed := errors.New("a class is not closed; inside of one, write [ as \\[")
	if depth > maxNesting {
		return expressionSize{}, errors.New("classes are nested too deeply")
	}
	size := literalSize
	p.take("^")
	for p.space(verbose); p.take("-"); p.space(verbose) {
		size.add(literalSize)
	}
	if size == literalSize && p.take("]") { // as the first character it is one of the class
		size.add(literalSize)
	}
	for {
		p.space(verbose)
		switch {
		case p.ended():
			return size, unclosed
		case p.take("]"):
			return size, nil
		case p.take("&&") || p.take("--") || p.take("~~"):
		case p.take("["):
			if p.asciiClass() {
				continue
			}
			inner, err := p.class(depth+1, verbose)
			if err != nil {
				return size, err
			}
			size.add(inner)
		default:
			item, err := p.classRange(verbose)
			if err != nil {
				return size, err
			}
			size.add(item)
		}
	}
}

// asciiClass passes the rest of a class such as [:alpha:] after its "[". What
// only looks like one is a class in a class.
func (p *expressionParser) asciiClass() bool {
	for name := range strings.FieldsSeq("alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit") {
		if p.take(":"+name+":]") || p.take(":^"+name+":]") {
			return true
		}
	}
	return false
}

// classRange reads a character of a class, two with all between them, or a
// class that has a name.
func (p *expressionParser) classRange(verbose bool) (expressionSize, error) {
	size, low, err := p.classItem()
	if err != nil {
		return size, err
	}
	p.space(verbose)
	if after := strings.TrimPrefix(p.rest(), "-"); p.peek() != '-' || after == "" || after[0] == ']' || after[0] == '-' {
		return size, nil
	}
	p.next()
	p.space(verbose)
	if p.ended() {
		return size, errors.New("a class is not closed")
	}
	_, high, err := p.classItem()
	switch {
	case err != nil:
		return size, err
	case low < 0 || high < 0:
		return size, errors.New("a range of characters begins or ends with a class")
	case low > high:
		return size, fmt.Errorf("the range %c-%c ends before it starts", low, high)
	}
	return size, nil
}

// classItem returns a character, -1 for a class that has a name.
func (p *expressionParser) classItem() (expressionSize, rune, error) {
	if p.peek() == '\\' {
		return p.escape(true)
	}
	return literalSize, p.next(), nil
}

// escape reads what begins with a backslash. It returns the character that it
// stands for, -1 if it is none.
func (p *expressionParser) escape(inClass bool) (expressionSize, rune, error) {
	p.next()
	if p.ended() {
		return literalSize, -1, errors.New("a backslash ends it")
	}
	switch c := p.next(); c {
	case 'w', 'W':
		return expressionSize{1, 400}, -1, nil
	case 'd', 'D':
		return expressionSize{1, 70}, -1, nil
	case 's', 'S':
		return expressionSize{1, 10}, -1, nil
	case 'p', 'P':
		return expressionSize{1, 200}, -1, p.property()
	case 'x':
		return p.hexadecimal(2)
	case 'u':
		return p.hexadecimal(4)
	case 'U':
		return p.hexadecimal(8)
	case 'a', 'f', 't', 'n', 'r', 'v':
		return literalSize, map[rune]rune{'a': 7, 'f': 12, 't': 9, 'n': 10, 'r': 13, 'v': 11}[c], nil
	case 'A', 'z', 'B', 'b', '<', '>':
		if inClass {
			return literalSize, -1, fmt.Errorf("\\%c is no character of a class", c)
		}
		if c == 'b' {
			return literalSize, -1, p.wordBoundary()
		}
		return literalSize, -1, nil
	default:
		if c >= 0x80 || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return literalSize, -1, fmt.Errorf("\\%c has no meaning", c)
		}
		return literalSize, c, nil
	}
}

// wordBoundary reads which boundary a \b is, if it says so.
func (p *expressionParser) wordBoundary() error {
	name, isName := strings.CutPrefix(p.rest(), "{")
	if !isName || name == "" || name[0] != '-' && !unicode.IsLetter(rune(name[0])) {
		return nil
	}
	for _, known := range []string{"{start}", "{end}", "{start-half}", "{end-half}"} {
		if p.take(known) {
			return nil
		}
	}
	return errors.New("\\b{ is none of \\b{start}, \\b{end}, \\b{start-half}, \\b{end-half}")
}

// hexadecimal reads a character by its number, in braces or of that many digits.
func (p *expressionParser) hexadecimal(digits int) (expressionSize, rune, error) {
	var text string
	if p.take("{") {
		var closed bool
		if text, closed = p.until("}"); !closed {
			return literalSize, -1, errors.New("the number of a character is not closed")
		}
	} else {
		text = p.rest()[:min(digits, len(p.rest()))]
		if len(text) < digits {
			return literalSize, -1, fmt.Errorf("the number of a character has not %d digits", digits)
		}
		p.pos += digits
	}
	number, err := strconv.ParseUint(text, 16, 32)
	if err != nil || number > unicode.MaxRune || number >= 0xd800 && number < 0xe000 || strings.HasPrefix(text, "+") {
		return literalSize, -1, fmt.Errorf("%.20q is not the number of a character", text)
	}
	return literalSize, rune(number), nil
}

// property reads the name of a class of Unicode. Proxies know more of them than
// there are in Go's tables.
func (p *expressionParser) property() error {
	if p.ended() {
		return errors.New("\\p has no name")
	}
	name := string(p.next())
	if name == "\\" {
		return errors.New("\\p has no name")
	}
	if name == "{" {
		var closed bool
		if name, closed = p.until("}"); !closed {
			return errors.New("the name of a class is not closed")
		}
	}
	if p.properties == nil {
		p.properties = map[string]bool{}
		for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
			for known := range tables {
				p.properties[looseProperty(known)] = true
			}
		}
	}
	if !p.properties[looseProperty(strings.TrimPrefix(name, "^"))] {
		p.doubtful("it is not known here whether proxies know the class %.40q", name)
	}
	return nil
}

// looseProperty is a name without what Unicode says is no part of it.
func looseProperty(name string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name))
}
