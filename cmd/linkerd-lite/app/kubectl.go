package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// noProcess are kubectl's commands that need a process in a pod.
var noProcess = map[string]string{
	"logs":         "pods of this cluster are objects without a process, so there is no output",
	"exec":         "pods of this cluster are objects without a process, so nothing can be run in them",
	"attach":       "pods of this cluster are objects without a process, so there is nothing to attach to",
	"cp":           "pods of this cluster are objects without a process, so they have no files",
	"debug":        "pods of this cluster are objects without a process, so nothing can be run in them",
	"port-forward": "pods of this cluster are objects without a process, so no port is open",
	"top":          "pods of this cluster are objects without a process, so they use nothing",
}

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [--data-dir DIR] ARG...",
		Short:              "Run the built-in kubectl against the running instance",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dataDir, args := takeDataDir(args)
			info, err := datadir.Find(dataDir)
			if err != nil {
				return err
			}
			flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
			// The user's ~/.kube is for their own clusters.
			cache := filepath.Join(info.DataDir, "kubectl-cache")
			flags.KubeConfig, flags.CacheDir = &info.Kubeconfig, &cache
			// kubectl prints errors and exits by itself where it runs alone.
			root := kubectl.NewKubectlCommand(kubectl.KubectlOptions{
				ConfigFlags: flags,
				Arguments:   append([]string{"kubectl"}, args...),
				IOStreams:   genericiooptions.IOStreams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr()},
			})
			refuseProcessCommands(root)
			replaceVersion(root, flags)
			root.SetArgs(args)
			root.SetIn(cmd.InOrStdin())
			root.SetOut(cmd.OutOrStdout())
			root.SetErr(cmd.ErrOrStderr())
			root.SilenceErrors, root.SilenceUsage = true, true
			// kubectl reads it in some commands by other ways than its flags.
			if err := os.Setenv("KUBECONFIG", info.Kubeconfig); err != nil {
				return err
			}
			var failure error
			kubectlutil.BehaviorOnFatal(func(message string, code int) {
				panic(kubectlExit{strings.TrimSuffix(message, "\n"), code})
			})
			defer kubectlutil.DefaultBehaviorOnFatal()
			func() {
				defer func() {
					if v := recover(); v != nil {
						exit, ok := v.(kubectlExit)
						if !ok {
							panic(v)
						}
						if exit.message != "" {
							fmt.Fprintln(cmd.ErrOrStderr(), exit.message)
						}
						if exit.code != 0 {
							failure = &exitError{code: exit.code}
						}
					}
				}()
				failure = root.ExecuteContext(cmd.Context())
			}()
			return failure
		},
	}
}

// kubectlExit carries the end of kubectl to its caller.
type kubectlExit struct {
	message string
	code    int
}

func refuseProcessCommands(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		reason, ok := noProcess[cmd.Name()]
		if !ok {
			continue
		}
		refuse := func(*cobra.Command, []string) error {
			return fmt.Errorf("kubectl %s cannot work here: %s", cmd.Name(), reason)
		}
		for _, c := range append(slices.Clone(cmd.Commands()), cmd) {
			c.Run, c.RunE, c.Args, c.DisableFlagParsing = nil, refuse, cobra.ArbitraryArgs, true
			c.PreRun, c.PreRunE = nil, nil
		}
	}
}

// takeDataDir takes our own flag from the front of kubectl's arguments.
func takeDataDir(args []string) (dataDir string, rest []string) {
	if len(args) >= 2 && args[0] == "--data-dir" {
		return args[1], args[2:]
	}
	if len(args) >= 1 {
		if value, ok := strings.CutPrefix(args[0], "--data-dir="); ok {
			return value, args[1:]
		}
	}
	return "", args
}
