package diagnostics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// ask decodes what the admin address of an instance says at a path, whatever the status. That
// comes with an error, too, if there was an answer.
func ask(ctx context.Context, info *datadir.RunInfo, path string, into any) (status int, err error) {
	address := url.URL{Scheme: "http", Host: info.Addresses["admin"], Path: "/" + path}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking the instance: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return response.StatusCode, fmt.Errorf("asking the instance: %s: %w", response.Status, err)
	}
	return response.StatusCode, nil
}
