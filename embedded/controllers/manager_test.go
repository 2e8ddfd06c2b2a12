package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// running runs controllers against a fake API server until the test ends.
func running(t *testing.T, m *Manager, client *fake.Clientset, names ...string) <-chan error {
	t.Helper()
	tools := &tools{
		client:  client,
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim)),
		started: make(chan struct{}),
	}
	var list []constructor
	for _, c := range m.constructors() {
		for _, name := range names {
			if c.name == name {
				list = append(list, c)
			}
		}
	}
	if len(list) != len(names) {
		t.Fatalf("not all of %v are there", names)
	}
	return runningAll(t, m, tools, list...)
}

func runningAll(t *testing.T, m *Manager, tools *tools, list ...constructor) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	group, groupCtx := lifecycle.NewGroup(ctx)
	if err := m.start(groupCtx, tools, list, group.Go); err != nil {
		t.Fatal(err)
	}
	tools.factory.StartWithContext(ctx)
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	t.Cleanup(func() {
		cancel()
		tools.factory.Shutdown()
	})
	return done
}

// A controller is made when there is an object that concerns it, once, also if
// the object was there before; and not before.
func TestControllerStartsWithItsFirstObject(t *testing.T) {
	for name, first := range map[string]func(*fake.Clientset) error{
		"created later": func(client *fake.Clientset) error {
			_, err := client.BatchV1().Jobs("ns").Create(context.Background(), newJob("a", ptr.To[int32](1)), metav1.CreateOptions{})
			return err
		},
		"changed later": func(client *fake.Clientset) error {
			_, err := client.BatchV1().Jobs("ns").Update(context.Background(), newJob("other", ptr.To[int32](1)), metav1.UpdateOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(newJob("other", nil))
			made := make(chan struct{}, 10)
			c := constructor{name: "test", of: batchv1.SchemeGroupVersion.WithResource("jobs"), concerns: hasTTL,
				make: func(context.Context, *tools) (func(context.Context), error) {
					made <- struct{}{}
					return func(ctx context.Context) { <-ctx.Done() }, nil
				}}
			tools := &tools{client: client, factory: informers.NewSharedInformerFactory(client, 0), started: make(chan struct{})}
			runningAll(t, New(Config{}), tools, c)
			if !cache.WaitForCacheSync(t.Context().Done(), tools.factory.Batch().V1().Jobs().Informer().HasSynced) {
				t.Fatal("not synced")
			}
			select {
			case <-made:
				t.Fatal("made for an object that does not concern it")
			default:
			}
			if err := first(client); err != nil {
				t.Fatal(err)
			}
			<-made
			if _, err := client.BatchV1().Jobs("ns").Create(t.Context(), newJob("b", ptr.To[int32](1)), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually.Holds(t, "the second Job is known", func() bool {
				_, err := tools.factory.Batch().V1().Jobs().Lister().Jobs("ns").Get("b")
				return err == nil
			}, func() string { return "" })
			if len(made) != 0 {
				t.Error("made again")
			}
		})
	}
}

// A controller that ends or cannot be made is an error of all, and is named.
func TestControllerThatEnds(t *testing.T) {
	client := fake.NewClientset(newJob("a", nil))
	for name, row := range map[string]struct {
		c    constructor
		want string
	}{
		"by itself": {constructor{name: "early", make: func(context.Context, *tools) (func(context.Context), error) {
			return func(context.Context) {}, nil
		}}, "controllers: early: ended by itself"},
		"later, by itself": {constructor{name: "late", of: batchv1.SchemeGroupVersion.WithResource("jobs"), make: func(context.Context, *tools) (func(context.Context), error) {
			return func(context.Context) {}, nil
		}}, "controllers: late: ended by itself"},
		"not made later": {constructor{name: "none", of: batchv1.SchemeGroupVersion.WithResource("jobs"), make: func(context.Context, *tools) (func(context.Context), error) {
			return nil, errors.New("no key")
		}}, "controllers: none: no key"},
	} {
		t.Run(name, func(t *testing.T) {
			tools := &tools{client: client, factory: informers.NewSharedInformerFactory(client, 0), started: make(chan struct{})}
			if err := <-runningAll(t, New(Config{}), tools, row.c); err == nil || err.Error() != row.want {
				t.Errorf("error is %v, want %s", err, row.want)
			}
		})
	}
}

func newJob(name string, ttl *int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl}}
}

