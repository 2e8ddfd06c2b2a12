// Package lifecycle runs the parts of a program in one shared fault domain.
//
// A [Supervisor] starts each [Part] as soon as the parts it names have become
// ready, stops all of them in the reverse order when its context ends or when
// one part fails, and says which part that was.
//
// Here lives: start order, readiness, stop order, panics. Not here: signals,
// exit codes, and what the parts do.
package lifecycle
