package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
)

const (
	// silence is how long nothing must be heard after a change until it counts as settled.
	silence = 250 * time.Millisecond
)

// clusterClient reaches an instance as users and proxies do.
type clusterClient struct {
	instance *instance
	objects  dynamic.Interface
	mapper   meta.RESTMapper
	conns    map[string]*grpc.ClientConn
}

func newClusterClient(t *testing.T, up *instance) *clusterClient {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", up.info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c := &clusterClient{instance: up, conns: map[string]*grpc.ClientConn{}}
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(kinds)
	if err != nil {
		t.Fatal(err)
	}
	c.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	for _, api := range []string{"destination", "policy"} {
		conn, err := grpc.NewClient(up.info.Addresses[api], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c.conns[api] = conn
	}
	return c
}

// player plays one case.
type player struct {
	*clusterClient
	t         *testing.T
	namespace string
	compare   string
	known     map[string]bool
	calls     map[string]*call
	// heard has something when a call has received something.
	heard chan struct{}
}

type call struct {
	*recorded.Client
	cancel context.CancelFunc
	done   chan struct{}
}

// play plays a case in a namespace of its own, which is deleted afterwards.
func (c *clusterClient) play(t *testing.T, n int, recording recorded.Case) {
	p := &player{clusterClient: c, t: t, namespace: fmt.Sprintf("case-%d", n), compare: recording.Compare(),
		known: map[string]bool{}, calls: map[string]*call{}, heard: make(chan struct{}, 1)}
	fill, err := placeholders(n, p.namespace, c.instance.info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, step := range recording.Steps {
		step.Content = fill.Replace(step.Content)
		p.step(step)
	}
	p.quiet()
	for name, call := range p.calls {
		if rest := call.Rest(); len(rest) > 0 {
			t.Errorf("%s said more than was wanted: %v", name, rest)
		}
	}
}

func (p *player) step(step recorded.Step) {
	p.t.Helper()
	switch step.Verb {
	case "apply", "delete":
		for _, doc := range step.Documents() {
			change := p.apply
			if step.Verb == "delete" {
				change = p.delete
			}
			if err := change(doc); err != nil {
				p.t.Fatalf("%s: %v", step.File, err)
			}
		}
		p.quiet()
	case "open":
		if err := p.open(step.Name, step.Content); err != nil {
			p.t.Fatalf("%s: %v", step.File, err)
		}
	case "want":
		p.want(step)
	case "close":
		p.calls[step.Name].cancel()
	case "sleep":
		d, err := time.ParseDuration(strings.TrimSpace(step.Content))
		if err != nil {
			p.t.Fatalf("%s: %v", step.File, err)
		}
		<-time.After(d)
	default:
		p.t.Fatalf("unknown step %s", step.File)
	}
}

// quiet waits until nothing has been heard for a while.
func (p *player) quiet() {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		select {
		case <-p.heard:
			timer.Reset(silence)
		case <-timer.C:
			return
		}
	}
}

func (p *player) want(step recorded.Step) {
	p.t.Helper()
	limit := time.After(eventually.Patience)
	for {
		news := p.calls[step.Name].News()
		diff, err := p.calls[step.Name].Want(step.Content)
		if err != nil {
			p.t.Fatalf("%s: %v", step.File, err)
		}
		if diff == "" {
			return
		}
		select {
		case <-news:
		case <-limit:
			p.t.Fatalf("%s (-want +got):\n%s", step.File, diff)
		}
	}
}

// close ends all calls and deletes all objects.
func (p *player) close() {
	for _, call := range p.calls {
		call.cancel()
		<-call.done
	}
	namespaces := p.objects.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	for namespace := range p.known {
		if err := namespaces.Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			p.t.Errorf("delete namespace %s: %v", namespace, err)
		}
	}
}

// object reads a document and finds its resource.
func (p *player) object(doc string) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
		return nil, nil, err
	}
	gvk := o.GroupVersionKind()
	mapping, err := p.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, nil, err
	}
	resource := p.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return o, resource, nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(p.namespace)
	}
	return o, resource.Namespace(o.GetNamespace()), p.ensure(o.GetNamespace())
}

// ensure creates a namespace of the case.
func (p *player) ensure(namespace string) error {
	if p.known[namespace] || !strings.HasPrefix(namespace, p.namespace) {
		return nil
	}
	p.known[namespace] = true
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	_, err := p.objects.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Create(p.t.Context(), o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// apply writes the whole object, its status through the subresource.
func (p *player) apply(doc string) error {
	o, resource, err := p.object(doc)
	if err != nil {
		return err
	}
	if o.GetKind() == "Namespace" {
		p.known[o.GetName()] = true
	}
	status, hasStatus := o.Object["status"]
	delete(o.Object, "status")
	options := metav1.ApplyOptions{FieldManager: "recorded", Force: true}
	name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	if _, err := resource.Apply(p.t.Context(), o.GetName(), o, options); err != nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	if !hasStatus {
		return nil
	}
	o.Object = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "status": status,
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()}}
	if _, err := resource.ApplyStatus(p.t.Context(), o.GetName(), o, options); err != nil {
		return fmt.Errorf("apply status of %s: %w", name, err)
	}
	return nil
}

// delete deletes an object without grace, as if it had ended.
func (p *player) delete(doc string) error {
	o, resource, err := p.object(doc)
	if err != nil {
		return err
	}
	if o.GetKind() == "Namespace" {
		delete(p.known, o.GetName())
	}
	grace := int64(0)
	if err := resource.Delete(p.t.Context(), o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		return fmt.Errorf("delete %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// open starts a call of any service that the schema knows.
func (p *player) open(name, content string) error {
	method, request, err := recorded.Request(content)
	if err != nil {
		return err
	}
	answer, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return err
	}
	conn := p.conns["policy"]
	if method.Parent().Name() == "Destination" {
		conn = p.conns["destination"]
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{Client: recorded.NewClient(p.compare), cancel: cancel, done: make(chan struct{})}
	p.calls[name] = c
	go func() {
		defer close(c.done)
		err := receive(ctx, conn, fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()), method.IsStreamingServer(), request, answer, func(m proto.Message) {
			c.Receive(m)
			p.hear()
		})
		if ctx.Err() == nil {
			c.End(err)
			p.hear()
		}
	}()
	return nil
}

func (p *player) hear() {
	select {
	case p.heard <- struct{}{}:
	default:
	}
}

// receive makes a call and hands on what comes until it ends; nil stands for status OK.
func receive(ctx context.Context, conn *grpc.ClientConn, method string, streaming bool, request proto.Message, answer protoreflect.MessageType, heard func(proto.Message)) error {
	if !streaming {
		m := answer.New().Interface()
		if err := conn.Invoke(ctx, method, request, m); err != nil {
			return err
		}
		heard(m)
		return nil
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		m := answer.New().Interface()
		if err := stream.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		heard(m)
	}
}
