"""What `hack/up`, `hack/down` and `hack/env` do: a cluster, the product in it, and how to reach both."""
