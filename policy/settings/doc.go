// Package settings reads the annotations that say how traffic is handled:
// timeouts, retries, failure accrual and load (policy-outbound 6 and 7).
package settings
