package injector

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"
)

// Lookup finds the objects around a pod. It must answer for objects that were
// created a moment ago: a namespace and the pods in it often come together.
type Lookup interface {
	// Namespace returns the metadata of a namespace; that of one that does not
	// exist is empty.
	Namespace(ctx context.Context, name string) (metav1.ObjectMeta, error)
	// Owners returns the owners of a ReplicaSet or Job to which ref points, none
	// if it does not exist.
	Owners(ctx context.Context, namespace string, ref metav1.OwnerReference) ([]metav1.OwnerReference, error)
}

// live asks the API server, which a cache that lags behind could not replace.
type live struct {
	client kubernetes.Interface
	// owners by the UID of what they own; an object does not change hands.
	owners *lru.Cache
}

// NewLookup returns a Lookup that asks the API server, for each pod for its
// namespace and for each ReplicaSet or Job once.
func NewLookup(client kubernetes.Interface) Lookup {
	return &live{client: client, owners: lru.New(1024)}
}

func (l *live) Namespace(ctx context.Context, name string) (metav1.ObjectMeta, error) {
	namespace, err := l.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return metav1.ObjectMeta{}, nil
	}
	if err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace.ObjectMeta, nil
}

func (l *live) Owners(ctx context.Context, namespace string, ref metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	if owners, ok := l.owners.Get(ref.UID); ok {
		return owners.([]metav1.OwnerReference), nil
	}
	var object metav1.Object
	var err error
	switch ref.Kind {
	case "ReplicaSet":
		object, err = l.client.AppsV1().ReplicaSets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	case "Job":
		object, err = l.client.BatchV1().Jobs(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	default:
		return nil, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	owners := object.GetOwnerReferences()
	l.owners.Add(ref.UID, owners)
	return owners, nil
}
