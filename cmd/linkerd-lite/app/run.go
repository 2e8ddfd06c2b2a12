package app

import (
	"context"
	"errors"
	"fmt"

	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/exec"
	"k8s.io/kubectl/pkg/cmd/attach"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util/term"
	"k8s.io/utils/ptr"

	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// runContainer is the container that runs COMMAND.
const runContainer = "command"

func newRunCommand() *cobra.Command {
	r := &runInMesh{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command in the mesh of a running `up --run`",
		Long: `Run COMMAND as a pod of a running ` + "`linkerd-lite up --run`" + `: a process of yours in a network of its
own, with the names, Services and proxy that a pod has. Standard input, output and a terminal
are passed through, and its exit code is passed back.`,
		Example: `  linkerd-lite run -n shop --as sa/web -- curl -s http://cart/cart/1
  linkerd-lite run -n shop -- "$SHELL"                       # look around
  linkerd-lite run --inject disabled -- curl -s http://web.shop   # without a proxy`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, command, err := splitAtDash(cmd, args)
			if err != nil {
				return err
			}
			if len(command) == 0 || len(before) > 0 {
				return usage(errors.New("say what to run: linkerd-lite run [flags] -- COMMAND [ARG...]"))
			}
			if err := oneOf("inject", r.inject, "enabled", "ingress", "disabled"); err != nil {
				return usage(err)
			}
			r.command, r.streams = command, genericiooptions.IOStreams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr()}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	addDataDirFlag(flags, &r.dataDir)
	flags.StringVarP(&r.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the pod")
	flags.StringVar(&r.as, "as", "sa/default", "whose ServiceAccount the pod has: sa/NAME, pod/NAME, or a workload such as deploy/NAME")
	flags.StringVar(&r.inject, "inject", "enabled", "proxy: enabled, ingress or disabled")
	flags.StringArrayVarP(&r.env, "env", "e", nil, "NAME=VALUE for the command, or NAME for your own value; repeatable")
	return cmd
}

// runInMesh is one run of the command.
type runInMesh struct {
	dataDir, namespace, as, inject string
	env                            []string
	command                        []string
	streams                        genericiooptions.IOStreams

	config *rest.Config
	client kubernetes.Interface
}

func (r *runInMesh) run(ctx context.Context) error {
	info, err := datadir.Find(r.dataDir)
	if err != nil {
		return err
	}
	if !info.Runs {
		return fmt.Errorf("the instance in %s runs no processes: start it with `linkerd-lite up --run`", info.DataDir)
	}
	getter := genericclioptions.NewConfigFlags(true)
	getter.KubeConfig = &info.Kubeconfig
	if r.config, err = getter.ToRESTConfig(); err != nil {
		return err
	}
	if r.client, err = kubernetes.NewForConfig(r.config); err != nil {
		return err
	}
	pod, err := r.pod(getter)
	if err != nil {
		return err
	}
	pods := r.client.CoreV1().Pods(r.namespace)
	if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make a pod: %w", err)
	}
	defer func() {
		// Nothing is left to end; the pod should not stay whatever happened.
		err := pods.Delete(context.WithoutCancel(ctx), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		if err != nil {
			fmt.Fprintf(r.streams.ErrOut, "linkerd-lite: pod %s/%s is left behind: %v\n", r.namespace, pod.Name, err)
		}
	}()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if pod, err = r.await(ctx, pod, started); err != nil {
		return err
	}
	if err := r.attach(ctx, pod); err != nil {
		return err
	}
	if pod, err = r.await(ctx, pod, terminated); err != nil {
		return err
	}
	ended := commandStatus(pod).State.Terminated
	switch {
	case ended.Reason == containers.StartError:
		return &exitError{code: exitNotFound, err: errors.New(ended.Message)}
	case ended.ExitCode != exitOK:
		return &exitError{code: int(ended.ExitCode)}
	}
	return nil
}

// pod is the pod to make.
func (r *runInMesh) pod(getter genericclioptions.RESTClientGetter) (*corev1.Pod, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	account, err := r.account(getter)
	if err != nil {
		return nil, err
	}
	quoted := make([]string, len(r.command))
	for i, arg := range r.command {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "run-" + strings.Trim(strings.ToLower(strings.Map(nameRune, filepath.Base(r.command[0]))), "-") + "-",
			Annotations: map[string]string{
				linkerd.InjectAnnotation:                r.inject,
				containers.RunAnnotation + runContainer: strings.Join(quoted, " "),
				containers.AwaitAttachAnnotation:        "true",
			},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers: []corev1.Container{{
				Name: runContainer, Image: runContainer, WorkingDir: dir, Stdin: true, StdinOnce: true, TTY: r.terminal(), Env: r.environment(),
			}},
		},
	}
	return pod, nil
}

// nameRune keeps what the name of an object may have.
func nameRune(c rune) rune {
	if c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
		return c
	}
	return '-'
}

