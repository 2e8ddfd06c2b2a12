package memory

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropText lets go of the pages of the program file that are mapped: most are
// only needed by the start. They stay in the kernel's page cache and come
// back, one by one, when they are used.
func dropText() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var clean []mapping
	var current *mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"):
			current = nil
			// Read-only parts of the file.
			if len(fields) > 5 && fields[5] == self && strings.HasPrefix(fields[1], "r-") {
				current = parseMapping(fields[0])
			}
		case fields[0] == "Private_Dirty:" && current != nil:
			// What was written to before it became read-only would be lost.
			if len(fields) > 1 && fields[1] == "0" {
				clean = append(clean, *current)
			}
			current = nil
		}
	}
	for _, m := range clean {
		// Refused, it costs memory and nothing else.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

type mapping struct{ start, end uintptr }

func parseMapping(text string) *mapping {
	from, to, _ := strings.Cut(text, "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil || end <= start {
		return nil
	}
	return &mapping{uintptr(start), uintptr(end)}
}
