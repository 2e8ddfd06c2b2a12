package rulebook

import (
	"regexp"
	"strings"
)

// anyNumber is a number of a rule: a letter that stands for a file, and digits.
const anyNumber = `[ABCDFGHILPV]\d{1,3}b?`

var (
	numbers = regexp.MustCompile(`\b` + anyNumber + `\b`)
	prefix  = regexp.MustCompile(`^` + anyNumber + `(?:(?:,? )` + anyNumber + `)*(?:$|[ :/])`)
)

// file is where the rules of a number's letter are, below docs/rules; "" if there is no such letter.
func file(number string) string {
	switch number[0] {
	case 'D', 'L':
		return "destination.md"
	case 'P':
		return "policy-cases.md"
	case 'A', 'V':
		return "service-profiles.md"
	case 'I':
		return "identity.md"
	case 'B', 'C', 'F', 'G', 'H':
		return "faults.md"
	}
	return ""
}

// anchor is what stands in front of a rule in its file.
func anchor(number string) string { return `<a id="` + number + `"></a>` + number }

// Numbers returns the numbers in a text.
func Numbers(text string) []string { return numbers.FindAllString(text, -1) }

// Leading returns the numbers with which the name of a row begins, as in
// "D38, B12: IPv6 is off". Most rows have none.
func Leading(name string) []string {
	return Numbers(prefix.FindString(strings.TrimSpace(name)))
}
