//go:build pins

// Package natsserver pins the version of the NATS server of the tests. `go mod tidy` reads these imports; nothing compiles them.
package natsserver

import (
	_ "github.com/nats-io/nats-server/v2"
)
