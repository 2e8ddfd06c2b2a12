package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	definitionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/controller/openapi"
	crdopenapiv3 "k8s.io/apiextensions-apiserver/pkg/controller/openapiv3"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	aggregatorv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler3"
)

const (
	openAPIV3Path = "/openapi/v3"
	// definitionsTimeout is the longest wait for the kinds of
	// CustomResourceDefinitions to be part of a first answer.
	definitionsTimeout = 5 * time.Second
)

// openAPI serves /openapi/v2 and /openapi/v3. It builds them when somebody asks
// for the first time: they cost tens of megabytes and a part of a second, and
// only tools like kubectl read them. From then on they follow the
// CustomResourceDefinitions as in any API server.
//
// What Services that extend the API describe is not part of it.
type openAPI struct {
	v2 *common.Config
	v3 *common.OpenAPIV3Config
	// policies are the only reason for which the server itself asks.
	policies admissionlisters.MutatingAdmissionPolicyLister
	// The servers of the chain, in its order.
	aggregator, kube, extensions *genericapiserver.GenericAPIServer

	// run gets the controllers to run, until the server stops.
	run func(func(context.Context))

	once    sync.Once
	handler http.Handler
	err     error
}

// describe sets the servers whose APIs are described, from the first of their
// chain.
func (o *openAPI) describe(chain *genericapiserver.GenericAPIServer) error {
	o.aggregator = chain
	var ok bool
	if o.kube, ok = chain.NextDelegate().(*genericapiserver.GenericAPIServer); !ok {
		return fmt.Errorf("the API server is a %T, so its APIs cannot be described", chain.NextDelegate())
	}
	if o.extensions, ok = o.kube.NextDelegate().(*genericapiserver.GenericAPIServer); !ok {
		return fmt.Errorf("the server of CustomResourceDefinitions is a %T, so its APIs cannot be described", o.kube.NextDelegate())
	}
	return nil
}

// before answers what is under /openapi itself and leaves the rest to next.
func (o *openAPI) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openapi/v2" && r.URL.Path != openAPIV3Path && !strings.HasPrefix(r.URL.Path, openAPIV3Path+"/") {
			next.ServeHTTP(w, r)
			return
		}
		if o.unused(r) {
			o.list(w)
			return
		}
		o.once.Do(func() { o.err = o.build() })
		if o.err != nil {
			http.Error(w, o.err.Error(), http.StatusInternalServerError)
			return
		}
		o.handler.ServeHTTP(w, r)
	})
}

// unused says that the server asks itself on behalf of mutating policies, which
// it does every five seconds, and that there are none.
func (o *openAPI) unused(r *http.Request) bool {
	asker, ok := request.UserFrom(r.Context())
	if !ok || asker.GetName() != user.APIServerUser || r.URL.Path != openAPIV3Path {
		return false
	}
	policies, err := o.policies.List(labels.Everything())
	return err == nil && len(policies) == 0
}

// list answers with where the descriptions of built-in groups are, so that a
// first mutating policy finds them.
func (o *openAPI) list(w http.ResponseWriter) {
	groups := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, service := range o.kube.Handler.GoRestfulContainer.RegisteredWebServices() {
		groups.Paths[strings.TrimPrefix(service.RootPath(), "/")] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: openAPIV3Path + service.RootPath()}
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone does not matter.
	_ = json.NewEncoder(w).Encode(groups)
}

func (o *openAPI) build() error {
	client, err := clientset.NewForConfig(o.aggregator.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("client for CustomResourceDefinitions: %w", err)
	}
	informers := externalversions.NewSharedInformerFactory(client, 0)
	definitions := informers.Apiextensions().V1().CustomResourceDefinitions()
	controllerV2, controllerV3 := crdopenapi.NewController(definitions), crdopenapiv3.NewController(definitions)

	extensions := &described{GenericAPIServer: o.extensions, paths: mux.NewPathRecorderMux("CustomResourceDefinitions")}
	kube := &described{GenericAPIServer: o.kube, paths: mux.NewPathRecorderMux("Kubernetes"), next: extensions}
	describe := routes.OpenAPI{Config: o.v2, V3Config: o.v3}
	describe.InstallV2(o.kube.Handler.GoRestfulContainer, kube.paths)
	describe.InstallV3(o.kube.Handler.GoRestfulContainer, kube.paths)
	serviceV2, static := describe.InstallV2(o.extensions.Handler.GoRestfulContainer, extensions.paths)
	serviceV3 := describe.InstallV3(o.extensions.Handler.GoRestfulContainer, extensions.paths)

	o.run(func(ctx context.Context) { controllerV2.Run(static, serviceV2, ctx.Done()) })
	o.run(func(ctx context.Context) { controllerV3.Run(serviceV3, ctx.Done()) })
	o.run(func(ctx context.Context) {
		informers.Start(ctx.Done())
		<-ctx.Done()
		informers.Shutdown()
	})
	waitDescribed(extensions.paths, definitions)

	paths := mux.NewPathRecorderMux("all")
	services := o.aggregator.Handler.GoRestfulContainer
	downloader := aggregator.NewDownloader()
	if _, err := aggregator.BuildAndRegisterAggregator(&downloader, kube, services.RegisteredWebServices(), o.v2, paths); err != nil {
		return fmt.Errorf("merging the descriptions of APIs: %w", err)
	}
	proxier, err := aggregatorv3.BuildAndRegisterAggregator(aggregatorv3.NewDownloader(), kube, services, o.v3, paths)
	if err != nil {
		return fmt.Errorf("merging the descriptions of APIs: %w", err)
	}
	o.run(openapiv3controller.NewAggregationController(proxier).RunWithContext)
	o.handler = paths
	return nil
}

// waitDescribed waits until the handler describes all established definitions:
// a controller adds them on its own goroutine.
func waitDescribed(handler http.Handler, definitions definitionsinformers.CustomResourceDefinitionInformer) {
	ctx, cancel := context.WithTimeout(context.Background(), definitionsTimeout)
	defer cancel()
	// The only error is that of the timeout: then the first answer lacks some.
	_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		if !definitions.Informer().HasSynced() {
			return false, nil
		}
		list, err := definitions.Lister().List(labels.Everything())
		return err == nil && describesAll(handler, list), nil
	})
}

func describesAll(handler http.Handler, definitions []*apiextensionsv1.CustomResourceDefinition) bool {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, openAPIV3Path, nil))
	var described handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(answer.Body.Bytes(), &described); err != nil {
		return false
	}
	for _, definition := range definitions {
		if !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			continue
		}
		for _, version := range definition.Spec.Versions {
			if _, ok := described.Paths["apis/"+definition.Spec.Group+"/"+version.Name]; version.Served && !ok {
				return false
			}
		}
	}
	return true
}

// described is a server in the chain of delegation that answers with its
// description only.
type described struct {
	*genericapiserver.GenericAPIServer
	paths *mux.PathRecorderMux
	next  genericapiserver.DelegationTarget
}

func (d *described) UnprotectedHandler() http.Handler { return d.paths }

func (d *described) NextDelegate() genericapiserver.DelegationTarget { return d.next }

// background runs functions until stop; it exists as a request may start one at
// any time.
type background struct {
	mutex   sync.Mutex
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newBackground(ctx context.Context) *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

func (b *background) run(f func(context.Context)) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.ctx.Err() != nil {
		return
	}
	b.running.Go(func() { f(b.ctx) })
}

// stop ends all and waits for them.
func (b *background) stop() {
	b.mutex.Lock()
	b.cancel()
	b.mutex.Unlock()
	b.running.Wait()
}
