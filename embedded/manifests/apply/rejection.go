package apply

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

var errDeleting = errors.New("the object is still being deleted; it is applied again when it is gone")

// Rejection is what an error of the API server means to an object.
type Rejection struct {
	Message string
	Field   string
	// Namespace is the one that is missing.
	Namespace string
	KindGone  bool
	Transient bool
	// Certain says that the object is as it was.
	Certain bool
}

var (
	isInvalid   = regexp.MustCompile(`^\S+ "[^"]*" is invalid: `)
	undeclared  = regexp.MustCompile(`\.([\w.]+(?:\[[^\]]*\][\w.]*)*): field not declared in schema`)
	wrongType   = regexp.MustCompile(`\.([\w.]+(?:\[[^\]]*\][\w.]*)*): expected `)
	goType      = regexp.MustCompile(`cannot unmarshal (\w+) into Go (?:struct field \w+\.([\w.]+)|value) of type \S+`)
	goValue     = regexp.MustCompile(`&value\.valueUnstructured\{Value:(.*?)\}`)
	unknown     = regexp.MustCompile(`unknown field "([^"]+)"`)
	typedPrefix = regexp.MustCompile(`^failed to create typed patch object \([^)]*\): `)
)

// Reject reads such an error.
func Reject(err error) Rejection {
	r := Rejection{Message: source.OneLine(steady(err.Error()))}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		r.Transient = true // no answer at all, or the object is still there
		return r
	}
	details := status.Status().Details
	code := status.Status().Code
	r.Certain = code >= 400 && code < 500
	switch {
	case apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces":
		r.Namespace = details.Name
		r.Message = fmt.Sprintf("namespace %q does not exist; the object is applied when it does", details.Name)
	case isKindGone(err):
		r.KindGone, r.Transient = true, true
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		r.Transient = true
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), code >= 500 && !typedPrefix.MatchString(r.Message):
		r.Transient = true
	case apierrors.IsForbidden(err) && strings.Contains(r.Message, "service account"):
		r.Transient = true // made by a controller, soon after the namespace
	}
	r.Message = isInvalid.ReplaceAllString(r.Message, "")
	r.Message = typedPrefix.ReplaceAllString(r.Message, "")
	r.Field = rejectedField(r.Message, details)
	if strings.Contains(r.Message, "field is immutable") {
		r.Message += "; to change it delete the object, it is then applied anew when its file is saved"
	}
	return r
}

// steady sorts the lines of errors that the API server lists in the order of a
// map, as the same error should read the same each time.
func steady(message string) string {
	message = goValue.ReplaceAllString(message, "$1")
	message = goType.ReplaceAllString(message, "$2 cannot be $1")
	head, list, ok := strings.Cut(message, "errors:\n")
	if !ok {
		return message
	}
	lines := strings.Split(strings.TrimSpace(list), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return head + strings.Join(lines, "; ")
}

// rejectedField is the path of the first field that the error is about.
func rejectedField(message string, details *metav1.StatusDetails) string {
	if details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" && cause.Field != "<nil>" {
				return cause.Field
			}
		}
	}
	for _, pattern := range []*regexp.Regexp{unknown, undeclared, wrongType} {
		if match := pattern.FindStringSubmatch(message); match != nil {
			return match[1]
		}
	}
	if strings.HasPrefix(message, ".") {
		field, _, _ := strings.Cut(message[1:], ":")
		return field
	}
	return ""
}

// ignoreNotFound is for what should be gone. A conflict says that the object of
// that name is another one by now, which is not ours.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// isKindGone reports that the server no longer serves the resource at all.
func isKindGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotFound(err) && (details == nil || details.Name == "" ||
			strings.Contains(status.Status().Message, "the server could not find the requested resource"))
}

// Pause is how long to wait before the next attempt: short where the cause passes
// by itself, up to a minute where somebody has to change something.
func (r Rejection) Pause(attempts int) time.Duration {
	shift := min(attempts, 6)
	switch {
	case r.Namespace != "":
		return 500 * time.Millisecond
	case r.Transient:
		return min(100*time.Millisecond<<shift, 2*time.Second)
	}
	return min(2*time.Second<<shift, time.Minute)
}
