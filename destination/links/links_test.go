package links

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/linkerd-lite/linkerd-lite/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

func secret(name, cluster string, kubeconfig []byte, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "linkerd", Name: name,
			Labels:      map[string]string{linkerd.ClusterNameLabel: cluster},
			Annotations: map[string]string{linkerd.TrustDomainAnnotation: "td", linkerd.ClusterDomainAnnotation: "cd"},
		},
		Type: linkerd.RemoteKubeconfigSecretType,
		Data: map[string][]byte{linkerd.RemoteKubeconfigKey: kubeconfig},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func TestWanted(t *testing.T) {
	readable := kubeconfigFor(t, "https://192.0.2.1")
	for _, test := range []struct {
		name    string
		secrets []*corev1.Secret
		want    []string
		reject  int
	}{
		{"linked", []*corev1.Secret{secret("a", "east", readable)}, []string{"east"}, 0},
		{"D145 type", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) { s.Type = "Opaque" })}, nil, 1},
		{"D145 label", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) { s.Labels = nil })}, nil, 1},
		{"D145 kubeconfig", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) { s.Data = nil })}, nil, 1},
		{"D 3.4 unreadable kubeconfig", []*corev1.Secret{secret("a", "east", []byte("clusters: 1")), secret("b", "west", nil)}, nil, 2},
		{"commands of this machine", []*corev1.Secret{secret("a", "east", kubeconfigFor(t, "https://192.0.2.1", clientcmdapi.AuthInfo{
			Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "true", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}))}, nil, 1},
		{"files of this machine", []*corev1.Secret{secret("a", "east", kubeconfigFor(t, "https://192.0.2.1", clientcmdapi.AuthInfo{TokenFile: "/dev/null"}))}, nil, 1},
		{"a token", []*corev1.Secret{secret("a", "east", kubeconfigFor(t, "https://192.0.2.1", clientcmdapi.AuthInfo{Token: "t"}))}, []string{"east"}, 0},
		{"D145 trust domain", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) { delete(s.Annotations, linkerd.TrustDomainAnnotation) })}, nil, 1},
		{"D145 cluster domain", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) { delete(s.Annotations, linkerd.ClusterDomainAnnotation) })}, nil, 1},
		{"D 3.4 empty annotations", []*corev1.Secret{secret("a", "east", readable, func(s *corev1.Secret) {
			s.Annotations = map[string]string{linkerd.TrustDomainAnnotation: "", linkerd.ClusterDomainAnnotation: ""}
		})}, []string{"east"}, 0},
		{"D 3.4 two for one cluster", []*corev1.Secret{secret("a", "east", readable), secret("b", "east", readable)}, []string{"east"}, 0},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			rejected := 0
			found := wanted(func(yield func(*corev1.Secret) bool) {
				for _, s := range test.secrets {
					if !yield(s) {
						return
					}
				}
			}, func(*corev1.Secret, error) { rejected++ })
			var got []string
			for cluster := range found {
				got = append(got, cluster)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" || rejected != test.reject {
				t.Errorf("%d rejected, want %d; clusters (-want +got):\n%s", rejected, test.reject, diff)
			}
		})
	}
}

// D 3.4: of two Secrets for one cluster the newer one counts.
func TestNewestSecretCounts(t *testing.T) {
	from := func(name string, age int64, domain string) *corev1.Secret {
		return secret(name, "east", kubeconfigFor(t, "https://192.0.2.1"), func(s *corev1.Secret) {
			s.CreationTimestamp = metav1.Unix(age, 0)
			s.Annotations[linkerd.TrustDomainAnnotation] = domain
		})
	}
	found := wanted(slices.Values([]*corev1.Secret{from("a", 2, "new"), from("b", 1, "old")}), nil)
	if got := found["east"].trustDomain; got != "new" {
		t.Errorf("trust domain %q", got)
	}
}

// emptyCluster is an API server with no objects; it may refuse to list pods.
// Requests about resources wait for hold, if there is one.
func emptyCluster(t *testing.T, refuse func() bool, hold <-chan struct{}) []byte {
	t.Helper()
	kinds := map[string][2]string{
		"pods": {"Pod", "v1"}, "services": {"Service", "v1"}, "endpointslices": {"EndpointSlice", "discovery.k8s.io/v1"},
		"servers": {"Server", "policy.linkerd.io/v1beta3"}, "replicasets": {"ReplicaSet", "apps/v1"},
		"customresourcedefinitions": {"CustomResourceDefinition", "apiextensions.k8s.io/v1"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		kind := kinds[path.Base(r.URL.Path)]
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			kind = [2]string{"PartialObjectMetadata", "meta.k8s.io/v1"}
		}
		w.Header().Set("Content-Type", "application/json")
		metadata := map[string]any{"resourceVersion": "1"}
		if r.URL.Query().Get("watch") == "" {
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind[0] + "List", "apiVersion": kind[1], "metadata": metadata, "items": []any{}})
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		metadata["annotations"] = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{"kind": kind[0], "apiVersion": kind[1], "metadata": metadata}})
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return kubeconfigFor(t, server.URL)
}

