// Package examples holds the directories in examples/ to what their READMEs promise.
package examples
