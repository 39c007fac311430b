// Command dns is CoreDNS with the plugins that a cluster's DNS needs, and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which plugins handle a query; a plugin that is not listed does nothing.
	dnsserver.Directives = []string{"health", "ready", "reload", "errors", "kubernetes"}
	coremain.Run()
}
