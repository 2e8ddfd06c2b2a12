package app

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropText lets go of the pages of the program's own code that are mapped: half
// of them are only needed by the start. They stay in the kernel's page cache
// and come back, one by one, when they are used.
func dropText() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		// Only what can be executed: that has never been written to.
		if len(fields) < 6 || fields[1] != "r-xp" || fields[5] != self {
			continue
		}
		from, to, ok := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if !ok || err1 != nil || err2 != nil || end <= start {
			continue
		}
		text := unsafe.Slice((*byte)(unsafe.Pointer(uintptr(start))), int(end-start)) //nolint:govet // an address of our own mapping, not of the heap
		_ = unix.Madvise(text, unix.MADV_DONTNEED)
	}
}
