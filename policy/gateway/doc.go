// Package gateway reads the routes of the Gateway API, and Linkerd's own
// HTTPRoute, once for all parts of policy: parents and who has accepted them,
// matches, filters and backends as messages of the proxy API, timeouts and
// retries, and the last version that can be used.
//
// What cannot be converted is a *field.Error with the field's path, so that
// conversion is also what admission checks.
package gateway
