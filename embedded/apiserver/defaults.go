package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// defaultsSource is who says what is wrong with default objects.
const defaultsSource = "apiserver"

// defaultsRetry are the pauses between attempts to write default objects that
// were refused.
var defaultsRetry = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 8, Cap: 10 * time.Second}

// KeepPriorities creates the priority classes of the system, which Pods may
// name. It replaces a start hook that cannot be cancelled and ends the process
// when an object is refused. It calls ready after the first attempt: what the
// API server refuses is a problem, and tried again.
func (s *Server) KeepPriorities(ctx context.Context, ready func()) error {
	client, err := s.ownKubernetes()
	if err != nil {
		return err
	}
	return s.persist(ctx, ready, "priorities", func(ctx context.Context) []unwritten {
		var refused []unwritten
		for _, class := range schedulingv1.SystemPriorityClasses() {
			_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				refused = append(refused, unwritten{schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, "", class.Name, err})
			}
		}
		return refused
	})
}

// KeepRoles creates the default roles and bindings of Kubernetes, as
// KeepPriorities does with priority classes. Clients with all rights, such as
// those of the kubeconfig, need none of them.
func (s *Server) KeepRoles(ctx context.Context, ready func()) error {
	client, err := s.ownKubernetes()
	if err != nil {
		return err
	}
	return s.persist(ctx, ready, "roles", func(ctx context.Context) []unwritten { return ensureRoles(ctx, client) })
}

// unwritten is a default object that could not be written, or a kind of which
// none could be read.
type unwritten struct {
	kind            schema.GroupVersionKind
	namespace, name string
	err             error
}

// persist calls try until nothing is refused or ctx ends.
func (s *Server) persist(ctx context.Context, ready func(), what string, try func(context.Context) []unwritten) error {
	ready = sync.OnceFunc(ready)
	err := defaultsRetry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		refused := try(ctx)
		if ctx.Err() != nil {
			return false, nil
		}
		found := make([]problems.Problem, 0, len(refused))
		for _, r := range refused {
			found = append(found, problems.Problem{
				Object: problems.ObjectOf(r.kind, r.namespace, r.name), Severity: problems.Error,
				Message: fmt.Sprintf("cannot be written: %v", r.err), Instead: "it is missing until it can",
			})
		}
		s.config.Problems.Say(defaultsSource, what, found...)
		ready()
		return len(refused) == 0, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ownKubernetes is a client of the program itself for Kubernetes' own kinds.
func (s *Server) ownKubernetes() (kubernetes.Interface, error) {
	config := s.OwnClient()
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}
