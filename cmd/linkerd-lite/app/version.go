package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// programVersion is the module's version where the build knows one: a tag, or
// a pseudo-version that names the revision.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, dirty string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = " of revision " + setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = ", changed"
		}
	}
	if revision == "" {
		return "a development build without a recorded revision"
	}
	return "a development build" + revision + dirty
}

// versionText is what the command version and the flag --version print.
func versionText() string {
	return fmt.Sprintf("linkerd-lite: %s\nLinkerd:      %s\nKubernetes:   %s\nGo:           %s\n",
		programVersion(), linkerd.Version, apiserver.KubernetesVersion(), runtime.Version())
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of what it stands for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