func kubeconfigFor(t *testing.T, url string, users ...clientcmdapi.AuthInfo) []byte {
	t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: url}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{},
		CurrentContext: "c",
	}
	for _, user := range users {
		config.AuthInfos["u"] = &user
		config.Contexts["c"].AuthInfo = "u"
	}
	data, err := clientcmd.Write(config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// run runs Links over a State of Secrets until the test ends, before the
// clusters that were made earlier.
func run(t *testing.T) (*state.State, *Links) {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: []*state.KindInfo{&state.Secrets.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	st.MarkSynced()
	l, err := New(Config{State: st, EndpointSlices: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return st, l
}

// A Secret links, another version of it links anew, one that
// cannot be read changes nothing, its deletion unlinks (D 3.4).
func TestLinksFollowSecrets(t *testing.T) {
	rulebook.Covers(t, "D146, L20")
	kubeconfig := emptyCluster(t, func() bool { return false }, nil)
	st, l := run(t)
	// linked waits until the cluster is linked.
	linked := func(cluster string) (*destination.Link, <-chan struct{}) {
		for {
			link, changed := l.Lookup(cluster)
			if link != nil {
				return link, changed
			}
			<-changed
		}
	}
	state.Put(st, state.Secrets, secret("a", "east", kubeconfig))
	first, unlinked := linked("east")
	if first.TrustDomain != "td" || first.ClusterDomain != "cd" {
		t.Errorf("link: %+v", first)
	}
	state.Put(st, state.Secrets, secret("a", "east", kubeconfig, func(s *corev1.Secret) {
		s.ResourceVersion = "2"
		s.Annotations[linkerd.TrustDomainAnnotation] = "other"
	}))
	<-unlinked
	second, unlinked := linked("east")
	if second == first || second.TrustDomain != "other" {
		t.Errorf("link after a change: %+v", second)
	}
	for i, spoil := range []func(*corev1.Secret){
		func(s *corev1.Secret) { delete(s.Annotations, linkerd.ClusterDomainAnnotation) },
		func(s *corev1.Secret) { s.Data = nil },
		func(s *corev1.Secret) { s.Data[linkerd.RemoteKubeconfigKey] = []byte("clusters: 1") },
	} {
		state.Put(st, state.Secrets, secret("a", "east", kubeconfig, spoil, func(s *corev1.Secret) { s.ResourceVersion = fmt.Sprint(3 + i) }))
		marker := fmt.Sprint("marker-", i)
		state.Put(st, state.Secrets, secret(marker, marker, kubeconfig))
		linked(marker)
		if link, _ := l.Lookup("east"); link != second {
			t.Errorf("link after bad version %d: %+v", i, link)
		}
		if found := st.Problems().List(); len(found) != 1 || !strings.HasPrefix(found[0].String(), "Secret linkerd/a: does not link a cluster: ") {
			t.Errorf("problems of bad version %d: %v", i, found)
		}
		state.Remove(st, state.Secrets, "linkerd", marker)
	}
	state.Remove(st, state.Secrets, "linkerd", "a")
	<-unlinked
	if link, _ := l.Lookup("east"); link != nil {
		t.Error("still linked without the Secret")
	}
	if found := st.Problems().List(); len(found) > 0 {
		t.Errorf("problems of what is gone: %v", found)
	}
}

// A cluster is linked once all its objects are here, and not before: the first
// message of a stream is taken for all there is.
func TestLinkWaitsForObjects(t *testing.T) {
	hold, asked := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	requests := atomic.Int32{}
	kubeconfig := emptyCluster(t, func() bool {
		// Two requests of the probe, then one per kind and one about definitions.
		if requests.Add(1) == 8 {
			once()
		}
		return false
	}, hold)
	st, l := run(t)
	state.Put(st, state.Secrets, secret("a", "east", kubeconfig))
	<-asked
	link, changed := l.Lookup("east")
	if link != nil {
		t.Error("linked without objects")
	}
	close(hold)
	<-changed
	if link, _ := l.Lookup("east"); link == nil {
		t.Error("not linked with objects")
	}
}

// D 3.4: a cluster that refuses to list pods is not linked, until it does.
func TestProbe(t *testing.T) {
	refuse := true
	config, err := clientcmd.RESTConfigFromKubeConfig(emptyCluster(t, func() bool { return refuse }, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), config); err == nil {
		t.Error("a cluster that refuses is accepted")
	}
	refuse = false
	if err := probe(t.Context(), config); err != nil {
		t.Errorf("a cluster that allows is refused: %v", err)
	}
}
