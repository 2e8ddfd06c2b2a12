package sandbox

import (
	"errors"
	"net/netip"
)

// DefaultRanges are the service and pod ranges of an instance.
func DefaultRanges() []netip.Prefix {
	var ranges []netip.Prefix
	for _, r := range []string{"10.96.0.0/12", "10.244.0.0/16", "fd00:10:96::/112", "fd00:10:244::/64"} {
		ranges = append(ranges, netip.MustParsePrefix(r))
	}
	return ranges
}

// ErrForbidden says that the machine does not let this user make a sandbox.
var ErrForbidden = errors.New("this machine does not let you make a user and network namespace " +
	"(see user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, " +
	"or the seccomp profile of a container)")
