package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

// inventoryFormat changes when older programs could not read the file.
const inventoryFormat = 1

// inventory is the list of records on disk. It has one user at a time.
type Inventory struct {
	path string // empty: not stored
	sync bool
	// cluster is the UID of the kube-system namespace: records of another cluster
	// mean nothing.
	cluster string
	Records map[source.Key]plan.Record
	// Leaving is what was deleted and still exists, with the version it was applied in.
	Leaving map[source.Key]string
	dirty   bool
	// Written is when the file that was loaded was written.
	Written time.Time
}

type inventoryFile struct {
	Format  int           `json:"format"`
	Cluster string        `json:"cluster"`
	Objects []plan.Record `json:"objects"`
	Leaving []leaver      `json:"leaving,omitempty"`
}

type leaver struct {
	source.Key
	Version string `json:"version"`
}

// LoadInventory reads the inventory of stateDir; one of another cluster counts as
// empty, with replaced set.
func LoadInventory(stateDir string, sync bool, cluster string) (inv *Inventory, replaced bool, err error) {
	inv = &Inventory{sync: sync, cluster: cluster, Records: map[source.Key]plan.Record{}, Leaving: map[source.Key]string{}}
	if stateDir == "" {
		return inv, false, nil
	}
	inv.path = filepath.Join(stateDir, "inventory.json")
	data, err := os.ReadFile(inv.path)
	if errors.Is(err, fs.ErrNotExist) {
		return inv, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read inventory of applied manifests: %w", err)
	}
	var content inventoryFile
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, false, fmt.Errorf("inventory of applied manifests %s is damaged (%w): remove it to go on, what it listed is then no longer pruned", inv.path, err)
	}
	if content.Format != inventoryFormat {
		return nil, false, fmt.Errorf("inventory of applied manifests %s has format %d, this program knows %d", inv.path, content.Format, inventoryFormat)
	}
	if content.Cluster != cluster {
		return inv, len(content.Objects) > 0, nil
	}
	info, err := os.Stat(inv.path)
	if err != nil {
		return nil, false, fmt.Errorf("read inventory of applied manifests: %w", err)
	}
	inv.Written = info.ModTime()
	for _, r := range content.Objects {
		inv.Records[r.Key] = r
	}
	for _, l := range content.Leaving {
		inv.Leaving[l.Key] = l.Version
	}
	return inv, false, nil
}

func (inv *Inventory) Put(r plan.Record) {
	if inv.Records[r.Key] != r {
		inv.Records[r.Key] = r
		inv.dirty = true
	}
}

func (inv *Inventory) Drop(key source.Key) {
	if _, ok := inv.Records[key]; ok {
		delete(inv.Records, key)
		inv.dirty = true
	}
}

// Leave notes that an object was deleted and may still be there, and left that it
// is gone.
func (inv *Inventory) Leave(key source.Key, version string) {
	inv.Leaving[key], inv.dirty = version, true
}

func (inv *Inventory) Left(key source.Key) {
	delete(inv.Leaving, key)
	inv.dirty = true
}

// Unsettle marks those records that match as not applied.
func (inv *Inventory) Unsettle(match func(plan.Record) bool) {
	for _, r := range inv.Records {
		if r.Hash != "" && match(r) {
			r.Hash, r.Fields = "", ""
			inv.Put(r)
		}
	}
}

// Save replaces the file if anything changed since the last time: after a
// crash there is the old one or the new one.
func (inv *Inventory) Save() error {
	if !inv.dirty || inv.path == "" {
		return nil
	}
	var records []plan.Record
	for _, key := range slices.SortedFunc(maps.Keys(inv.Records), source.CompareKeys) {
		records = append(records, inv.Records[key])
	}
	var leaving []leaver
	for _, key := range slices.SortedFunc(maps.Keys(inv.Leaving), source.CompareKeys) {
		leaving = append(leaving, leaver{key, inv.Leaving[key]})
	}
	data, err := json.Marshal(inventoryFile{Format: inventoryFormat, Cluster: inv.cluster, Objects: records, Leaving: leaving})
	if err != nil {
		return fmt.Errorf("encode inventory of applied manifests: %w", err)
	}
	if err := writeAtomic(inv.path, data, inv.sync); err != nil {
		return fmt.Errorf("store inventory of applied manifests: %w", err)
	}
	inv.dirty = false
	return nil
}

// writeAtomic replaces path by data; with sync it is on disk on return.
func writeAtomic(path string, data []byte, sync bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".inventory-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error counts
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
