package app

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	kubectlversion "k8s.io/kubectl/pkg/cmd/version"

	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
)

// replaceVersion replaces `kubectl version`: it knows its own version only when
// it was built by Kubernetes' scripts, and fails over the one it has here.
func replaceVersion(root *cobra.Command, flags *genericclioptions.ConfigFlags) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "version" {
			continue
		}
		cmd.Run = nil
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			version := kubectlversion.Version{ClientVersion: &apimachineryversion.Info{GitVersion: apiserver.KubernetesVersion()}}
			clientOnly, _ := cmd.Flags().GetBool("client")
			if !clientOnly {
				client, err := flags.ToDiscoveryClient()
				if err != nil {
					return err
				}
				client.Invalidate()
				if version.ServerVersion, err = client.ServerVersion(); err != nil {
					return err
				}
			}
			output, _ := cmd.Flags().GetString("output")
			return printVersion(cmd, version, output)
		}
	}
}

func printVersion(cmd *cobra.Command, version kubectlversion.Version, output string) error {
	out := cmd.OutOrStdout()
	switch output {
	case "":
		text := fmt.Sprintf("Client Version: %s\n", version.ClientVersion.GitVersion)
		if version.ServerVersion != nil {
			text += fmt.Sprintf("Server Version: %s\n", version.ServerVersion.GitVersion)
		}
		_, err := io.WriteString(out, text)
		return err
	case "json":
		return diagnostics.WriteJSON(out, &version)
	case "yaml":
		return diagnostics.WriteYAML(out, &version)
	}
	return fmt.Errorf("--output must be 'yaml' or 'json'")
}
