// Package extworkloads writes the EndpointSlices of Services whose selector
// matches ExternalWorkloads (D section 3.8).
package extworkloads
