// Package rulebook ties tests to the numbered rules of docs/rules: a test says which
// ones it holds, and is told when there is no such rule.
package rulebook
