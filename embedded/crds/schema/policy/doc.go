// Package policy describes the schema of policy.linkerd.io HTTPRoutes, from which the generator makes their custom
// resource definition. In Go these routes are read as Gateway API types, whose markers would give another schema.
//
// +kubebuilder:object:generate=false
package policy
