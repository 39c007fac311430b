"""The access gateway: streams data to callers. It reads the cluster and writes nothing to it."""
