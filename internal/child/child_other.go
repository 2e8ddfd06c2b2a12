//go:build !linux

package child

import "os/exec"

// bindToParent does nothing where the kernel knows nothing of the kind.
func bindToParent(*exec.Cmd) {}
