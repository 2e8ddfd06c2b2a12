// Package policy holds what the parts of the policy controller share: the
// grammar of workload tokens.
package policy
