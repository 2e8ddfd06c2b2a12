// Package diagnostics asks a running cluster what it tells proxies and how it
// is, and renders the answers for people and scripts. It knows nothing of
// command lines.
package diagnostics
