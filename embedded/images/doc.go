// Package images finds container images and puts their files on disk.
//
// Images come from OCI layouts and archives of `docker save` in directories that
// the user names, and from registries if the user says so. What is unpacked is
// kept by digest, so that each image is unpacked once. Owners, device nodes and
// special bits of files are dropped: everything belongs to the user.
package images
