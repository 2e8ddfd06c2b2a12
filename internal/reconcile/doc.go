// Package reconcile makes the cluster what views say it should be, while a
// Lease is held.
package reconcile
