// Package policy holds what the parts of the policy controller share: the
// grammars of workload tokens and of lists of addresses and ports.
package policy
