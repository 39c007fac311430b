//go:build pins

// Package kubernetes pins the versions of the real node's Kubernetes programs. `go mod tidy` reads these imports; nothing compiles them.
package kubernetes

import (
	_ "k8s.io/dynamic-resource-allocation/kubeletplugin"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