// A Secret for a token of a service account gets one.
func TestTokenSecret(t *testing.T) {
	rulebook.Covers(t, "C12, B82")
	key, _, err := keyutil.LoadOrGenerateKeyFile(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "accounts.key")
	if err := keyutil.WriteKey(file, key); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mirror", UID: "u"}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mirror-token", UID: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "mirror", corev1.ServiceAccountUIDKey: "u"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		},
	)
	running(t, New(Config{RootCA: []byte("the CA"), AccountsKeyFile: file}), client, "serviceaccount-token")
	eventually.Holds(t, "the Secret has a token", func() bool {
		secret, err := client.CoreV1().Secrets("ns").Get(t.Context(), "mirror-token", metav1.GetOptions{})
		return err == nil && strings.Count(string(secret.Data["token"]), ".") == 2 && string(secret.Data["ca.crt"]) == "the CA" && string(secret.Data["namespace"]) == "ns"
	}, func() string { return "" })
}

// A ReplicationController has its pod.
func TestReplicationController(t *testing.T) {
	rulebook.Covers(t, "B82")
	client := fake.NewClientset(&corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](1), Selector: map[string]string{"app": "web"},
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
	})
	running(t, New(Config{}), client, "replicationcontroller")
	eventually.Holds(t, "there is a pod", func() bool {
		pods, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].OwnerReferences[0].Name == "web"
	}, func() string { return "" })
}

// An approved request for a certificate is signed by the CA, one that is not is left alone.
func TestApprovedRequestIsSigned(t *testing.T) {
	rulebook.Covers(t, "C12")
	dir := t.TempDir()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{CAFile: filepath.Join(dir, "ca.crt"), CAKeyFile: filepath.Join(dir, "ca.key")}
	if err := cert.WriteCert(config.CAFile, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})); err != nil {
		t.Fatal(err)
	}
	caPEM, err := keyutil.MarshalPrivateKeyToPEM(caKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyutil.WriteKey(config.CAKeyFile, caPEM); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "jane"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	csr := func(name string, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
			},
			Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions},
		}
	}
	client := fake.NewClientset(csr("waiting"), csr("approved", certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}))
	running(t, New(config), client, "certificatesigningrequest")
	issued := func(name string) []byte {
		request, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return request.Status.Certificate
	}
	eventually.Holds(t, "the approved request is signed", func() bool { return len(issued("approved")) > 0 }, func() string { return "" })
	certs, err := cert.ParseCertsPEM(issued("approved"))
	if err != nil {
		t.Fatal(err)
	}
	if certs[0].Subject.CommonName != "jane" || certs[0].CheckSignatureFrom(ca) != nil {
		t.Errorf("issued for %s, signed by %s", certs[0].Subject, certs[0].Issuer)
	}
	if len(issued("waiting")) != 0 {
		t.Error("signed without approval")
	}
}

// A kind of which nothing is made is told of once, for as long as it is in use.
func TestNoticeOfWhatIsNotServed(t *testing.T) {
	rulebook.Covers(t, "B82")
	table, err := problems.New(problems.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	m := New(Config{Problems: table})
	tools := &tools{client: client, factory: informers.NewSharedInformerFactory(client, 0), started: make(chan struct{})}
	if err := m.notice(tools); err != nil {
		t.Fatal(err)
	}
	runningAll(t, m, tools)
	tools.factory.WaitForCacheSyncWithContext(t.Context())
	claims := client.CoreV1().PersistentVolumeClaims("ns")
	told := func(n int) {
		t.Helper()
		eventually.Holds(t, "problems are told of", func() bool { return len(table.List()) == n }, func() string { return fmt.Sprint(table.List()) })
	}
	told(0)
	for _, name := range []string{"a", "b"} {
		if _, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		told(1)
	}
	if p := table.List()[0]; p.Object.Kind != "PersistentVolumeClaim" || p.Object.Name != "" || !strings.Contains(p.Message, "claims stay Pending") {
		t.Errorf("told: %s", p)
	}
	for _, name := range []string{"a", "b"} {
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	told(0)
}

// What no controller reads is not kept in memory.
func TestTrim(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	trimmed, err := trim(pod)
	if err != nil || trimmed.(*corev1.Pod).ManagedFields != nil || trimmed.(*corev1.Pod).Name != "a" {
		t.Errorf("%v, %v", trimmed, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "ns/a"}
	if kept, err := trim(gone); err != nil || kept != gone {
		t.Errorf("%v, %v", kept, err)
	}
}
