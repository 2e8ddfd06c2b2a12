// Package verdict says what a proxy makes of the control plane's messages: which
// route takes a request, what its filters do to it, whether a client may send it,
// and whether an answer is to be asked for again.
//
// All of it is functions of messages and requests, without I/O, clock or state.
// Where precedence is decided it follows linkerd2-proxy, also where Gateway API
// would have it otherwise: paths compare by the number of characters matched,
// whatever their kind, then the method, headers and query parameters count.
package verdict
