package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

// accountTokenLifetime is that of a token which no pod bounds; podTokenLifetime
// that of one which ends with its pod: a proxy on this machine has nobody who
// renews its token.
const (
	accountTokenLifetime = 24 * time.Hour
	podTokenLifetime     = 30 * 24 * time.Hour
)

// newIdentityCommand is `identity`: what a proxy needs to prove who it is.
func newIdentityCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "identity",
		Short: "Make what a proxy needs to prove its identity, and look at the certificates behind it",
	}
	addDataDirFlag(cmd.PersistentFlags(), &dataDir)
	cmd.AddCommand(newIdentityTokenCommand(&dataDir), newIdentityCSRCommand(&dataDir), newIdentityCertsCommand(&dataDir))
	return cmd
}

func newIdentityTokenCommand(dataDir *string) *cobra.Command {
	var account bool
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "token NS/POD",
		Short: "Print a token with which a pod's proxy asks for its certificate",
		Long: `Print a service-account token for the audience identity.l5d.io. It belongs to
the pod and ends when the pod is deleted; with --service-account the argument
is NS/SERVICEACCOUNT, and the token ends by its lifetime only.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := splitName(args[0])
			if err != nil {
				return err
			}
			_, client, err := instanceClient(*dataDir)
			if err != nil {
				return err
			}
			var pod *corev1.Pod
			if !account {
				if pod, err = getPod(cmd.Context(), client, namespace, name); err != nil {
					return err
				}
				name = accountOf(pod)
			}
			if lifetime == 0 {
				lifetime = podTokenLifetime
				if account {
					lifetime = accountTokenLifetime
				}
			}
			token, err := proxyenv.Token(cmd.Context(), client.CoreV1().ServiceAccounts(namespace), name, pod, lifetime)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	cmd.Flags().BoolVar(&account, "service-account", false, "the argument is NS/SERVICEACCOUNT")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "lifetime of the token, at least 10m (default: 720h with a pod, 24h with an account)")
	return cmd
}

func newIdentityCSRCommand(dataDir *string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "csr NS/POD",
		Short: "Write a key and a certificate request for a pod's proxy",
		Long: `Write key.p8 (PKCS #8) and csr.der (PKCS #10), both in DER, into the directory
that the proxy gets as LINKERD2_PROXY_IDENTITY_DIR. Files that are there are
overwritten. The directory is printed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := splitName(args[0])
			if err != nil {
				return err
			}
			info, client, err := instanceClient(*dataDir)
			if err != nil {
				return err
			}
			pod, err := getPod(cmd.Context(), client, namespace, name)
			if err != nil {
				return err
			}
			identity, err := proxyenv.IdentityOf(pod)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = proxyenv.Dir(info.DataDir, namespace, name)
			}
			if err := proxyenv.WriteIdentity(dir, identity); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to write to (default: proxies/NS/POD in the data directory)")
	return cmd
}

func newIdentityCertsCommand(dataDir *string) *cobra.Command {
	var anchors bool
	var namespace string
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Print the trust anchors and the issuer",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, client, err := instanceClient(*dataDir)
			if err != nil {
				return err
			}
			roots, err := diagnostics.TrustAnchors(cmd.Context(), client, namespace)
			if err != nil {
				return err
			}
			if anchors {
				_, err := io.WriteString(cmd.OutOrStdout(), roots)
				return err
			}
			secret, err := client.CoreV1().Secrets(namespace).Get(cmd.Context(), "linkerd-identity-issuer", metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading the issuer: %w", err)
			}
			issuer := secret.Data["crt.pem"]
			if len(issuer) == 0 {
				issuer = secret.Data["tls.crt"]
			}
			return diagnostics.WriteCertificates(cmd.OutOrStdout(), time.Now(), []byte(roots), issuer)
		},
	}
	cmd.Flags().BoolVar(&anchors, "anchors", false, "print the trust anchors in PEM and nothing else")
	cmd.Flags().StringVar(&namespace, "controller-namespace", linkerd.DefaultControlPlaneNamespace, "namespace of the control plane")
	return cmd
}

// instanceClient finds the running instance and makes a client of its API server.
func instanceClient(dataDir string) (*datadir.RunInfo, kubernetes.Interface, error) {
	info, err := datadir.Find(dataDir)
	if err != nil {
		return nil, nil, err
	}
	client, err := diagnostics.Client(info)
	return info, client, err
}

// splitName splits NS/NAME.
func splitName(arg string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usage(fmt.Errorf("%q is not of the form NAMESPACE/NAME", arg))
	}
	return namespace, name, nil
}

func getPod(ctx context.Context, client kubernetes.Interface, namespace, name string) (*corev1.Pod, error) {
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
	}
	return pod, nil
}

// accountOf is the name of the pod's service account.
func accountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}
