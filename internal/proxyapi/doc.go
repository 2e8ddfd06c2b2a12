// Package proxyapi is the API between Linkerd proxies and their control plane
// (release 0.20.0): a .proto file and its generated Go in a folder per
// protobuf package, with the conversion of addresses beside them.
//
// Names, numbers and types are a contract with proxies that others build;
// testdata/schema.tsv states it and a test compares. The packages lie under
// internal/ because a program can link only one copy of a protobuf package.
package proxyapi

//go:generate go -C ../tools run ./protogen .. proxyapi/destination proxyapi/grpc_route proxyapi/http_route proxyapi/http_types proxyapi/identity proxyapi/inbound proxyapi/meta proxyapi/net proxyapi/opaque_route proxyapi/outbound proxyapi/tap proxyapi/tls_route
