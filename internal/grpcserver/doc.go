// Package grpcserver is the gRPC server that every service of the control
// plane runs on: its limits, its metrics, its stop, and a codec that sends
// messages which were encoded once for many streams.
package grpcserver
