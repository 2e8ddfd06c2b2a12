package app

import (
	"fmt"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
)

// newFlagGroups are the groups in which the help of a command with many flags
// shows them.
func newFlagGroups() *cliflag.NamedFlagSets {
	return &cliflag.NamedFlagSets{NormalizeNameFunc: linkerdNames}
}

// installFlags gives the flags of all groups to a command, and a help that shows
// them group by group.
func installFlags(cmd *cobra.Command, groups *cliflag.NamedFlagSets) {
	cmd.Flags().SetNormalizeFunc(linkerdNames)
	for _, name := range groups.Order {
		cmd.Flags().AddFlagSet(groups.FlagSets[name])
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
		}
		cliflag.PrintSections(out, *groups, 0)
		return nil
	})
}
