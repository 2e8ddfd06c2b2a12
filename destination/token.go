package destination

import (
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/stream"
)

// contextToken is what a client tells of itself.
type contextToken struct {
	// Namespace is where the client's ServiceProfiles are (GetProfile only).
	Namespace string `json:"ns,omitempty"`
	// Node decides locality (Get only).
	Node string `json:"nodeName,omitempty"`
	// Pod is for the log.
	Pod string `json:"pod,omitempty"`
}

// call says who asks for path.
func (t contextToken) call(path string) stream.Call {
	client := t.Pod
	if client != "" && t.Namespace != "" {
		client = t.Namespace + "/" + client
	}
	return stream.Call{Client: client, Target: path}
}

// parseContextToken never fails a call: of a token that is no JSON object it
// keeps what could be read, or the namespace of the old form "ns:<namespace>"
// (D section 1.2).
func parseContextToken(text string, log *slog.Logger) contextToken {
	var token contextToken
	if text == "" {
		return token
	}
	err := json.Unmarshal([]byte(text), &token)
	if err == nil {
		return token
	}
	if key, value, ok := strings.Cut(text, ":"); ok && key == "ns" && !strings.Contains(value, ":") {
		return contextToken{Namespace: value}
	}
	log.Debug("context token is not fully readable", "token", text, "error", err)
	return token
}
