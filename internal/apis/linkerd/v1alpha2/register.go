package v1alpha2

import "k8s.io/apimachinery/pkg/runtime/schema"

// SchemeGroupVersion is the group and version of this package's kinds.
var SchemeGroupVersion = schema.GroupVersion{Group: "linkerd.io", Version: "v1alpha2"}
