// Package policy holds what the parts of the policy controller share: the
// grammars of its lists of addresses and of ports.
package policy
