// Package routes turns what inbound and outbound policy have in common, the
// hosts, matches and filters of Gateway API routes, into messages of the proxy
// API (policy-inbound 8.4 and 8.5).
package routes
