package e2e

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// TestCertifyWithRealTokens asks identity for certificates with tokens that the
// API server has made (identity sections 3 and 7).
func TestCertifyWithRealTokens(t *testing.T) {
	rulebook.Covers(t, "I01")
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := startInstance(t, "--without", "kubelet")
	config, _ := i.objects()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	accounts := kube.CoreV1().ServiceAccounts("default")
	create := func(name string) {
		t.Helper()
		if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"web", "other", "with.dot", "gone"} {
		create(name)
	}
	pod, err := kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0"},
		Spec:       corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// token is one of an account for an audience, bound to pod if there is one.
	token := func(account, audience string, pod *corev1.Pod) string {
		t.Helper()
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}}
		if audience != "" {
			request.Spec.Audiences = []string{audience}
		}
		if pod != nil {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
		}
		answer, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Token
	}
	const audience = "identity.l5d.io"
	bound, old := token("web", audience, pod), token("gone", audience, nil)

	cc, err := grpc.NewClient("passthrough:///"+i.info.Addresses["identity"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	certify := func(account, token string) error {
		t.Helper()
		request, err := meshclient.NewRequest(linkerd.ServiceAccountIdentity(account, "default", "linkerd", "cluster.local"))
		if err != nil {
			t.Fatal(err)
		}
		id, err := request.Certify(ctx, cc, []byte(token))
		if err == nil {
			if left := time.Until(id.ValidUntil); left < 23*time.Hour || left > 25*time.Hour {
				t.Errorf("the certificate is good for %v", left)
			}
		}
		return err
	}
	for _, test := range []struct {
		name, account, token string
		want                 codes.Code
	}{
		{"I01 token for identity", "web", token("web", audience, nil), codes.OK},
		{"I01 bound to a pod", "web", bound, codes.OK},
		{"I10 token for the API server", "web", token("web", "", nil), codes.OK},
		{"token for somebody else", "web", token("web", "vault", nil), codes.InvalidArgument},
		{"I08 garbage", "web", "garbage", codes.InvalidArgument},
		{"I09 token of another account", "web", token("other", audience, nil), codes.FailedPrecondition},
		{"I12 account with a dot", "with.dot", token("with.dot", audience, nil), codes.InvalidArgument},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			if err := certify(test.account, test.token); status.Code(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}

	rulebook.Run(t, "B72 500 at once", func(t *testing.T) {
		request, err := meshclient.NewRequest(linkerd.ServiceAccountIdentity("web", "default", "linkerd", "cluster.local"))
		if err != nil {
			t.Fatal(err)
		}
		good := []byte(token("web", audience, nil))
		var group errgroup.Group
		began := time.Now()
		for range 500 {
			group.Go(func() error {
				_, err := request.Certify(ctx, cc, good)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("500 certificates in %v", took)
		if took > eventually.Allowed(3*time.Second) {
			t.Errorf("500 certificates took %v", took)
		}
	})

	// A token ends with what it is bound to, and with its account, even if that
	// comes back under the same name.
	if err := kube.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if err := accounts.Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create("gone")
	for name, refused := range map[string]func() error{
		"pod deleted":              func() error { return certify("web", bound) },
		"account deleted and made": func() error { return certify("gone", old) },
	} {
		t.Run(name, func(t *testing.T) {
			// The API server remembers answers about tokens for some seconds.
			deadline := time.Now().Add(eventually.Patience)
			ticker := time.NewTicker(100 * time.Millisecond)
			defer ticker.Stop()
			for {
				<-ticker.C
				err := refused()
				if code := status.Code(err); code == codes.FailedPrecondition || code == codes.InvalidArgument {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the token is still good: %v", err)
				}
			}
		})
	}
}
