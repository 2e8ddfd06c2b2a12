// Package apply brings plans to an API server, and knows what became of them.
//
// A [Cluster] sends the steps of a plan, sixteen at a time, by server-side apply, and asks what others have done to the objects
// since. An [Inventory] is the stored list of what was applied.
package apply
