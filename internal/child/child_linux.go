package child

import (
	"os/exec"
	"syscall"
)

// bindToParent lets the kernel kill a process when the thread that starts it
// ends, as all do when this process is killed.
func bindToParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
