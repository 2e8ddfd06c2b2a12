package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
)

// proxyVariable names the proxy that pods get where --proxy says nothing.
const proxyVariable = "LINKERD_LITE_PROXY"

// Values of --run and --proxy.
const (
	runAnnotated = "annotated"
	runHost      = "host"
	proxyBuiltin = "builtin"
	proxyNone    = "none"
)

// runFlags say what of the pods runs.
type runFlags struct {
	run, proxy        string
	images, hostPaths []string
	pull              bool
	file              string
}

func (f *runFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.run, "run", "", "run pods as processes of yours, each in a network of its own: what annotation "+containers.RunAnnotation+
		"CONTAINER says; with --run=host also the commands of containers that this machine has")
	flags.Lookup("run").NoOptDefVal = runAnnotated
	flags.StringVar(&f.file, "run-file", "", "a file that says what containers run, as lines of NAMESPACE/WORKLOAD: {CONTAINER: command}")
	flags.StringVar(&f.proxy, "proxy", "", "the proxy of meshed pods that run: the path of a linkerd2-proxy, "+proxyBuiltin+" for a stand-in, or "+proxyNone+
		" (default: $"+proxyVariable+", else linkerd2-proxy in $PATH, else "+proxyBuiltin+")")
	flags.StringArrayVar(&f.images, "images", nil, "an OCI layout, an archive of docker save, or a directory of these, whose images containers run; repeatable")
	flags.BoolVar(&f.pull, "pull", false, "let containers run images of registries, which are asked for them")
	flags.StringArrayVar(&f.hostPaths, "run-host-path", nil, "a directory of this machine that pods may mount; repeatable")
}

// complete is the configuration, or nil if nothing runs.
func (f *runFlags) complete() (*embedded.RunConfig, error) {
	if f.run == "" {
		return nil, nil
	}
	if err := oneOf("run", f.run, runAnnotated, runHost); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	config := &embedded.RunConfig{Child: []string{self, sandboxInit}}
	config.Programs = containers.Programs{Host: f.run == runHost, Dir: dir}
	if f.file != "" {
		if config.Programs.File, err = containers.ReadRunFile(f.file); err != nil {
			return nil, fmt.Errorf("--run-file: %w", err)
		}
	}
	config.Images, config.Pull = f.images, f.pull
	if config.Programs.Proxy, err = f.proxyCommand(self); err != nil {
		return nil, err
	}
	for _, path := range f.hostPaths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, flagError("run-host-path", path, "%v", err)
		}
		config.HostPaths = append(config.HostPaths, absolute)
	}
	return config, nil
}

// proxyCommand is what a proxy container runs; nil: nothing.
func (f *runFlags) proxyCommand(self string) ([]string, error) {
	builtin := []string{self, "proxy"}
	said, flag := f.proxy, "--proxy"
	if said == "" {
		said, flag = os.Getenv(proxyVariable), "$"+proxyVariable
	}
	switch said {
	case proxyNone:
		return nil, nil
	case proxyBuiltin:
		return builtin, nil
	case "":
		if found, err := exec.LookPath("linkerd2-proxy"); err == nil {
			return []string{found}, nil
		}
		return builtin, nil
	}
	path, err := filepath.Abs(said)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", flag, said, err)
	}
	return []string{path}, nil
}

// sandboxInit is the command that is the first process of a sandbox.
const sandboxInit = "sandbox-init"

func newSandboxInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: sandboxInit, Short: "What `up --run` starts as the first process of its sandbox", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return sandbox.Main() },
	}
}
