package controllers

import (
	"context"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
)

// signedFor is how long certificates are valid at most.
const signedFor = 365 * 24 * time.Hour

// newCertificates signs approved CertificateSigningRequests of the signers of
// kubernetes.io with the CA of the API server, approves those that kubelets may
// make for themselves, and deletes old ones.
func (m *Manager) newCertificates(ctx context.Context, t *tools) (func(context.Context), error) {
	requests := t.factory.Certificates().V1().CertificateSigningRequests()
	runs := []func(context.Context, int){
		approver.NewCSRApprovingController(ctx, t.client, requests).Run,
		cleaner.NewCSRCleanerController(t.client.CertificatesV1().CertificateSigningRequests(), requests).Run,
	}
	for name, signs := range map[string]string{
		"csrsigning-kubelet-serving":       certificatesv1.KubeletServingSignerName,
		"csrsigning-kubelet-client":        certificatesv1.KubeAPIServerClientKubeletSignerName,
		"csrsigning-kube-apiserver-client": certificatesv1.KubeAPIServerClientSignerName,
	} {
		c, err := signer.NewCSRSigningController(ctx, name, signs, t.client, requests, m.config.CAFile, m.config.CAKeyFile, signedFor)
		if err != nil {
			return nil, err
		}
		runs = append(runs, c.Run)
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, run := range runs {
			wg.Go(func() { run(ctx, 1) })
		}
		wg.Wait()
	}, nil
}
