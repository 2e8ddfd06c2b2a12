// Package catalogue checks that every number of the rule catalogue is held by a test.
package catalogue
