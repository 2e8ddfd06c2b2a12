// Package controlplane puts the objects of a Linkerd 2.20 control plane that
// tools look for into the API server.
//
// They are its namespace, accounts, roles, Services, config maps, Secrets and
// Deployments, under the names, labels and ports of the 2.20 chart ([Ensure]).
// Not among them: the CRDs and the webhook configurations, which other parts
// keep, and the heartbeat, which is off.
//
// # Deployments
//
// `linkerd check` wants a ready pod of each component. Config.Replicas is 1
// where controllers and kubelet run and make such pods from the Deployments,
// and 0 where they do not; then the Deployments are there and nothing waits.
// Nothing runs in the pods, they only look like the chart's: the
// control plane is this process.
//
// # Where the Services lead
//
// An endpoint can be neither loopback nor link-local, and by default this
// process listens on loopback only. Then the pods have ordinary addresses of the
// pod range at which nothing listens: Services, EndpointSlices and identities are as
// tools expect them, but a proxy has to be given the addresses that the program
// prints. If the program is told to listen on an address of this host
// (Config.Destination and Config.Policy on one IP, Config.Identity), the pods
// are annotated as processes at it, and the Services lead to the real thing.
//
// # Private keys
//
// The Secrets hold the keys that they are given: tools compare certificate and
// key of the webhooks, and identity reads its issuer. Whoever can read Secrets of
// the namespace can act as the mesh's authority, as in any cluster. A pair
// that is not configured makes no Secret.
package controlplane
