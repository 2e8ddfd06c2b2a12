package apiserver

import "path/filepath"

// CAFiles are where the CA and its key are, for whoever signs for clients of the server.
func (k *Keys) CAFiles() (certFile, keyFile string) {
	dir := filepath.Dir(k.accountsFile)
	return filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
}

// AccountsKeyFile is where the key is that signs service account tokens.
func (k *Keys) AccountsKeyFile() string { return k.accountsFile }
