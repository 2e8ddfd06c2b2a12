package sandbox

import "net/netip"

// request is what the parent asks of the child; one of its fields is set.
type request struct {
	ID uint64

	Setup         *setup   `json:",omitempty"`
	AddPod        *Pod     `json:",omitempty"`
	RemovePod     string   `json:",omitempty"`
	SetService    *Service `json:",omitempty"`
	RemoveService string   `json:",omitempty"`
	Socket        *socket  `json:",omitempty"`
	Start         *Process `json:",omitempty"`
	Signal        *sending `json:",omitempty"`
}

// setup is what comes first.
type setup struct {
	Hosts    []netip.Addr
	Services []netip.Prefix
}

// socket is one to be opened: listening, or connected.
type socket struct {
	Place
	// Network is tcp or udp.
	Network string
	Address netip.AddrPort
	Listen  bool
	// TimeoutMs bounds how long connecting may take.
	TimeoutMs int64
}

// sending is a signal for a process.
type sending struct{ PID, Number int }

// response is the child's answer to the request of that ID, or, with an ID of 0,
// the end of a process.
type response struct {
	ID    uint64
	Error string `json:",omitempty"`
	// Errno is the system's number of the error, if it has one.
	Errno int   `json:",omitempty"`
	PID   int   `json:",omitempty"`
	Exit  *Exit `json:",omitempty"`
}

// maxMessage is the longest message, in bytes; the kernel's own limit is somewhat more.
const maxMessage = 190_000
