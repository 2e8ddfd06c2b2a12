// Package view keeps values computed from a snapshot current, and shares each
// among all who want it.
//
// A [Set] is a family of views: one pure function, one view per key in use.
// The function reads the cluster, and other views, through a [Reader] that
// records what was asked; the [Graph] recomputes a view when an answer it got
// may have changed, and publishes only if the result differs. Those who hold
// a view walk its versions at their own pace, so nobody waits for anybody.
package view
