// Command linkerd-lite behaves like a cluster that runs Linkerd, without the cluster.
package main

import (
	"os"

	"github.com/linkerd-lite/linkerd-lite/cmd/linkerd-lite/app"
)

func main() {
	os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