func (r *runInMesh) terminal() bool {
	return term.TTY{In: r.streams.In}.IsTerminalIn() && term.TTY{Out: r.streams.Out}.IsTerminalOut()
}

// environment is what the command gets of the user's, besides what was asked for.
func (r *runInMesh) environment() []corev1.EnvVar {
	var env []corev1.EnvVar
	set := func(name, value string) {
		env = slices.DeleteFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })
		env = append(env, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")})
	}
	for _, name := range []string{"PATH", "HOME", "USER", "TERM", "LANG"} {
		if value, has := os.LookupEnv(name); has {
			set(name, value)
		}
	}
	for _, text := range r.env {
		name, value, given := strings.Cut(text, "=")
		if !given {
			value = os.Getenv(name)
		}
		set(name, value)
	}
	return env
}

// account is the ServiceAccount that --as means.
func (r *runInMesh) account(getter genericclioptions.RESTClientGetter) (string, error) {
	kind, name, ok := strings.Cut(r.as, "/")
	if !ok || kind == "" || name == "" {
		return "", usage(fmt.Errorf("--as=%s: must be KIND/NAME, such as sa/default or deploy/web", r.as))
	}
	infos, err := resource.NewBuilder(getter).Unstructured().NamespaceParam(r.namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, r.as).Flatten().Do().Infos()
	if err != nil {
		return "", fmt.Errorf("--as=%s: %w", r.as, err)
	}
	object := infos[0].Object.(*unstructured.Unstructured)
	if object.GetKind() == "ServiceAccount" {
		return name, nil
	}
	for _, path := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
		spec, found, err := unstructured.NestedMap(object.Object, path...)
		if err != nil || !found || spec["containers"] == nil {
			continue
		}
		if account, _ := spec["serviceAccountName"].(string); account != "" {
			return account, nil
		}
		return "default", nil
	}
	return "", usage(fmt.Errorf("--as=%s: a %s has no ServiceAccount", r.as, object.GetKind()))
}

// attach passes input and output through until the command ends.
func (r *runInMesh) attach(ctx context.Context, pod *corev1.Pod) error {
	options := attach.NewAttachOptions(r.streams)
	options.Namespace, options.PodName, options.ContainerName = pod.Namespace, pod.Name, runContainer
	options.Stdin, options.TTY, options.Quiet, options.Pod = true, r.terminal(), true, pod
	options.DisableStderr = options.TTY
	options.Config = rest.CopyConfig(r.config)
	options.Config.GroupVersion, options.Config.APIPath = &corev1.SchemeGroupVersion, "/api"
	options.Config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	options.DetachKeys = "ctrl-^,ctrl-^" // none that a program would want
	done := make(chan error, 1)
	go func() { done <- options.Run() }()
	select {
	case err := <-done:
		var code exec.ExitError
		if err != nil && !errors.As(err, &code) {
			return fmt.Errorf("attach to the command: %w", err)
		}
		return nil
	case <-ctx.Done():
		return &exitError{code: exitSignal + int(syscall.SIGINT)}
	}
}

// commandStatus is that of the command's container; the zero value if there is none.
func commandStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == runContainer {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// started reports whether the command waits for somebody to be attached.
func started(pod *corev1.Pod) (bool, error) {
	state := commandStatus(pod).State
	return state.Waiting != nil && state.Waiting.Reason == containers.AwaitingAttach || state.Terminated != nil, nil
}

func terminated(pod *corev1.Pod) (bool, error) {
	return commandStatus(pod).State.Terminated != nil, nil
}

// await waits until the pod is as wanted.
func (r *runInMesh) await(ctx context.Context, pod *corev1.Pod, is func(*corev1.Pod) (bool, error)) (*corev1.Pod, error) {
	list := cache.NewListWatchFromClient(r.client.CoreV1().RESTClient(), "pods", pod.Namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name))
	event, err := watchtools.UntilWithSync(ctx, list, &corev1.Pod{}, nil, watchtools.ConditionFunc(func(event watch.Event) (bool, error) {
		seen, ok := event.Object.(*corev1.Pod)
		if !ok {
			return false, nil
		}
		if event.Type == watch.Deleted || seen.DeletionTimestamp != nil {
			return false, fmt.Errorf("pod %s was deleted", pod.Name)
		}
		return is(seen)
	}))
	if err != nil {
		if ctx.Err() != nil {
			return nil, &exitError{code: exitSignal + int(syscall.SIGINT)}
		}
		return nil, err
	}
	return event.Object.(*corev1.Pod), nil
}
