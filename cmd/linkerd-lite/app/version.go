package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
)

// linkerdVersion is the version of Linkerd whose behaviour this program has.
const linkerdVersion = "2.20"

func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionText is what the command version and the flag --version print.
func versionText() string {
	return fmt.Sprintf("linkerd-lite: %s\nLinkerd:      %s\nKubernetes:   %s\nGo:           %s\n",
		programVersion(), linkerdVersion, apiserver.KubernetesVersion(), runtime.Version())
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
