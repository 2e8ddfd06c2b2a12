// Package validator checks ServiceProfiles before they are stored.
//
// Here lives: the check as a pure function, and its use as an admission review. Not here: the HTTPS server.
package validator
