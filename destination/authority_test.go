package destination

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestParseAuthority(t *testing.T) {
	for _, test := range []struct {
		name, path, host string
		port             uint32
		err              string
	}{
		{name: "D02 no port", path: "a.b", host: "a.b", port: 80},
		{name: "empty", path: "", host: "", port: 80},
		{name: "port", path: "a.b:1", host: "a.b", port: 1},
		{name: "IPv6", path: "[::1]:65535", host: "::1", port: 65535},
		{name: "D05 zeros", path: "a:080", host: "a", port: 80},
		{name: "D05 sign", path: "a:+80", host: "a", port: 80},
		{name: "D 2.2 no number", path: "a:http", err: `invalid port http: strconv.Atoi: parsing "http": invalid syntax`},
		{name: "D 2.2 zero", path: "a:0", err: "invalid port 0"},
		{name: "negative", path: "a:-1", err: "invalid port -1"},
		{name: "too large", path: "a:65536", err: "invalid port 65536"},
		{name: "D 2.2 colons", path: "2001:db8::88", err: "invalid destination: address 2001:db8::88: too many colons in address"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			got, err := parseAuthority(test.path)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || got != (authority{test.host, test.port}) {
				t.Errorf("%v, %v, want %s and %d", got, err, test.host, test.port)
			}
		})
	}
}

func TestParseServiceName(t *testing.T) {
	for _, test := range []struct {
		name, host, domain string
		want               serviceName
		err                string
	}{
		{name: "service", host: "s.n.svc.cluster.local", domain: "cluster.local", want: serviceName{service: "s", namespace: "n"}},
		{name: "instance", host: "i.s.n.svc.cluster.local", domain: "cluster.local", want: serviceName{"i", "s", "n"}},
		{name: "domain of one label", host: "s.n.svc.x", domain: "x", want: serviceName{service: "s", namespace: "n"}},
		{name: "empty labels", host: "..svc.x", domain: "x", want: serviceName{}},
		{name: "D 2.2 other domain", host: "linkerd.io", domain: "cluster.local", err: "name linkerd.io does not match cluster domain cluster.local"},
		{name: "D 2.2 label count", host: "a.b.c.d.svc.x", domain: "x", err: "invalid k8s service a.b.c.d.svc.x"},
		{name: "one label", host: "n.svc.x", domain: "x", err: "invalid k8s service n.svc.x"},
		{name: "nothing but the domain", host: "svc.x", domain: "x", err: "invalid k8s service svc.x"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			got, err := parseServiceName(test.host, test.domain)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
			} else if err != nil || got != test.want {
				t.Errorf("%v, %v, want %v", got, err, test.want)
			}
		})
	}
}

// D 1.2: a token never fails a call.
func TestParseContextToken(t *testing.T) {
	for text, want := range map[string]contextToken{
		"":                               {},
		`{"ns":"a","nodeName":"n"}`:      {Namespace: "a", Node: "n"},
		"{\"ns\":\"a\",\"pod\":\"p\"}\n": {Namespace: "a", Pod: "p"},
		`{"NS":"a","NODENAME":"n"}`:      {Namespace: "a", Node: "n"},
		`{"ns":1,"nodeName":"n"}`:        {Node: "n"},
		"ns:a":                           {Namespace: "a"},
		"ns: a ":                         {Namespace: " a "},
		"ns:":                            {},
		"ns:a:b":                         {},
		"node:a":                         {},
		"{":                              {},
		"5":                              {},
		"null":                           {},
		"[]":                             {},
	} {
		if got := parseContextToken(text, slog.New(slog.DiscardHandler)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzAuthority(f *testing.F) {
	for _, seed := range []string{"", "a", "a:1", "[::1]:80", "::1", "s.n.svc.cluster.local:80", "i.s.n.svc.cluster.local", "a:+080", ":", "[", "a:99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		a, err := parseAuthority(path)
		if err != nil {
			return
		}
		if a.port < 1 || a.port > 65535 {
			t.Errorf("%q: port %d", path, a.port)
		}
		if !strings.Contains(path, a.host) {
			t.Errorf("%q: host %q is not of the path", path, a.host)
		}
		if strings.ContainsAny(a.host, "[]") {
			return // no host that could be written with a port
		}
		again, err := parseAuthority(net.JoinHostPort(a.host, itoa(a.port)))
		if err != nil || again != a {
			t.Errorf("%q: %v reads back as %v, %v", path, a, again, err)
		}
		name, err := parseServiceName(a.host, "cluster.local")
		if err != nil {
			return
		}
		host := name.service + "." + name.namespace + ".svc.cluster.local"
		if host != a.host && name.hostname+"."+host != a.host {
			t.Errorf("%q is read as %+v", a.host, name)
		}
	})
}

func FuzzContextToken(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"ns":"a","nodeName":"n","pod":"p"}`, "ns:a", "ns:a:b", `{"ns":1}`, "null", "{\"ns\":\"a\"}\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token := parseContextToken(text, slog.New(slog.DiscardHandler))
		if rest, ok := strings.CutPrefix(text, "ns:"); ok && !strings.Contains(rest, ":") && token.Namespace != rest {
			t.Errorf("%q: namespace %q", text, token.Namespace)
		}
	})
}
