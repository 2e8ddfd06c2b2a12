// Package e2e tests the whole program: scripts in testdata/script run it as a
// user does, the Go tests run it inside the test process.
package e2e
