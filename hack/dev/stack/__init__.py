"""`hack/up`, `hack/down` and `hack/env`: a cluster with the product in it, and a shell environment for both."""
