// Package admin serves the admin address: liveness, readiness, metrics and,
// on request, profiles.
package admin
