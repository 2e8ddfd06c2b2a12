package proxyshim_test

const idleClientEnv = "PROXYSHIM_IDLE_CLIENT"

func idleClient(string) {}
