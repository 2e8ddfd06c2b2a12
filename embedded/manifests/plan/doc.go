// Package plan compares what directories hold with what was applied from them.
//
// A [Plan] is a value: made of values that were read before, it can be printed, tested and
// carried out. It knows neither files nor a cluster.
package plan
