package memory

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
	// SettleTime is when start hooks and first syncs, which go on after
	// readiness, have left their garbage.
	SettleTime = 3 * time.Second
)

func isOurs() bool { return os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" }

// Hurry is for the time until all parts are ready.
func Hurry() {
	if isOurs() {
		debug.SetGCPercent(startGCPercent)
		debug.SetMemoryLimit(startMemoryLimit)
	}
}

// Trim gives back what only the start needed.
func Trim() {
	if isOurs() {
		debug.SetGCPercent(idleGCPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	debug.FreeOSMemory()
	dropText()
}
