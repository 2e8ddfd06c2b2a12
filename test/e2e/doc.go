// Package e2e holds whole-product tests: txtar scripts that run the program as
// a user would. It is the one package whose test binary links the API server.
package e2e
