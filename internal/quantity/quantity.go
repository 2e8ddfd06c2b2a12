// Package quantity bounds Kubernetes quantities in foreign objects before
// anybody computes with them.
package quantity

import (
	"fmt"
	"strings"
)

// maxLength is the length in bytes of the longest text of a quantity,
// maxExponent the number of digits of its exponent.
const (
	maxLength   = 100
	maxExponent = 3
)

// Check refuses the text of a quantity that would be computed for minutes and
// gigabytes, such as 1e-1000000000: resource.ParseQuantity raises ten to any
// power. What it lets pass may still be no quantity.
func Check(text string) error {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > maxLength || len(strings.TrimLeft(exponent, "+-0")) > maxExponent {
		return fmt.Errorf("quantity %.20q is too large, too small or too long: at most %d characters, and %d digits of an exponent", text, maxLength, maxExponent)
	}
	return nil
}

// Suspect says quickly whether data, in whatever encoding, may hold a quantity
// that Check refuses. Escapes of a kind that can spell digits count.
func Suspect(data []byte) bool {
	digits := 0       // length of the run of digits and dots that ends here
	exponent := false // that run follows an e, but for a sign
	for i, c := range data {
		switch {
		case c >= '0' && c <= '9' || c == '.':
			if digits++; digits > maxLength/2 || exponent && digits > maxExponent {
				return true
			}
			continue
		case c == '\\' && i+1 < len(data) && strings.IndexByte("uUx\r\n", data[i+1]) >= 0:
			return true
		case c == 'e' || c == 'E':
			exponent = true
		case c != '+' && c != '-':
			exponent = false
		}
		digits = 0
	}
	return false
}
