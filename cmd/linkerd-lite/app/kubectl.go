package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// noProcess are kubectl's commands that need a process in a pod, where none runs.
var noProcess = map[string]string{
	"logs":         "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so there is no output",
	"exec":         "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so nothing can be run in them",
	"attach":       "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so there is nothing to attach to",
	"cp":           "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so they have no files",
	"debug":        "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so nothing can be run in them",
	"port-forward": "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so no port is open",
	"top":          "pods of this cluster are objects without a process (see `linkerd-lite up --run`), so they use nothing",
}

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARG...",
		Short: "Run the built-in kubectl against the running instance",
		Example: `  linkerd-lite kubectl get pods -A
  linkerd-lite kubectl apply -f more.yaml -v=6
  alias kubectl='linkerd-lite kubectl'`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := newBuiltinKubectl(cmd, args)
			if err != nil {
				return err
			}
			return k.run()
		},
		ValidArgsFunction: completeKubectl,
	}
}

// builtinKubectl is one run of kubectl.
type builtinKubectl struct {
	root   *cobra.Command
	parent *cobra.Command
	args   []string
}

// newBuiltinKubectl makes a kubectl for the instance that is meant, or for none
// if the command needs none.
func newBuiltinKubectl(parent *cobra.Command, args []string) (*builtinKubectl, error) {
	dataDir, args := takeDataDir(args)
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	info, err := datadir.Find(dataDir)
	var kubeconfig, cache string
	switch {
	case err == nil:
		kubeconfig, cache = info.Kubeconfig, filepath.Join(info.DataDir, "kubectl-cache")
	case !needsNoCluster(args):
		return nil, err
	default:
		kubeconfig, cache = os.DevNull, filepath.Join(os.TempDir(), fmt.Sprintf("linkerd-lite-kubectl-%d", os.Getuid()))
	}
	// The user's ~/.kube is for their own clusters.
	flags.KubeConfig, flags.CacheDir = &kubeconfig, &cache
	flags.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		// The beginning becomes the name of the field manager where kubectl gives none.
		config.UserAgent = "kubectl/" + apiserver.KubernetesVersion() + " (linkerd-lite)"
		if err != nil {
			config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		}
		return config
	})
	// kubectl reads it in some commands by other ways than its flags, and so do plugins.
	if err := os.Setenv("KUBECONFIG", kubeconfig); err != nil {
		return nil, err
	}
	root := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		ConfigFlags:   flags,
		Arguments:     append([]string{"kubectl"}, args...),
		IOStreams:     genericiooptions.IOStreams{In: parent.InOrStdin(), Out: parent.OutOrStdout(), ErrOut: parent.ErrOrStderr()},
	})
	// -v and the like, as where kubectl is a program of its own.
	logs.AddFlags(root.PersistentFlags())
	if info == nil || !info.Runs {
		refuseProcessCommands(root)
	}
	replaceVersion(root, flags)
	root.SetArgs(args)
	root.SetIn(parent.InOrStdin())
	root.SetOut(parent.OutOrStdout())
	root.SetErr(parent.ErrOrStderr())
	root.SilenceErrors, root.SilenceUsage = true, true
	return &builtinKubectl{root: root, parent: parent, args: args}, nil
}

// kubectlExit carries the end of kubectl to its caller.
type kubectlExit struct {
	message string
	code    int
}

// run runs kubectl, which prints errors and exits by itself where it runs alone.
func (k *builtinKubectl) run() (failure error) {
	kubectlutil.BehaviorOnFatal(func(message string, code int) {
		panic(kubectlExit{strings.TrimSuffix(message, "\n"), code})
	})
	defer kubectlutil.DefaultBehaviorOnFatal()
	defer func() {
		if v := recover(); v != nil {
			exit, ok := v.(kubectlExit)
			if !ok {
				panic(v)
			}
			if exit.message != "" {
				fmt.Fprintln(k.parent.ErrOrStderr(), exit.message)
			}
			if exit.code != 0 {
				failure = &exitError{code: exit.code}
			}
		}
	}()
	return k.root.ExecuteContext(k.parent.Context())
}

// needsNoCluster says whether kubectl can do this without asking an API server.
func needsNoCluster(args []string) bool {
	words := 0
	for i, arg := range args {
		switch {
		case arg == "--":
			return words == 0
		case arg == "-h", arg == "--help", arg == "--client", arg == "--client=true", arg == "--dry-run=client", arg == "--local", arg == "--local=true",
			arg == "--dry-run" && i+1 < len(args) && args[i+1] == "client":
			return true
		case strings.HasPrefix(arg, "-"):
		case words == 0 && slices.Contains([]string{"kustomize", "help", "completion", "options", "plugin", "config", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, arg):
			return true
		default:
			words++
		}
	}
	return words == 0
}

// completeKubectl asks kubectl how its arguments may go on.
func completeKubectl(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	dataDir, args := takeDataDir(args)
	request := append([]string{cobra.ShellCompRequestCmd}, append(args, toComplete)...)
	if dataDir != "" {
		request = append([]string{"--data-dir", dataDir}, request...)
	}
	k, err := newBuiltinKubectl(cmd, request)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out bytes.Buffer
	k.root.SetOut(&out)
	k.root.SetErr(&bytes.Buffer{})
	if err := k.run(); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := lines[len(lines)-1]
	directive, err := strconv.Atoi(strings.TrimPrefix(last, ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
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

// takeDataDir takes our own flag from kubectl's arguments, wherever it stands.
func takeDataDir(args []string) (dataDir string, rest []string) {
	for i := 0; i < len(args); i++ {
		switch value, ok := strings.CutPrefix(args[i], "--data-dir="); {
		case args[i] == "--":
			return dataDir, append(rest, args[i:]...)
		case ok:
			dataDir = value
		case args[i] == "--data-dir" && i+1 < len(args):
			i++
			dataDir = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	return dataDir, rest
}
