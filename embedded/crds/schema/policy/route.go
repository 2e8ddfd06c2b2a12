package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Group is the API group of a referenced object.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Group string

// Kind is the kind of a referenced object.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
type Kind string

// Name is the name of a referenced object.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type Name string

// Namespace is the namespace of a referenced object.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Namespace string

// Subdomain is a name in DNS.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Subdomain string

// Hostname is a name in DNS, or all names below one.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Hostname string

// Port is a port number.
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=65535
type Port int32

// HeaderName is the name of an HTTP header.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`
type HeaderName string

// MatchType says how a header or query parameter is compared.
//
// +kubebuilder:validation:Enum=Exact;RegularExpression
type MatchType string

// ParentRef names a parent of a route.
type ParentRef struct {
	ParentRefWithoutPort `json:",inline"`
	// +optional
	Port Port `json:"port,omitempty"`
}

// OldParentRef is the parent of a route in versions that do not bound the port.
type OldParentRef struct {
	ParentRefWithoutPort `json:",inline"`
	// +optional
	Port int `json:"port,omitempty"`
}

// ParentRefWithoutPort is what all parents of routes have.
type ParentRefWithoutPort struct {
	// +optional
	// +kubebuilder:default=policy.linkerd.io
	Group Group `json:"group,omitempty"`
	// +optional
	// +kubebuilder:default=Gateway
	Kind Kind `json:"kind,omitempty"`
	Name Name `json:"name"`
	// +optional
	Namespace Namespace `json:"namespace,omitempty"`
	// +optional
	SectionName Subdomain `json:"sectionName,omitempty"`
}

// Match is a condition on a request.
type Match struct {
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderMatch `json:"headers,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
	Method string `json:"method,omitempty"`
	// +optional
	// +kubebuilder:default={type: "PathPrefix", value: "/"}
	Path PathMatch `json:"path,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	QueryParams []QueryParamMatch `json:"queryParams,omitempty"`
}

// HeaderMatch is a condition on a header.
type HeaderMatch struct {
	Name HeaderName `json:"name"`
	// +optional
	// +kubebuilder:default=Exact
	Type MatchType `json:"type,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// PathMatch is a condition on a path.
type PathMatch struct {
	// +optional
	// +kubebuilder:default=PathPrefix
	// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
	Type string `json:"type,omitempty"`
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// QueryParamMatch is a condition on a query parameter.
type QueryParamMatch struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// +optional
	// +kubebuilder:default=Exact
	Type MatchType `json:"type,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// Header is a header with its value.
type Header struct {
	Name HeaderName `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// HeaderModifier changes headers.
type HeaderModifier struct {
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Add []Header `json:"add,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Set []Header `json:"set,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Remove []string `json:"remove,omitempty"`
}

// Redirect answers with another location.
type Redirect struct {
	// +optional
	Hostname Subdomain `json:"hostname,omitempty"`
	// +optional
	Path *RedirectPath `json:"path,omitempty"`
	// +optional
	Port Port `json:"port,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
	// +optional
	// +kubebuilder:default=302
	// +kubebuilder:validation:Enum=301;302
	StatusCode int `json:"statusCode,omitempty"`
}

// RedirectPath is the path of another location.
type RedirectPath struct {
	// +kubebuilder:validation:Enum=ReplaceFullPath;ReplacePrefixMatch
	Type string `json:"type"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ReplaceFullPath string `json:"replaceFullPath,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ReplacePrefixMatch string `json:"replacePrefixMatch,omitempty"`
}

// RuleFilter changes the requests of a rule.
type RuleFilter struct {
	// +kubebuilder:validation:Enum=RequestHeaderModifier;RequestRedirect
	Type string `json:"type"`
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`
	// +optional
	RequestRedirect *Redirect `json:"requestRedirect,omitempty"`
}

// BackendFilter changes the requests to a backend.
type BackendFilter struct {
	// +kubebuilder:validation:Enum=RequestHeaderModifier;ResponseHeaderModifier;RequestRedirect
	Type string `json:"type"`
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`
	// +optional
	ResponseHeaderModifier *HeaderModifier `json:"responseHeaderModifier,omitempty"`
	// +optional
	RequestRedirect *Redirect `json:"requestRedirect,omitempty"`
}

// BackendRef names a backend of a rule.
type BackendRef struct {
	// +optional
	// +kubebuilder:default=""
	Group Group `json:"group,omitempty"`
	// +optional
	// +kubebuilder:default=Service
	Kind Kind `json:"kind,omitempty"`
	Name Name `json:"name"`
	// +optional
	Namespace Namespace `json:"namespace,omitempty"`
	// +optional
	Port Port `json:"port,omitempty"`
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight int32 `json:"weight,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Filters []BackendFilter `json:"filters,omitempty"`
}

// OldBackendRef names a Service in the versions without other backends.
type OldBackendRef struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	// +kubebuilder:default=default
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Port int `json:"port,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Filters []BackendFilter `json:"filters,omitempty"`
}

// Timeouts limit how long a request takes.
type Timeouts struct {
	// +optional
	// +kubebuilder:validation:Format=duration
	Request string `json:"request,omitempty"`
	// +optional
	// +kubebuilder:validation:Format=duration
	BackendRequest string `json:"backendRequest,omitempty"`
}

// RuleMatches is what all rules have.
type RuleMatches struct {
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Filters []RuleFilter `json:"filters,omitempty"`
	// +optional
	// +kubebuilder:default={{path: {type: "PathPrefix", value: "/"}}}
	// +kubebuilder:validation:MaxItems=8
	Matches []Match `json:"matches,omitempty"`
}

// Rule is a rule of the newest version.
type Rule struct {
	TimelessRule `json:",inline"`
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// TimelessRule is a rule of the version before timeouts.
type TimelessRule struct {
	RuleMatches `json:",inline"`
	// +optional
	// +kubebuilder:validation:MaxItems=16
	BackendRefs []BackendRef `json:"backendRefs,omitempty"`
}

// OldRule is a rule of the versions whose backends are Services.
type OldRule struct {
	RuleMatches `json:",inline"`
	// +optional
	BackendRefs []OldBackendRef `json:"backendRefs,omitempty"`
}

// OldSpec is the spec of the versions whose backends are Services.
type OldSpec struct {
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Hostnames []Hostname `json:"hostnames,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	ParentRefs []OldParentRef `json:"parentRefs,omitempty"`
	// +optional
	// +kubebuilder:default={{matches: {{path: {type: "PathPrefix", value: "/"}}}}}
	// +kubebuilder:validation:MaxItems=16
	Rules []OldRule `json:"rules,omitempty"`
}

// Status is the state of a route.
type Status struct {
	// +kubebuilder:validation:MaxItems=32
	Parents []ParentStatus `json:"parents"`
}

// ParentStatus is the state of a route at one parent.
type ParentStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`
	ControllerName string    `json:"controllerName"`
	ParentRef      ParentRef `json:"parentRef"`
}
