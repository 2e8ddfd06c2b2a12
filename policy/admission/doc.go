// Package admission checks policies and routes before they are stored.
//
// Here lives: one pure function per kind, and their use as an admission review. Not here: what the schemas of the
// custom resource definitions check, and the HTTPS server.
package admission
