// Package identity is the certificate authority of the mesh: it keeps a trust
// anchor and an issuer, and certifies workloads that prove themselves with a
// service-account token.
//
// Here lives: the key files, the issuer and its rotation, the checks of
// Certify. Not here: TLS itself, which is the parent package's.
package identity
