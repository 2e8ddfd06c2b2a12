package diagnostics

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// CheckReport is what check says, in the form of `linkerd check -o json`.
type CheckReport struct {
	Success    bool            `json:"success"`
	Categories []checkCategory `json:"categories"`
}

type checkCategory struct {
	Name   string        `json:"categoryName"`
	Checks []checkResult `json:"checks"`
}

type checkResult struct {
	Description string    `json:"description"`
	Error       string    `json:"error,omitempty"`
	Result      checkMark `json:"result"`
}

type checkMark string

const (
	checkSuccess checkMark = "success"
	checkWarning checkMark = "warning"
	checkError   checkMark = "error"
)

// NewCheckReport makes a report of what an instance answered, and the error
// with which check ends. Info and ready are nil for what is not known.
func NewCheckReport(info *datadir.RunInfo, ready *Readiness, err error) (CheckReport, error) {
	var report CheckReport
	instance := checkResult{Description: "an instance is running and ready", Result: checkSuccess}
	if info != nil {
		instance.Description = fmt.Sprintf("process %d in %s is ready", info.PID, info.DataDir)
	}
	if err != nil {
		instance.Result, instance.Error = checkError, err.Error()
	}
	if ready != nil {
		parts := checkCategory{Name: "parts"}
		for _, part := range ready.Parts {
			parts.Checks = append(parts.Checks, checkPart(part))
		}
		report.Categories = append(report.Categories, parts)
		if len(ready.Problems) > 0 {
			report.Categories = append(report.Categories, checkProblems(ready.Problems))
		}
	}
	report.Categories = append(report.Categories, checkCategory{Name: "instance", Checks: []checkResult{instance}})
	if err == nil && ready.Manifests != nil {
		var checks []checkResult
		checks, err = checkManifests(ready.Manifests)
		report.Categories = append(report.Categories, checkCategory{Name: "manifests", Checks: checks})
	}
	report.Success = err == nil
	return report, err
}

func checkPart(part lifecycle.Status) checkResult {
	result := checkResult{Description: part.Name, Result: checkSuccess}
	switch {
	case part.Error != "":
		result.Result, result.Error = checkError, part.Error
	case part.State == lifecycle.Waiting || part.State == lifecycle.Starting || part.State == lifecycle.Stopping:
		result.Result, result.Error = checkError, string(part.State)
		if part.WaitsFor != "" {
			result.Error += ": " + part.WaitsFor
		}
	}
	return result
}

// checkProblems are warnings: the instance is well, an object is not. Notes are none.
func checkProblems(found []problems.Problem) checkCategory {
	category := checkCategory{Name: "objects"}
	for _, p := range found {
		if p.Severity == problems.Note {
			category.Checks = append(category.Checks, checkResult{Description: p.String(), Result: checkSuccess})
			continue
		}
		category.Checks = append(category.Checks, checkResult{
			Description: cmp.Or(p.Object.String(), "part "+p.Source),
			Error:       fmt.Sprintf("%s (%s, since %s)", p.WithoutObject(), p.Source, p.Since.Local().Format(time.TimeOnly)),
			Result:      checkWarning,
		})
	}
	return category
}

// checkManifests says whether the manifests are applied; faults are an error.
func checkManifests(status *manifests.Status) ([]checkResult, error) {
	var checks []checkResult
	for _, faults := range [][]problems.Problem{status.Faults, status.Waiting, status.Leaving} {
		for _, fault := range faults {
			checks = append(checks, checkResult{Description: source.Where(fault), Error: fault.WithoutObject(), Result: checkError})
		}
	}
	for _, notice := range status.Notices {
		checks = append(checks, checkResult{Description: source.Where(notice), Error: notice.WithoutObject(), Result: checkWarning})
	}
	for _, drift := range status.Drift {
		checks = append(checks, checkResult{Description: "changed by others", Error: drift.String(), Result: checkWarning})
	}
	if !status.InSync {
		return checks, fmt.Errorf("manifests are not in sync: %s, %d waiting, %s held",
			Count(len(status.Faults), "fault"), len(status.Waiting), Count(len(status.Held)+len(status.Leaving), "deletion"))
	}
	return append(checks, checkResult{
		Description: fmt.Sprintf("manifests in sync: %s of %s", Count(status.Objects, "object"), Count(status.Files, "file")),
		Result:      checkSuccess,
	}), nil
}

// Count is "1 file" or "2 files".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// CheckWriter returns the writer for an output format.
func CheckWriter(format string) (func(io.Writer, CheckReport) error, error) {
	switch format {
	case "table":
		return func(out io.Writer, report CheckReport) error { return writeChecks(out, report, false) }, nil
	case "short":
		return func(out io.Writer, report CheckReport) error { return writeChecks(out, report, true) }, nil
	case "json":
		return func(out io.Writer, report CheckReport) error { return WriteJSON(out, report) }, nil
	}
	return nil, fmt.Errorf("output format %q: use table, short or json", format)
}

func writeChecks(out io.Writer, report CheckReport, short bool) error {
	mark := map[checkMark]string{checkSuccess: "√", checkWarning: "‼", checkError: "×"}
	if OnTerminal(out) {
		mark = map[checkMark]string{checkSuccess: "\x1b[32;1m√\x1b[0m", checkWarning: "\x1b[33;1m‼\x1b[0m", checkError: "\x1b[31;1m×\x1b[0m"}
	}
	var text strings.Builder
	for _, category := range report.Categories {
		checks := category.Checks
		if short {
			checks = slices.DeleteFunc(slices.Clone(checks), func(c checkResult) bool { return c.Result == checkSuccess })
		}
		if len(checks) == 0 {
			continue
		}
		fmt.Fprintf(&text, "%s\n%s\n", category.Name, strings.Repeat("-", len(category.Name)))
		for _, check := range checks {
			fmt.Fprintf(&text, "%s %s\n", mark[check.Result], printable.Text(check.Description))
			if check.Error != "" {
				fmt.Fprintf(&text, "    %s\n", printable.Text(check.Error))
			}
		}
		text.WriteString("\n")
	}
	result := checkSuccess
	if !report.Success {
		result = checkError
	}
	fmt.Fprintf(&text, "Status check results are %s\n", mark[result])
	_, err := io.WriteString(out, text.String())
	return err
}

// OnTerminal says whether colours may be used (see no-color.org).
func OnTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd()))
}
