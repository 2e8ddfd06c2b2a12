package kubelet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ledgerFile is the ledger's name in the data directory.
const ledgerFile = "pod-addresses.log"

// ledgerLines is the length from which on the file may be written anew.
const ledgerLines = 4096

// ledger remembers on disk which addresses were given away and when they came
// back. Pods keep their own addresses in their status; what is lost with a pod
// is the moment it went, and that is what this file is for.
//
// It is a text file, one line per step, appended before the step is seen by
// anyone, so a process that is killed loses nothing (a machine that loses power
// may: there is no fsync, and at worst an address is used again early):
//
//   - 10.244.0.7                  given away
//   - 10.244.0.7 1735689600123    given up, at Unix milliseconds
//     @ 10.244.0.7                  the last one that was given away
//
// It is written anew at start and whenever it has grown to a multiple of what
// it says. A line that does not end is what a kill left over, and is ignored.
type ledger struct {
	path   string
	logger *slog.Logger
	file   *os.File
	lines  int
	failed bool
}

// remembered is the content of a ledger.
type remembered struct {
	given    map[netip.Addr]bool
	released map[netip.Addr]time.Time
	cursors  []netip.Addr
}

// openLedger reads the ledger in dir; without a dir nothing is remembered.
func openLedger(dir string, logger *slog.Logger) (*ledger, remembered, error) {
	if dir == "" {
		return &ledger{logger: logger}, remembered{}, nil
	}
	l := &ledger{path: filepath.Join(dir, ledgerFile), logger: logger}
	content, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, remembered{}, fmt.Errorf("read ledger of pod addresses: %w", err)
	}
	return l, parseLedger(content), nil
}

func parseLedger(content []byte) remembered {
	r := remembered{given: map[netip.Addr]bool{}, released: map[netip.Addr]time.Time{}}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	cursors := map[bool]netip.Addr{} // by whether it is IPv4
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if err != nil {
			continue
		}
		switch {
		case fields[0] == "+":
			r.given[addr] = true
			delete(r.released, addr)
		case fields[0] == "@":
			cursors[addr.Is4()] = addr
		case fields[0] == "-" && len(fields) == 3:
			millis, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				continue
			}
			delete(r.given, addr)
			r.released[addr] = time.UnixMilli(millis)
		}
	}
	for _, addr := range cursors {
		r.cursors = append(r.cursors, addr)
	}
	return r
}

// rewrite replaces the file by what r says.
func (l *ledger) rewrite(r remembered) error {
	if l.path == "" {
		return nil
	}
	var b bytes.Buffer
	for addr := range r.given {
		fmt.Fprintf(&b, "+ %s\n", addr)
	}
	for addr, at := range r.released {
		fmt.Fprintf(&b, "- %s %d\n", addr, at.UnixMilli())
	}
	for _, addr := range r.cursors {
		fmt.Fprintf(&b, "@ %s\n", addr)
	}
	temporary := l.path + ".new"
	if err := os.WriteFile(temporary, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write ledger of pod addresses: %w", err)
	}
	if err := os.Rename(temporary, l.path); err != nil {
		return fmt.Errorf("replace ledger of pod addresses: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open ledger of pod addresses: %w", err)
	}
	l.close()
	l.file, l.lines = file, bytes.Count(b.Bytes(), []byte{'\n'})
	return nil
}

// gave notes addresses as given away; moved says that the next one is to be
// looked for behind them.
func (l *ledger) gave(addrs []netip.Addr, moved bool) {
	l.append(addrs, func(addr netip.Addr) string {
		if moved {
			return fmt.Sprintf("+ %s\n@ %s\n", addr, addr)
		}
		return fmt.Sprintf("+ %s\n", addr)
	})
}

func (l *ledger) released(addrs []netip.Addr, at time.Time) {
	l.append(addrs, func(addr netip.Addr) string {
		return fmt.Sprintf("- %s %d\n", addr, at.UnixMilli())
	})
}

func (l *ledger) append(addrs []netip.Addr, line func(netip.Addr) string) {
	if l.file == nil || len(addrs) == 0 {
		return
	}
	var b strings.Builder
	for _, addr := range addrs {
		b.WriteString(line(addr))
	}
	l.lines += strings.Count(b.String(), "\n")
	if _, err := l.file.WriteString(b.String()); err != nil {
		l.warn(fmt.Errorf("append to %s: %w", l.path, err))
		return
	}
	l.failed = false
}

// warn logs the first failure of a row: without the ledger addresses may come
// back early after a restart, and pods shall not stop for that.
func (l *ledger) warn(err error) {
	if !l.failed {
		l.logger.Warn("pod addresses given up now may be used again within a minute of a restart", "error", err)
	}
	l.failed = true
}

func (l *ledger) close() {
	if l.file != nil {
		_ = l.file.Close() // nothing is buffered
		l.file = nil
	}
}
