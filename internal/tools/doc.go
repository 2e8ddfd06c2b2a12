// Package tools pins the generators and linters of the project in a go.mod of
// its own, so that none of them decides a version the product links.
package tools
