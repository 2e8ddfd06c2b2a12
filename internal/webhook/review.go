package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// ReviewFunc decides on one request. It is called by many goroutines at once, need not set the UID, and returns nil to
// allow without more.
type ReviewFunc func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// Dialect is how an endpoint answers what it cannot use. Linkerd's two kinds of webhook differ there.
type Dialect int

const (
	// ControllerDialect is that of the ServiceProfile validator and the injector: any method on the endpoint's path,
	// the request repeated in the answer, HTTP 400 for an unusable review, nothing for an empty body.
	ControllerDialect Dialect = iota
	// PolicyDialect is that of the policy webhook: POST only, HTTP 200 with a denial for an unusable review.
	PolicyDialect
)

const reviewKind = "AdmissionReview"

var (
	v1      = admissionv1.SchemeGroupVersion.String()
	v1beta1 = admissionv1.GroupName + "/v1beta1"
)

// decodeReview decodes a review of version v1 or v1beta1, which have the same fields. The error says why the review
// cannot be used; the review then holds at most a UID.
func decodeReview(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return recoverUID(body), fmt.Errorf("decode the admission review: %w", err)
	}
	switch {
	case review.Kind != reviewKind || review.APIVersion != v1 && review.APIVersion != v1beta1:
		return review, fmt.Errorf("decode the admission review: kind %q of version %q is not known", review.Kind, review.APIVersion)
	case review.Request == nil:
		return review, errors.New("the admission review has no request")
	case review.Request.UID == "":
		return review, errors.New("the admission request has no uid")
	}
	return review, nil
}

// recoverUID finds the UID of a request whose review does not decode, so that the answer can repeat it (B38).
func recoverUID(body []byte) *admissionv1.AdmissionReview {
	review := &admissionv1.AdmissionReview{}
	decoder := json.NewDecoder(bytes.NewReader(body))
	var path []string // the names of the objects that are open; "" for arrays and elements
	name := ""        // the name that the next value has
	inName := false   // the next string is a name
	for {
		token, err := decoder.Token()
		if err != nil {
			return review
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				path, name, inName = append(path, name), "", true
			case '[':
				path, name, inName = append(path, "["), "", false
			default:
				path = path[:len(path)-1]
				inName = len(path) > 0 && path[len(path)-1] != "["
			}
			continue
		case string:
			if inName {
				name, inName = token, false
				continue
			}
			if len(path) == 2 && path[1] == "request" && name == "uid" {
				review.Request = &admissionv1.AdmissionRequest{UID: types.UID(token)}
				return review
			}
		}
		inName = len(path) > 0 && path[len(path)-1] != "["
	}
}

// respond calls review and completes its answer. A panic is a denial: a bad object must not end the process.
func respond(ctx context.Context, review ReviewFunc, request *admissionv1.AdmissionRequest, log *slog.Logger) (response *admissionv1.AdmissionResponse) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Error("panic in an admission review", "kind", request.Kind.Kind,
				"object", request.Namespace+"/"+request.Name, "panic", reason, "stack", string(debug.Stack()))
			response = Deny("internal error: %v", reason)
		}
		if response == nil {
			response = Allow()
		}
		response.UID = request.UID
		show(response)
	}()
	return review(ctx, request)
}

// show makes what an answer says safe for the terminals on which it ends: it
// repeats names and values of objects, which hold whatever their writer wants.
func show(response *admissionv1.AdmissionResponse) {
	if response.Result != nil {
		response.Result.Message = printable.Lines(response.Result.Message)
	}
	for i, warning := range response.Warnings {
		response.Warnings[i] = printable.Text(warning)
	}
}

// Allow is an answer that allows.
func Allow(warnings ...string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
}

// Deny is an answer that denies with a message.
func Deny(format string, args ...any) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: fmt.Sprintf(format, args...)}}
}

// unusable is the policy dialect's answer to a review that it cannot use.
func unusable(uid types.UID, message string) *admissionv1.AdmissionReview {
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1, Kind: reviewKind},
		Response: &admissionv1.AdmissionResponse{
			UID:    uid,
			Result: &metav1.Status{Status: metav1.StatusFailure, Message: message, Reason: "InvalidRequest"},
		},
	}
}

// Unusable is an answer with which a policy endpoint refuses a request that is not for it.
func Unusable(format string, args ...any) *admissionv1.AdmissionResponse {
	return unusable("", fmt.Sprintf(format, args...)).Response
}
