package gateway

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
)

// Expression checks a regular expression by the syntax of Rust's regex crate,
// with which proxies compile it: they refuse a whole policy that has one which
// they cannot compile (policy-inbound 8.4). An error is certain. A doubt says
// what cannot be decided here, "" if nothing.
func Expression(text string) (doubt string, err error) {
	p := &expressionParser{text: text, names: map[string]bool{}}
	if !utf8.ValidString(text) {
		return "", errors.New("not UTF-8")
	}
	size, err := p.alternatives(0, false)
	switch {
	case err != nil:
		return "", fmt.Errorf("at character %d: %w", utf8.RuneCountInString(text[:p.pos])+1, err)
	case size.least > certainSize:
		return "", errors.New("its repetitions make it too large")
	case size.likely > likelySize:
		p.doubtful("its repetitions may make it too large for proxies")
	}
	return p.doubt, nil
}

func checkExpression(at *field.Path, text string) *field.Error {
	if _, err := Expression(text); err != nil {
		return invalid(at, text, "not an expression that proxies can compile: "+err.Error())
	}
	return nil
}

// Doubts says of the expressions of a converted match what cannot be decided.
func Doubts(at *field.Path, match interface {
	GetHeaders() []*http_route.HeaderMatch
}) field.ErrorList {
	var doubts field.ErrorList
	check := func(at *field.Path, text string) {
		if doubt, err := Expression(text); err == nil && doubt != "" {
			doubts = append(doubts, invalid(at.Child("value"), text, doubt))
		}
	}
	for i, header := range match.GetHeaders() {
		check(at.Child("headers").Index(i), header.GetRegex())
	}
	if match, isHTTP := match.(*http_route.HttpRouteMatch); isHTTP {
		check(at.Child("path"), match.GetPath().GetRegex())
		for i, param := range match.GetQueryParams() {
			check(at.Child("queryParams").Index(i), param.GetRegex())
		}
	}
	return doubts
}

const (
	// Proxies take 10 MiB for a compiled expression at most. A size counts
	// states, of some tens of bytes each.
	certainSize = 1 << 20
	likelySize  = 100_000
	// maxNesting is the crate's limit for its syntax tree, in which one group
	// makes up to three levels.
	maxNesting, likelyNesting = 250, 80
)

// expressionSize is how many states an expression compiles to.
type expressionSize struct{ least, likely uint64 }

func (s *expressionSize) add(other expressionSize) {
	s.least += other.least // bounded by times and by the length of the text
	s.likely += other.likely
}

// times saturates, so that no nesting of repetitions overflows.
func (s expressionSize) times(n uint64) expressionSize {
	product := func(size uint64) uint64 {
		if high, low := bits.Mul64(size, n); high == 0 && low < 1<<40 {
			return low
		}
		return 1 << 40
	}
	return expressionSize{product(s.least), product(s.likely)}
}

var literalSize = expressionSize{1, 1}

// expressionParser goes through an expression once.
type expressionParser struct {
	text string
	pos  int
	// names are those of the groups so far.
	names map[string]bool
	// properties are the classes of Unicode that are known here, once one is asked for.
	properties map[string]bool
	doubt      string
}

func (p *expressionParser) doubtful(format string, args ...any) {
	if p.doubt == "" {
		p.doubt = fmt.Sprintf(format, args...)
	}
}

func (p *expressionParser) rest() string { return p.text[p.pos:] }

// peek is the next character, utf8.RuneError at the end.
func (p *expressionParser) peek() rune {
	r, _ := utf8.DecodeRuneInString(p.rest())
	return r
}

func (p *expressionParser) ended() bool { return p.pos == len(p.text) }

func (p *expressionParser) next() rune {
	r, n := utf8.DecodeRuneInString(p.rest())
	p.pos += n
	return r
}

// take passes a prefix, if it is there.
func (p *expressionParser) take(prefix string) bool {
	if !strings.HasPrefix(p.rest(), prefix) {
		return false
	}
	p.pos += len(prefix)
	return true
}

// until passes and returns what comes before the end and the end.
func (p *expressionParser) until(end string) (string, bool) {
	before, _, found := strings.Cut(p.rest(), end)
	if found {
		p.pos += len(before) + len(end)
	}
	return before, found
}

// space passes blanks and comments where the flag x says that they are nothing.
func (p *expressionParser) space(verbose bool) {
	for verbose && !p.ended() {
		switch {
		case unicode.IsSpace(p.peek()):
			p.next()
		case p.peek() == '#':
			if _, found := p.until("\n"); !found {
				p.pos = len(p.text)
			}
		default:
			return
		}
	}
}

