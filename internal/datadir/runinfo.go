package datadir

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// RunInfo is the content of run.json: what other programs need to know about
// a running instance.
type RunInfo struct {
	PID     int    `json:"pid"`
	Version string `json:"version"`
	DataDir string `json:"dataDir"`
	// Dirs are the manifest directories.
	Dirs       []string `json:"dirs"`
	Kubeconfig string   `json:"kubeconfig"`
	// ControlPlaneNamespace and TrustDomain are part of identities.
	ControlPlaneNamespace string `json:"controlPlaneNamespace"`
	TrustDomain           string `json:"trustDomain"`
	// Addresses are those that are listened on, by the name of their flag.
	Addresses map[string]string `json:"addresses"`
	// Runs says that pods run as processes.
	Runs    bool      `json:"runs,omitempty"`
	Started time.Time `json:"started"`
	// Ready is false while the instance starts.
	Ready        bool       `json:"ready"`
	ReadySeconds float64    `json:"readySeconds,omitempty"`
	Parts        []PartTime `json:"parts"`
}

// PartTime says how long a part took to start.
type PartTime struct {
	Name string `json:"name"`
	// StartSeconds is from the part's own start, ReadySeconds from that of the program.
	StartSeconds float64 `json:"startSeconds"`
	ReadySeconds float64 `json:"readySeconds"`
}

// Write makes it what others read of the directory.
func (r *RunInfo) Write(dir *Dir) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(dir.RunFile(), append(data, '\n'), 0o600)
}

// ReadRunInfo reads a run.json.
func ReadRunInfo(path string) (*RunInfo, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading what runs: %w", err)
	}
	info := &RunInfo{}
	if err := json.Unmarshal(data, info); err != nil {
		return nil, fmt.Errorf("reading what runs: %s: %w", path, err)
	}
	return info, nil
}
