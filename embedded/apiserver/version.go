package apiserver

import (
	"runtime"
	"runtime/debug"
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// kubernetesModule is the module whose version is the server's.
const kubernetesModule = "k8s.io/kubernetes"

// fallbackVersion is served by binaries that carry no list of their modules,
// as test binaries of some build systems do.
const fallbackVersion = "v1.37.2"

// KubernetesVersion is the version that the server reports, like "v1.37.2".
func KubernetesVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == kubernetesModule && strings.HasPrefix(m.Version, "v1.") {
				return m.Version
			}
		}
	}
	return fallbackVersion
}

// reportedVersion replaces what /version says: binaries that are not built by
// Kubernetes' own scripts say v0.0.0-master, and Helm charts that ask for a
// version then refuse to install.
type reportedVersion struct {
	compatibility.EffectiveVersion
}

func (v reportedVersion) Info() *apimachineryversion.Info {
	gitVersion := KubernetesVersion()
	parts := strings.SplitN(strings.TrimPrefix(gitVersion, "v"), ".", 3)
	info := &apimachineryversion.Info{
		Major:      parts[0],
		Minor:      parts[1],
		GitVersion: gitVersion,
		// A date is expected; it says nothing here.
		BuildDate:    "1970-01-01T00:00:00Z",
		GitTreeState: "clean",
		GoVersion:    runtime.Version(),
		Compiler:     runtime.Compiler,
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
	}
	if original := v.EffectiveVersion.Info(); original != nil {
		info.EmulationMajor, info.EmulationMinor = original.EmulationMajor, original.EmulationMinor
		info.MinCompatibilityMajor, info.MinCompatibilityMinor = original.MinCompatibilityMajor, original.MinCompatibilityMinor
	}
	return info
}
