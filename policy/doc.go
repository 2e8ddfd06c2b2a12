// Package policy holds what the parts of the policy controller share: the
// grammar of its address lists and of its identities.
package policy
