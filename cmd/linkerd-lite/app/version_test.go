package app

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, test := range []struct {
		name string
		main string
		vcs  []debug.BuildSetting
		want string
	}{
		{"installed", "v1.2.3", nil, "v1.2.3"},
		{"built in a clone", "v0.0.0-20260102030405-abcdefabcdef+dirty", nil, "v0.0.0-20260102030405-abcdefabcdef+dirty"},
		{"nothing recorded", "(devel)", nil, "a development build without a recorded revision"},
		{"no module", "", nil, "a development build without a recorded revision"},
		{"revision", "(devel)", []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "false")}, "a development build of revision abc"},
		{"changed", "(devel)", []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "true")}, "a development build of revision abc, changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: test.main}, Settings: test.vcs}
			if got := versionOf(info); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
