package destination

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// serviceProfileKey is what the profile of a Service depends on besides the cluster.
type serviceProfileKey struct {
	namespace, service string
	port               uint32
	// client is the namespace of the client's ServiceProfiles, which win over
	// those of the Service's namespace; "" for a client that names none.
	client string
}

// serviceProfile is one profile of a Service: the message, and where it comes
// from. A profile is sent again whenever one of its sources changed, whether
// or not that shows in the message (D section 2.3, D106).
type serviceProfile struct {
	source   profileSource
	opaque   linkerd.PortSet
	standing standing
	// message is nil if the ServiceProfile in force cannot be used: clients keep
	// what they have, and new ones hear nothing (D112).
	message *grpcserver.Encoded
	// found is what is wrong with the ServiceProfile.
	found []problems.Problem
}

// standing says whether a profile is the Service's. It is where profiles are not strict.
type standing int

const (
	served standing = iota
	// undeclared: the Service has no such port. The profile is empty, and proxies
	// ask for the outbound policy, which knows no such port either.
	undeclared
	// missing: there is no such Service.
	missing
)

// profileSource identifies a version of a ServiceProfile; zero without one.
type profileSource struct {
	uid     types.UID
	version string
	name    types.NamespacedName
}

func sourceOf(sp *linkerdv1alpha2.ServiceProfile) profileSource {
	if sp == nil {
		return profileSource{}
	}
	return profileSource{sp.UID, sp.ResourceVersion, types.NamespacedName{Namespace: sp.Namespace, Name: sp.Name}}
}

func (p serviceProfile) equal(other serviceProfile) bool {
	return p.standing == other.standing && p.source == other.source && p.opaque.Equal(other.opaque)
}

// serviceProfiles is the family of profiles by Service.
type serviceProfiles struct {
	clusterDomain string
	opaquePorts   linkerd.PortSet
	// strict: see Config.StrictProfiles.
	strict bool
}

func (p *serviceProfiles) newSet(g *view.Graph) *view.Set[serviceProfileKey, serviceProfile] {
	return view.NewSet(g, "destination/service-profiles", p.compute, serviceProfile.equal)
}

// fullName is the name of a Service, and of its ServiceProfiles.
func fullName(service, namespace, clusterDomain string) string {
	return service + "." + namespace + ".svc." + clusterDomain
}

func (p *serviceProfiles) compute(r *view.Reader, key serviceProfileKey, previous *serviceProfile) serviceProfile {
	switch standing := p.standing(r.Reader, key); standing {
	case missing:
		return serviceProfile{standing: missing}
	case undeclared:
		return serviceProfile{standing: undeclared, message: grpcserver.NewEncoded(nil)}
	}
	sp := p.winner(r.Reader, key)
	profile := serviceProfile{source: sourceOf(sp), opaque: p.opaquePortsOf(r, key)}
	if previous != nil && previous.equal(profile) {
		r.Report(previous.found...)
		return *previous
	}
	profile.message, profile.found = p.encode(sp, key, profile.opaque.Contains(key.port))
	r.Report(profile.found...)
	return profile
}

// standing is what a strict profile depends on.
func (p *serviceProfiles) standing(r *state.Reader, key serviceProfileKey) standing {
	if !p.strict {
		return served
	}
	service, ok := state.Get(r, state.Services, key.namespace, key.service)
	switch {
	case !ok:
		return missing
	case !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return uint32(p.Port) == key.port }):
		return undeclared
	}
	return served
}

// encode makes the message of a ServiceProfile, nil for one that cannot be used, and
// says what is wrong with it.
func (p *serviceProfiles) encode(sp *linkerdv1alpha2.ServiceProfile, key serviceProfileKey, opaque bool) (*grpcserver.Encoded, []problems.Problem) {
	var found []problems.Problem
	note := func(err error, instead string, severity problems.Severity) {
		problem := problems.Problem{Message: err.Error(), Instead: instead, Severity: severity}
		if sp != nil {
			problem.Object = problems.ObjectOf(state.ServiceProfiles.GVK, sp.Namespace, sp.Name)
		} else {
			problem.Object = serviceObject(key.namespace, key.service)
		}
		found = append(found, problem)
	}
	target := profileTarget{service: key.service, namespace: key.namespace, fqn: fullName(key.service, key.namespace, p.clusterDomain), port: key.port}
	message, err := translateProfile(sp, target, opaque, func(err error) {
		note(err, "this part is ignored", problems.Warning)
	})
	var encoded *grpcserver.Encoded
	if err == nil {
		encoded, err = grpcserver.Encode(message)
	}
	if err != nil {
		note(err, "what clients have been sent stays in force", problems.Error)
		return nil, found
	}
	return encoded, found
}

// winner is the ServiceProfile in force: the client's, or else the Service's,
// or nil. Nothing is merged (D93-D98).
func (p *serviceProfiles) winner(r *state.Reader, key serviceProfileKey) *linkerdv1alpha2.ServiceProfile {
	name := fullName(key.service, key.namespace, p.clusterDomain)
	if key.client != "" {
		if sp, ok := state.Get(r, state.ServiceProfiles, key.client, name); ok {
			return sp
		}
	}
	sp, _ := state.Get(r, state.ServiceProfiles, key.namespace, name)
	return sp
}

// opaquePortsOf is the Service's annotated set, or the default set when the
// annotation or the Service is missing (D section 3.7, D103-D108).
func (p *serviceProfiles) opaquePortsOf(r *view.Reader, key serviceProfileKey) linkerd.PortSet {
	service, ok := state.Get(r.Reader, state.Services, key.namespace, key.service)
	if !ok {
		return p.opaquePorts
	}
	annotation, ok := service.Annotations[linkerd.OpaquePortsAnnotation]
	if !ok {
		return p.opaquePorts
	}
	set, err := linkerd.ParsePortSet(annotation, func(name string) (uint16, bool) { return servicePortByName(service, name) })
	if err != nil {
		report(r.Report).annotation(serviceObject(service.Namespace, service.Name), linkerd.OpaquePortsAnnotation, err)
	}
	return set
}

func servicePortByName(service *corev1.Service, name string) (uint16, bool) {
	for _, port := range service.Spec.Ports {
		if port.Name != "" && port.Name == name {
			return uint16(port.Port), true
		}
	}
	return 0, false
}