// alternatives reads what is in a group, or everything.
func (p *expressionParser) alternatives(depth int, verbose bool) (expressionSize, error) {
	if depth > maxNesting {
		return expressionSize{}, errors.New("groups are nested too deeply")
	} else if depth > likelyNesting {
		p.doubtful("its groups may be nested too deeply for proxies")
	}
	var total, last expressionSize
	repeatable := false
	for {
		p.space(verbose)
		if p.ended() {
			if depth > 0 {
				return total, errors.New("a group is not closed")
			}
			break
		}
		var item expressionSize
		var err error
		switch c := p.peek(); c {
		case ')':
			if depth == 0 {
				return total, errors.New("a group is closed that was not opened")
			}
			total.add(last)
			return total, nil
		case '|':
			p.next()
			total.add(last)
			last, repeatable = literalSize, false
			continue
		case '?', '*', '+', '{':
			if !repeatable {
				return total, fmt.Errorf("%q repeats nothing", c)
			}
			n, err := p.repetition(verbose)
			if err != nil {
				return total, err
			}
			last = last.times(n)
			continue
		case '(':
			p.next()
			var flagsOnly bool
			if item, flagsOnly, err = p.group(depth, &verbose); flagsOnly && err == nil {
				repeatable = false
				continue
			}
		case '[':
			p.next()
			item, err = p.class(depth+1, verbose)
		case '\\':
			item, _, err = p.escape(false)
		case '.':
			p.next()
			item = expressionSize{1, 10}
		default:
			p.next()
			item = literalSize
		}
		if err != nil {
			return total, err
		}
		total.add(last)
		last, repeatable = item, true
	}
	total.add(last)
	return total, nil
}

// repetition returns how many copies of what it repeats it makes.
func (p *expressionParser) repetition(verbose bool) (uint64, error) {
	times := uint64(1)
	if p.next() == '{' {
		p.space(verbose)
		least, err := p.count()
		if err != nil {
			return 0, err
		}
		times = max(least, 1)
		if p.take(",") {
			p.space(verbose)
			if p.peek() != '}' {
				most, err := p.count()
				if err != nil {
					return 0, err
				}
				if most < least {
					return 0, fmt.Errorf("{%d,%d} ends before it starts", least, most)
				}
				times = max(most, 1)
			}
		}
		if !p.take("}") {
			return 0, errors.New("{ is no repetition; to match the character, write \\{")
		}
	}
	p.space(verbose)
	p.take("?")
	return times, nil
}

// count reads a number, around which there may be blanks.
func (p *expressionParser) count() (uint64, error) {
	var n uint64
	digits := 0
	for skip := func() {
		for !p.ended() && unicode.IsSpace(p.peek()) {
			p.next()
		}
	}; ; digits++ {
		if digits == 0 {
			skip()
		}
		c := p.peek()
		if c < '0' || c > '9' {
			skip()
			break
		}
		p.next()
		if n = n*10 + uint64(c-'0'); n > 1<<32-1 {
			return 0, errors.New("a count is above 2^32-1")
		}
	}
	if digits == 0 {
		return 0, errors.New("{ is no repetition with a lowest count; to match the character, write \\{")
	}
	return n, nil
}

// group reads a group after its "(". One that only sets flags, which then hold
// until the group around it ends, is nothing that can be repeated.
func (p *expressionParser) group(depth int, verbose *bool) (size expressionSize, flagsOnly bool, err error) {
	inner := *verbose
	switch {
	case p.take("?=") || p.take("?!") || p.take("?<=") || p.take("?<!"):
		return size, false, errors.New("looking ahead and behind is not supported")
	case p.take("?P<") || p.take("?<"):
		if err := p.groupName(); err != nil {
			return size, false, err
		}
	case p.take("?"):
		only, err := p.flags(&inner)
		if err != nil {
			return size, false, err
		}
		if only {
			*verbose = inner
			return size, true, nil
		}
	}
	size, err = p.alternatives(depth+1, inner)
	if err == nil {
		p.take(")")
		size.add(literalSize)
	}
	return size, false, err
}

func (p *expressionParser) groupName() error {
	name, closed := p.until(">")
	if !closed || name == "" {
		return errors.New("the name of a group is empty or not closed")
	}
	for i, c := range name {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsNumber(c) && !strings.ContainsRune(".[]", c)) {
			return fmt.Errorf("the name of a group has the character %q", c)
		}
	}
	if p.names[name] {
		return fmt.Errorf("two groups are named %q", name)
	}
	p.names[name] = true
	return nil
}

// flags reads flags up to ":" or ")". It tells whether it was ")".
func (p *expressionParser) flags(verbose *bool) (only bool, err error) {
	seen := map[rune]bool{}
	negated, last := false, rune(0)
	for {
		if p.ended() {
			return false, errors.New("a group is not closed")
		}
		c := p.next()
		switch {
		case c == ':' || c == ')':
			if last == '-' || c == ')' && len(seen) == 0 {
				return false, errors.New("(? is followed by no flag")
			}
			return c == ')', nil
		case seen[c]:
			return false, fmt.Errorf("the flag %c is repeated", c)
		case c == '-':
			negated = true
		case c == 'x':
			*verbose = !negated
		case c == 'u' && negated:
			p.doubtful("without the flag u it may match what is no UTF-8, which proxies refuse")
		case !strings.ContainsRune("imsURu", c):
			return false, fmt.Errorf("there is no flag %q", c)
		}
		seen[c], last = true, c
	}
}
