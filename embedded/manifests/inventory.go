package manifests

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
)

// inventoryFormat changes when older programs could not read the file.
const inventoryFormat = 1

// Record is an object that was applied, or may have been. It is an immutable
// value.
type Record struct {
	Key
	Version string `json:"version"`
	// File is the absolute path of the source that the object came from.
	File string `json:"file"`
	// Hash is of the object as applied; empty while it is not known to be.
	Hash string `json:"hash,omitempty"`
	// Fields is a hash of the fields that we own in the object; it tells drift.
	Fields string `json:"fields,omitempty"`
	// HasStatus is set if a status was applied.
	HasStatus bool `json:"hasStatus,omitempty"`
}

// inventory is the list of records on disk. It has one user at a time.
type inventory struct {
	path string // empty: not stored
	sync bool
	// cluster is the UID of the kube-system namespace: records of another cluster
	// mean nothing.
	cluster string
	records map[Key]Record
	// leaving is what was deleted and still exists, with the version it was applied in.
	leaving map[Key]string
	dirty   bool
	// written is when the file that was loaded was written.
	written time.Time
}

type inventoryFile struct {
	Format  int      `json:"format"`
	Cluster string   `json:"cluster"`
	Objects []Record `json:"objects"`
	Leaving []leaver `json:"leaving,omitempty"`
}

type leaver struct {
	Key
	Version string `json:"version"`
}

// loadInventory reads the inventory of stateDir; one of another cluster counts as
// empty, with replaced set.
func loadInventory(stateDir string, sync bool, cluster string) (inv *inventory, replaced bool, err error) {
	inv = &inventory{sync: sync, cluster: cluster, records: map[Key]Record{}, leaving: map[Key]string{}}
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
	inv.written = info.ModTime()
	for _, r := range content.Objects {
		inv.records[r.Key] = r
	}
	for _, l := range content.Leaving {
		inv.leaving[l.Key] = l.Version
	}
	return inv, false, nil
}

func (inv *inventory) put(r Record) {
	if inv.records[r.Key] != r {
		inv.records[r.Key] = r
		inv.dirty = true
	}
}

func (inv *inventory) drop(key Key) {
	if _, ok := inv.records[key]; ok {
		delete(inv.records, key)
		inv.dirty = true
	}
}

// leave notes that an object was deleted and may still be there, and left that it
// is gone.
func (inv *inventory) leave(key Key, version string) {
	inv.leaving[key], inv.dirty = version, true
}

func (inv *inventory) left(key Key) {
	delete(inv.leaving, key)
	inv.dirty = true
}

// unsettle marks those records that match as not applied.
func (inv *inventory) unsettle(match func(Record) bool) {
	for _, r := range inv.records {
		if r.Hash != "" && match(r) {
			r.Hash, r.Fields = "", ""
			inv.put(r)
		}
	}
}

// save replaces the file if anything changed since the last time: after a
// crash there is the old one or the new one.
func (inv *inventory) save() error {
	if !inv.dirty || inv.path == "" {
		return nil
	}
	var records []Record
	for _, key := range slices.SortedFunc(maps.Keys(inv.records), compareKeys) {
		records = append(records, inv.records[key])
	}
	var leaving []leaver
	for _, key := range slices.SortedFunc(maps.Keys(inv.leaving), compareKeys) {
		leaving = append(leaving, leaver{key, inv.leaving[key]})
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
