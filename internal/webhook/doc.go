// Package webhook serves admission reviews to the API server.
//
// Here lives: the HTTPS server with its certificate, and the webhook configurations that point to it. Not here: what is
// admitted; that is a function per endpoint.
package webhook
