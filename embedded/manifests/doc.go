// Package manifests keeps the API server in step with directories of YAML.
//
// # How a change travels
//
//  1. A file system event only wakes; what it says is not read. Where inotify
//     has reached its limits the directories are polled, and a line says so.
//  2. A pass lists the trees. Files whose size, time or inode changed are read;
//     only documents whose text changed are parsed.
//  3. The objects found are compared with the inventory, the stored list of what
//     was applied before. The result is a [Plan]: a value that can be printed.
//  4. The plan is executed with server-side apply, sixteen requests at a time:
//     namespaces and CRDs first, webhooks last. Each new object is in the inventory
//     on disk before it is in the API server, so that after kill -9 nothing is
//     forgotten; an object that was recorded but not applied is applied again.
//
// # What is a manifest
//
// Files named *.yaml, *.yml and *.json, in all sub-directories and through
// symlinks. Names that begin with a dot are not looked at, which leaves out the
// files of editors and the ..data directories of projected volumes (the links
// that lead there are followed). A directory with a kustomization.yaml is one
// source, built as `kustomize build` does without network, plugins or Helm;
// nothing beneath it is applied by itself, and neither is a kustomization that
// another one uses, or a Component. A file is taken whole or not at all: while
// any part of it cannot be parsed, its last good state stands.
//
// # What deletes
//
// An object is deleted when the inventory has it, no file has it any more, and
// the file it came from has been unchanged (also: empty, or gone) for a second
// and can be read. Not deleted is anything from a file that is broken, from a
// directory that cannot be read, from a root that is gone or is not among this
// run's directories, or that has no objects any more, be it at the start (Config.PruneEmpty);
// and nothing whose name appears in a broken file, where it
// may just be moving to. Moving an object between files sends no request. Objects
// that exist without the directory (Config.Base, and the namespaces that Kubernetes
// does not let go) are restored or released instead, and so is what another manager
// has applied as well. Deletion is in the background; what is deleted and stays there,
// as others hold it, is listed by Status until it is gone.
//
// # Other writers
//
// A change by kubectl is reported, not put back: scaling a Deployment by hand is
// what one does with a cluster. Drift is found by field ownership, with one metadata
// list per kind every ten seconds, and listed by Status. What has drifted is put back when
// its file is saved, even without a change, and at the next start. Objects that
// went together with their namespace or their kind are applied again when it returns.
//
// # Servers behind the API server
//
// A group that an APIService leads elsewhere may be silent. Its objects wait then, none
// of them counts as gone, and everything else goes on.
//
// # Status
//
// A status in a manifest is applied in a second step through the status
// subresource. For kinds whose status somebody here writes ([DefaultStatusOwners]) it
// is left out, and one notice per kind says so. A pod that brings its status gets the
// annotation lite.linkerd.io/status: manual, which keeps the kubelet from mixing in.
package manifests
