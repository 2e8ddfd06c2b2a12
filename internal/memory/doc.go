// Package memory sets how this process uses memory: freely while it starts,
// sparingly afterwards.
package memory
