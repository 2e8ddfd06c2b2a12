package app

import (
	"math"
	"os"
	"runtime/debug"
	"time"
)

// The collector's settings, unless GOGC or GOMEMLIMIT say otherwise: while the
// parts start, garbage is plenty and time is short; afterwards the process is
// mostly idle and should be small.
const (
	startGCPercent = 400
	// startMemoryLimit keeps the start from taking more, in bytes.
	startMemoryLimit = 400 << 20
	idleGCPercent    = 50
	// settleMemory is when start hooks and first syncs, which go on after
	// readiness, have left their garbage.
	settleMemory = 3 * time.Second
)

func memoryIsOurs() bool { return os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" }

// hurryMemory is for the time until all parts are ready.
func hurryMemory() {
	if memoryIsOurs() {
		debug.SetGCPercent(startGCPercent)
		debug.SetMemoryLimit(startMemoryLimit)
	}
}

// trimMemory gives back what only the start needed.
func trimMemory() {
	if memoryIsOurs() {
		debug.SetGCPercent(idleGCPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	debug.FreeOSMemory()
	dropText()
}
