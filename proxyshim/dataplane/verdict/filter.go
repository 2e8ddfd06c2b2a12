package verdict

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

// Filter is one filter of a rule or a backend; one field is set.
type Filter struct {
	Request  *http_route.RequestHeaderModifier
	Response *http_route.ResponseHeaderModifier
	Redirect *http_route.RequestRedirect
	Failure  *Failure
}

// Failure is an answer that a rule gives in place of a backend's.
type Failure struct {
	// Status is that of HTTP, Code that of gRPC; one is set.
	Status int
	Code   codes.Code
	// Message goes into the header of errors.
	Message string
	// Ratio is the share of requests that fail; nil is all.
	Ratio *http_route.Ratio
}

// Answer is what a proxy answers itself.
type Answer struct {
	// Status is that of HTTP, for requests that are not gRPC.
	Status int
	Code   codes.Code
	// GRPC says that all requests get status 200 and Code.
	GRPC     bool
	Location string
	Message  string
	// Close says that the connection to the client is to be closed.
	Close bool
}

func (a *Answer) Error() string { return a.Message }

// Apply does what filters do to a request, in their order: it changes header,
// or returns the answer. Share draws a number in [0, n) for failures of a ratio.
func Apply(filters []Filter, r *Request, m Match, header http.Header, share func(n uint32) uint32) *Answer {
	for _, f := range filters {
		switch {
		case f.Request != nil:
			modify(header, f.Request)
		case f.Redirect != nil:
			location, err := redirection(f.Redirect, r, m)
			if err != nil {
				return &Answer{Status: http.StatusInternalServerError, Code: codes.Internal, Message: "invalid redirect: " + err.Error(), Close: true}
			}
			if location == "" {
				continue
			}
			status := int(f.Redirect.GetStatus())
			if status == 0 {
				status = http.StatusMovedPermanently
			}
			return &Answer{Status: status, Code: codes.NotFound, Location: location, Message: "redirected"}
		case f.Failure != nil:
			if ratio := f.Failure.Ratio; ratio != nil && (ratio.GetDenominator() == 0 || share(ratio.GetDenominator()) >= ratio.GetNumerator()) {
				continue
			}
			if f.Failure.Status != 0 {
				return &Answer{Status: f.Failure.Status, Code: codes.FailedPrecondition, Message: f.Failure.Message}
			}
			return &Answer{GRPC: true, Code: f.Failure.Code, Message: f.Failure.Message}
		}
	}
	return nil
}

// ApplyResponse does what filters do to the header of an answer.
func ApplyResponse(filters []Filter, header http.Header) {
	for _, f := range filters {
		if f.Response != nil {
			modify(header, f.Response)
		}
	}
}

// modifier is what both kinds of header modifiers are.
type modifier interface {
	GetAdd() *http_types.Headers
	GetSet() *http_types.Headers
	GetRemove() []string
}

func modify(header http.Header, m modifier) {
	for _, h := range m.GetAdd().GetHeaders() {
		header.Add(h.GetName(), string(h.GetValue()))
	}
	for _, h := range m.GetSet().GetHeaders() {
		header.Set(h.GetName(), string(h.GetValue()))
	}
	for _, name := range m.GetRemove() {
		header.Del(name)
	}
}

// redirection is where a request is sent; empty means that it is there already.
func redirection(f *http_route.RequestRedirect, r *Request, m Match) (string, error) {
	scheme := "http"
	switch s := f.GetScheme().GetType().(type) {
	case *http_types.Scheme_Registered_:
		scheme = strings.ToLower(s.Registered.String())
	case *http_types.Scheme_Unregistered:
		scheme = s.Unregistered
	}
	authority := redirectAuthority(f, scheme, r.Authority)
	if authority == "" {
		return "", errors.New("no authority to redirect to")
	}
	path := withQuery(r.Path, r.RawQuery)
	switch p := f.GetPath().GetReplace().(type) {
	case *http_route.PathModifier_Full:
		path = p.Full
	case *http_route.PathModifier_Prefix:
		if m.prefix < 0 || m.prefix > len(r.Path) {
			return "", errors.New("redirects may only replace the path prefix when a path prefix match applied")
		}
		rest := r.Path[m.prefix:]
		prefix := strings.TrimRight(p.Prefix, "/")
		if !strings.HasPrefix(rest, "/") && (rest != "" || prefix == "") {
			rest = "/" + rest
		}
		path = withQuery(prefix+rest, r.RawQuery)
	}
	location := scheme + "://" + authority + path
	if location == "http://"+r.Authority+withQuery(r.Path, r.RawQuery) {
		return "", nil
	}
	return location, nil
}

// redirectAuthority leaves out a port that the scheme implies.
func redirectAuthority(f *http_route.RequestRedirect, scheme, original string) string {
	host, port, err := net.SplitHostPort(original)
	if err != nil {
		host, port = original, ""
	}
	given := ""
	if p := f.GetPort(); p != 0 {
		given = strconv.FormatUint(uint64(p), 10)
	}
	switch {
	case f.GetHost() == "" && given == "":
		return original
	case f.GetHost() != "" && given != "":
		return net.JoinHostPort(f.GetHost(), given)
	case f.GetHost() != "":
		host = f.GetHost()
	default:
		port = given
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}
